"""What Bitcoin peers say to each other, by the v1 and the v2 transport (BIP324), for peers that are played by a script.

Source: BIP324, BIP340 (tagged hash); Bitcoin Core b88bffe, net.cpp. v2 wants the package cryptography.
"""

import hashlib
import hmac
import os
import random
import struct

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    HAS_V2 = True
except ImportError:
    HAS_V2 = False

MAGIC = bytes.fromhex("fabfb5da")
V1_PREFIX = MAGIC + b"version\0\0\0\0\0"
P = 2**256 - 2**32 - 977
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
REKEY_INTERVAL = 224
GARBAGE_MAX = 4095
SHORT = {name: number for number, name in enumerate(
    b"addr block blocktxn cmpctblock feefilter filteradd filterclear filterload getblocks getblocktxn getdata getheaders"
    b" headers inv mempool merkleblock notfound ping pong sendcmpct tx getcfilters cfilter getcfheaders cfheaders"
    b" getcfcheckpt cfcheckpt addrv2".split(), 1)}
NAMES = {number: name for name, number in SHORT.items()}


def hash256(data):
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def compact(count):
    if count < 0xFD:
        return bytes([count])
    return b"\xfd" + struct.pack("<H", count) if count < 0x10000 else b"\xfe" + struct.pack("<I", count)


def frame(name, payload=b"", checksum=None, size=None):
    """A v1 message; another checksum or size where one is given."""
    size = len(payload) if size is None else size
    return MAGIC + name.ljust(12, b"\0") + struct.pack("<I", size) + (checksum or hash256(payload)[:4]) + payload


# The curve of BIP324's key exchange.


def root(x):
    y = pow(x, (P + 1) // 4, P)
    return y if y * y % P == x % P else None


def inverse(x):
    return pow(x, -1, P)


ROOT_3 = root(P - 3)


def is_x(x):
    return root(x**3 + 7) is not None


def add(a, b):
    if a is None or b is None:
        return b if a is None else a
    if a[0] == b[0] and (a[1] + b[1]) % P == 0:
        return None
    slope = 3 * a[0] * a[0] * inverse(2 * a[1]) if a == b else (b[1] - a[1]) * inverse(b[0] - a[0])
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def multiply(point, factor):
    out = None
    while factor:
        if factor & 1:
            out = add(out, point)
        point, factor = add(point, point), factor >> 1
    return out


def decode(key):
    """X of 64 bytes: BIP324, XSwiftEC."""
    u, t = int.from_bytes(key[:32], "big") % P or 1, int.from_bytes(key[32:], "big") % P or 1
    if (u**3 + t * t + 7) % P == 0:
        t = 2 * t % P
    x = (u**3 + 7 - t * t) * inverse(2 * t) % P
    y = (x + t) * inverse(ROOT_3 * u) % P
    tried = (u + 4 * y * y) % P, (-x * inverse(y) - u) * inverse(2) % P, (x * inverse(y) - u) * inverse(2) % P
    return next(x for x in tried if is_x(x))


def encoded(x):
    """64 bytes that decode to X: BIP324, XSwiftECInv with case 0 alone, which one random u in four has."""
    while True:
        u = random.randrange(1, P)
        if is_x(-x - u):
            continue
        bottom = (u * u + u * x + x * x) % P
        w = root(-(u**3 + 7) * inverse(bottom) % P) if bottom else None
        if w is not None:
            t = -w * (u * (1 - ROOT_3) * inverse(2) + x) % P
            key = u.to_bytes(32, "big") + t.to_bytes(32, "big")
            assert decode(key) == x
            return key


class LengthCipher:
    """FSChaCha20: the lengths of packets."""

    def __init__(self, key):
        self.key, self.epoch = key, -1
        self.restart(key)

    def restart(self, key):
        self.epoch, self.left = self.epoch + 1, REKEY_INTERVAL
        nonce = bytes(8) + struct.pack("<Q", self.epoch)
        self.stream = Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor()

    def crypt(self, data):
        out, self.left = self.stream.update(data), self.left - 1
        if not self.left:
            self.restart(self.stream.update(bytes(32)))
        return out


class PacketCipher:
    """FSChaCha20Poly1305: the packets."""

    def __init__(self, key):
        self.cipher, self.count = ChaCha20Poly1305(key), 0

    def crypt(self, encrypts, data, aad):
        nonce = struct.pack("<IQ", self.count % REKEY_INTERVAL, self.count // REKEY_INTERVAL)
        out = self.cipher.encrypt(nonce, data, aad) if encrypts else self.cipher.decrypt(nonce, data, aad)
        self.count += 1
        if self.count % REKEY_INTERVAL == 0:
            nonce = b"\xff" * 4 + struct.pack("<Q", self.count // REKEY_INTERVAL - 1)
            self.cipher = ChaCha20Poly1305(self.cipher.encrypt(nonce, bytes(32), b"")[:32])
        return out


class Ended(Exception):
    """The other end closed the connection."""


class V1:
    is_v2 = False

    def __init__(self, read, write, first=b""):
        self.read_more, self.write, self.first = read, write, first

    def read(self, count):
        have, self.first = self.first[:count], self.first[count:]
        return have + self.read_more(count - len(have))

    def send(self, name, payload=b""):
        self.write(frame(name, payload))

    def receive(self):
        head = self.read(24)
        return head[4:16].rstrip(b"\0"), self.read(struct.unpack_from("<I", head, 16)[0])


class V2:
    is_v2 = True

    def __init__(self, read, write, initiates, first=b"", handshake=True):
        self.read_more, self.write, self.first = read, write, first
        secret = random.randrange(1, ORDER)
        ours, garbage = encoded(multiply(G, secret)[0]), os.urandom(random.randrange(100))
        self.write(ours + garbage)
        if not handshake:
            return
        theirs = self.read(64)
        x = decode(theirs)
        shared = multiply((x, root(x**3 + 7)), secret)[0].to_bytes(32, "big")
        tag = hashlib.sha256(b"bip324_ellswift_xonly_ecdh").digest()
        both = ours + theirs if initiates else theirs + ours
        self.derive(hashlib.sha256(tag + tag + both + shared).digest(), initiates)
        self.write(self.terminators[0] + self.packet(b"", aad=garbage))
        seen = self.read(16)
        while seen[-16:] != self.terminators[1]:
            if len(seen) > GARBAGE_MAX + 16:
                raise Ended("no garbage terminator")
            seen += self.read(1)
        aad = seen[:-16]
        while self.open_packet(aad) is None:
            aad = b""

    def read(self, count):
        have, self.first = self.first[:count], self.first[count:]
        return have + self.read_more(count - len(have))

    def derive(self, secret, initiates):
        start = hmac.digest(b"bitcoin_v2_shared_secret" + MAGIC, secret, "sha256")

        def key(name):
            return hmac.digest(start, name + b"\1", "sha256")

        us, them = (b"initiator", b"responder") if initiates else (b"responder", b"initiator")
        self.send_length, self.send_packet = LengthCipher(key(us + b"_L")), PacketCipher(key(us + b"_P"))
        self.receive_length, self.receive_packet = LengthCipher(key(them + b"_L")), PacketCipher(key(them + b"_P"))
        ends = key(b"garbage_terminators")
        self.terminators = (ends[:16], ends[16:]) if initiates else (ends[16:], ends[:16])

    def packet(self, contents, aad=b"", is_decoy=False):
        length = self.send_length.crypt(struct.pack("<I", len(contents))[:3])
        return length + self.send_packet.crypt(True, bytes([is_decoy << 7]) + contents, aad)

    def open_packet(self, aad=b""):
        """Contents, or None of a decoy."""
        length = int.from_bytes(self.receive_length.crypt(self.read(3)), "little")
        try:
            data = self.receive_packet.crypt(False, self.read(length + 17), aad)
        except InvalidTag:
            raise Ended("a packet does not decrypt") from None
        return None if data[0] & 0x80 else data[1:]

    def contents(self, name, payload):
        return (bytes([SHORT[name]]) if name in SHORT else b"\0" + name.ljust(12, b"\0")) + payload

    def send(self, name, payload=b""):
        self.write(self.packet(self.contents(name, payload)))

    def receive(self):
        while (contents := self.open_packet()) is None:
            pass
        if contents[0]:
            return NAMES.get(contents[0], b"?"), contents[1:]
        return contents[1:13].rstrip(b"\0"), contents[13:]


def responder(read, write, v2=True):
    """The transport that a peer which connects to us begins with; v1 alone where `v2` is false."""
    if not v2:
        return V1(read, write)
    first = b""
    while len(first) < 16:
        first += read(1)
        if first != V1_PREFIX[: len(first)]:
            return V2(read, write, False, first)
    return V1(read, write, first)

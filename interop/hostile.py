"""Kinds of hostile peers, under the names of docs/peers.md: what each does over a socket. peers.py plays them.

A kind is a greeting and what it does with each message; what it leaves it answers as an honest peer does. All chains are of
regtest, with a coinbase in each block and nothing else.
"""

import hashlib
import os
import struct
import threading
import time

from wire import V1, V2, Ended, compact, frame, hash256, responder

BITS = 0x207FFFFF
TARGET = 0x7FFFFF << 232
GENESIS = bytes.fromhex("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206")[::-1]
GENESIS_TIME = 1296688602
NETWORK, WITNESS = 1, 8
BLOCK, WITNESS_BLOCK = 2, 0x40000002
COUNT_MAX = 50_000
HONEST_COUNT = 200  # Blocks of the honest chain of peers.py.


def header(prev, root, when, bits=BITS, is_met=True):
    start = struct.pack("<I", 0x20000000) + prev + root + struct.pack("<II", when, bits)
    nonce = 0
    while (int.from_bytes(hash256(start + struct.pack("<I", nonce))[::-1], "big") <= TARGET) != is_met:
        nonce += 1
    return start + struct.pack("<I", nonce)


def coinbase(height, salt, takes=0):
    data = height.to_bytes((height.bit_length() + 8) // 8, "little")
    number = bytes([0x50 + height]) if height <= 16 else bytes([len(data)]) + data
    script = number + bytes([len(salt)]) + salt
    start = struct.pack("<I", 1) + b"\1" + bytes(32) + b"\xff" * 4 + bytes([len(script)]) + script + b"\xff" * 4
    return start + b"\1" + struct.pack("<Q", takes) + b"\1\x51" + bytes(4)


class Chain:
    """Blocks on genesis; the one at height `bad` takes too much."""

    def __init__(self, count, salt=b"salt", bad=None, end=None):
        self.blocks = []
        end = int(time.time()) - 600 if end is None else end
        for height in range(len(self.blocks) + 1, count + 1):
            prev = hash256(self.blocks[-1][:80]) if self.blocks else GENESIS
            made = coinbase(height, salt, 1 << 40 if height == bad else 0)
            when = max(GENESIS_TIME + height, end - 60 * (count - height))
            self.blocks.append(header(prev, hash256(made), when) + b"\1" + made)
        self.hashes = [hash256(block[:80]) for block in self.blocks]
        self.place = {hash_: place for place, hash_ in enumerate(self.hashes)}

    def headers_after(self, locator):
        known = next((self.place[hash_] + 1 for hash_ in locator if hash_ in self.place), 0)
        return [block[:80] for block in self.blocks[known : known + 2000]]


def headers(of):
    return compact(len(of)) + b"".join(head + b"\0" for head in of)


def inventory(hashes, kind=BLOCK):
    return compact(len(hashes)) + b"".join(struct.pack("<I", kind) + hash_ for hash_ in hashes)


def locator(hashes):
    return struct.pack("<I", 70016) + compact(len(hashes)) + b"".join(hashes) + bytes(32)


def listed(payload, step, skip=0):
    """Hashes of an inventory or a locator."""
    count, at = (payload[0], 1) if payload[0] < 253 else (struct.unpack_from("<H", payload, 1)[0], 3)
    return [payload[at + i * step + skip : at + i * step + skip + 32] for i in range(count)]


def version(services=NETWORK | WITNESS, number=70016, when=None, agent=b"/test/", height=0):
    address = struct.pack("<Q", services) + bytes(10) + b"\xff\xff" + bytes(6)
    when = int(time.time()) if when is None else when
    return struct.pack("<IQq", number, services, when) + address * 2 + os.urandom(8) + compact(len(agent)) + agent + struct.pack("<i", height) + b"\0"


class Connection:
    """One connection of a scripted peer."""

    def __init__(self, peer, sock, initiates):
        self.peer, self.socket, self.initiates = peer, sock, initiates
        self.pause = 0.0  # Seconds between two bytes.
        self.left = None  # Bytes that it still sends.
        self.is_ready, self.is_open, self.lock = False, True, threading.Lock()
        self.state = {}

    def read(self, count):
        data = bytearray()
        while len(data) < count:
            more = self.socket.recv(min(count - len(data), 1 << 20))
            if not more:
                raise Ended("closed")
            data += more
        return bytes(data)

    def write(self, data):
        with self.lock:
            if self.left is not None:
                data, self.left = data[: self.left], max(0, self.left - len(data))
            if not self.pause:
                return self.socket.sendall(data)
            for byte in data:
                self.socket.sendall(bytes([byte]))
                time.sleep(self.pause)

    def send(self, name, payload=b""):
        self.transport.send(name, payload)

    def idle(self):
        """Goes on without reading, until the peer ends."""
        while self.peer.goes_on:
            time.sleep(0.05)
        raise Ended("the test is over")

    def run(self):
        kind = self.peer.kind
        try:
            if kind.first(self):
                return
            v2 = self.peer.v2
            if self.initiates:
                self.transport = V2(self.read, self.write, True) if v2 else V1(self.read, self.write)
            else:
                self.transport = responder(self.read, self.write, v2)
            says_verack = kind.hello(self) if self.initiates else None
            while True:
                name, payload = self.transport.receive()
                if name == b"version":
                    says_verack = kind.hello(self) if says_verack is None else says_verack
                    if says_verack:
                        self.send(b"verack")
                    continue
                if name == b"verack":
                    self.is_ready = True
                    self.peer.ready.set()
                if not kind.on(self, name, payload):
                    self.answer(name, payload)
        except (Ended, OSError):
            pass
        finally:
            self.is_open = False
            self.peer.closed_at = self.peer.closed_at or time.time()
            self.socket.close()

    def answer(self, name, payload):
        chain = self.peer.chain
        if name == b"ping":
            self.send(b"pong", payload)
        elif name == b"getheaders":
            self.send(b"headers", headers(chain.headers_after(listed(payload[4:], 32))))
        elif name == b"getdata":
            self.give(listed(payload, 36, 4))

    def give(self, hashes, below=1 << 30, change=None):
        chain = self.peer.chain
        for hash_ in hashes:
            if chain.place.get(hash_, below) < below:
                block = chain.blocks[chain.place[hash_]]
                self.send(b"block", change(block) if change else block)
            else:
                self.send(b"notfound", inventory([hash_], WITNESS_BLOCK))


class Kind:
    """An honest peer; a kind changes some of it."""

    def __init__(self, name="honest", on=None, hello=None, first=None, chain="good", transports="12"):
        self.name, self._on, self._hello, self._first = name, on, hello, first
        self.chain, self.transports = chain, transports

    def first(self, c):
        """What it does with the bare socket; whether that is all."""
        return bool(self._first and self._first(c))

    def hello(self, c):
        if self._hello:
            return self._hello(c) is not False
        c.send(b"version", version(height=len(c.peer.chain.blocks)))
        return True

    def on(self, c, name, payload):
        return bool(self._on and self._on(c, name, payload))


def swallows(*names):
    return lambda c, name, payload: name in names


def once(act, name=b"getheaders", instead=False):
    """Does something when it is asked for the first time, and answers then or not."""

    def on(c, asked, payload):
        if asked != name or c.state.get(act):
            return False
        c.state[act] = True
        act(c)
        return instead

    return on


def each(act, name=b"getheaders"):
    """Does something in place of every answer."""

    def on(c, asked, payload):
        if asked == name:
            act(c)
        return asked == name

    return on


def gives(**how):
    """Answers every getdata: with blocks below a height, or with changed ones."""

    def on(c, name, payload):
        if name == b"getdata":
            c.give(listed(payload, 36, 4), **how)
        return name == b"getdata"

    return on


def last_header(later=1, **change):
    """The honest headers, and one more that breaks a rule."""

    def act(c):
        good = c.peer.chain
        top = good.blocks[-1][:80]
        when = struct.unpack_from("<I", top, 68)[0] + later
        bad = header(hash256(top), hashlib.sha256(b"no body").digest(), when, **change)
        c.send(b"headers", headers([block[:80] for block in good.blocks[-1999:]] + [bad]))

    return each(act)


def unread(act):
    def all_of_it(c):
        c.socket.settimeout(None)
        act(c)
        c.idle()

    return once(all_of_it)


def cut_block(c):
    c.left = 40
    c.send(b"block", c.peer.chain.blocks[0])


def slow(c):
    c.pause = 1.0


def endless_headers(c):
    """2,000 headers on those before, each time."""
    prev = c.state.get("prev", GENESIS)
    when = c.state.get("when", GENESIS_TIME)
    out = []
    for _ in range(2000):
        when += 1
        out.append(header(prev, bytes(32), when))
        prev = hash256(out[-1])
    c.state["prev"], c.state["when"] = prev, when
    c.send(b"headers", headers(out))


def one_chain(count, salt):
    return [block[:80] for block in Chain(count, salt).blocks]


def another_chain(c):
    c.state["salt"] = c.state.get("salt", 0) + 1
    c.send(b"headers", headers(one_chain(210, b"other %d" % c.state["salt"])))


def all_again(c):
    c.send(b"headers", headers(c.peer.chain.headers_after([])))
    for block in c.peer.chain.blocks * 20:
        c.send(b"block", block)


def drips_greeting(c):
    c.pause = 1.0
    c.send(b"version", version())


def plain(**change):
    def hello(c):
        c.send(b"version", version(**change))

    return hello


def twice(c):
    c.send(b"version", version())
    c.send(b"version", version(services=0))


def talks_first(c):
    for name, payload in ((b"verack", b""), (b"ping", bytes(8)), (b"headers", headers(one_chain(5, b"x")))):
        c.send(name, payload)
    c.send(b"version", version())


def addresses(count):
    one = struct.pack("<I", int(time.time())) + b"\1\1\4" + bytes([60, 1, 1, 1]) + struct.pack(">H", 8333)
    return compact(count) + one * count


def raw(data):
    return once(lambda c: c.write(data))


def say(name, payload=b"", times=1):
    return once(lambda c: [c.send(name, payload) for _ in range(times)])


def says_all(*messages):
    """These messages, each (name, payload, times)."""
    return once(lambda c: [c.send(name, payload) for name, payload, times in messages for _ in range(times)])


def talks_before_verack(c):
    c.send(b"version", version())
    c.send(b"headers", headers(one_chain(5, b"x")))
    c.send(b"block", c.peer.chain.blocks[0])
    c.send(b"getheaders", locator([GENESIS]))
    return False


def junk_first(c):
    for _ in range(100):
        c.send(b"junk", b"\7" * 500)
    c.send(b"version", version())


def reversed_blocks(c, name, payload):
    if name == b"getdata":
        c.give(listed(payload, 36, 4)[::-1])
    return name == b"getdata"


def silent_with_invs(c, name, payload):
    if name == b"ping":
        c.send(b"inv", inventory(c.peer.chain.hashes))
    return name in (b"getheaders", b"getdata")


def forks_everywhere(c):
    c.send(b"headers", headers(c.peer.chain.headers_after([])))
    for place, block in enumerate(c.peer.chain.blocks[:60]):
        prev, out = block[:80], []
        for i in range(3):
            when = struct.unpack_from("<I", prev, 68)[0] + 1
            out.append(header(hash256(prev), hashlib.sha256(b"%d %d" % (place, i)).digest(), when))
            prev = out[-1]
        c.send(b"headers", headers(out))


def closes_inside(c):
    c.left = 60
    c.send(b"block", c.peer.chain.blocks[0])
    c.socket.shutdown(2)


def with_transactions(c):
    heads = [block[:80] + b"\xfd\xff\xff" for block in c.peer.chain.blocks]
    c.send(b"headers", compact(len(heads)) + b"".join(heads))


def low_then_none(c):
    c.send(b"headers", headers([] if c.state.get("sent") else REPEATED))
    c.state["sent"] = True


def doubled(block):
    """The block with its coinbase twice: its Merkle root is another, as that of any odd tree is the same (CVE-2012-2459)."""
    return block[:80] + b"\2" + block[81:] * 2


def old_address(when, ip):
    return struct.pack("<I", when) + b"\xff" * 8 + bytes(10) + b"\xff\xff" + bytes(ip) + struct.pack(">H", 8333)


def of_kind(kind, payload):
    return struct.pack("<I", kind) + payload


def filter_range(c):
    return b"\0" + struct.pack("<I", 1) + c.peer.chain.hashes[-1]


TOR_V2 = bytes(4) + b"\x09\3\x0a" + b"\x08" * 10 + b"\x20\x8d"
THINGS = b"".join(of_kind(0x1000 + i, b"\6" * 32) for i in range(1000))

UNKNOWN = [hashlib.sha256(b"%d" % n).digest() for n in range(COUNT_MAX)]
STRAY = Chain(120, b"stray", end=GENESIS_TIME + 90_000)
REPEATED = one_chain(2000, b"again")

KINDS = [
    Kind("never answers the version message", hello=lambda c: False),
    Kind("never says verack", hello=lambda c: bool(c.send(b"version", version()))),
    Kind("has an obsolete protocol version", hello=plain(number=31_799)),
    Kind("disconnects immediately", first=lambda c: True),
    Kind("sends its handshake at a byte a second", hello=drips_greeting),
    Kind("sends a truncated version message", hello=lambda c: c.send(b"version", b"\x80" * 30)),
    Kind("has a user agent of 300 bytes", hello=plain(agent=b"a" * 300)),
    Kind("sends its version twice", hello=twice),
    Kind("sends messages before its version", hello=talks_first),
    Kind("sends an impossible time and height", hello=plain(when=-(1 << 63), height=-(1 << 31))),
    Kind("has a protocol version of 2012", hello=plain(number=60_002)),
    Kind("offers no service", hello=plain(services=0)),
    Kind("offers no witnesses", hello=plain(services=NETWORK)),
    Kind("does not answer getheaders", swallows(b"getheaders")),
    Kind("does not answer getdata", swallows(b"getdata")),
    Kind("answers every getdata with notfound", gives(below=0)),
    Kind("always answers getheaders with no headers", each(lambda c: c.send(b"headers", b"\0"))),
    Kind("disconnects at a request for headers", each(lambda c: c.socket.shutdown(2))),
    Kind("disconnects at a request for blocks", each(lambda c: c.socket.shutdown(2), b"getdata")),
    Kind("sends blocks with a wrong body", gives(change=lambda b: b[:-1] + bytes([b[-1] ^ 1]))),
    Kind("sends truncated blocks", gives(change=lambda b: b[:100])),
    Kind("sends blocks that do not deserialize", gives(change=lambda b: b[:50])),
    Kind("sends blocks with trailing bytes", gives(change=lambda b: b + bytes(9))),
    Kind("sends headers as blocks", gives(change=lambda b: b[:80])),
    Kind("sends blocks of 4 MB of zeros", gives(change=lambda b: b + bytes(3_999_000 - len(b)))),
    Kind("sends each block twice", lambda c, n, p: n == b"getdata" and not [c.give([h, h]) for h in listed(p, 36, 4)] or n == b"getdata"),
    Kind("sends other blocks than requested", each(lambda c: c.send(b"block", c.peer.chain.blocks[-1]), b"getdata")),
    Kind("sends half of a block, then nothing", once(cut_block, b"getdata", instead=True)),
    Kind("sends a block at a byte a second", once(slow, b"getdata")),
    Kind("sends all blocks repeatedly, unrequested", each(all_again)),
    Kind("has more work, with an invalid block", chain="invalid"),
    Kind("has more work, but sends none of its blocks", gives(below=0), chain="longer"),
    Kind("has more work, but sends only ten blocks", gives(below=10), chain="longer"),
    Kind("has a fork of the same work", chain="equal"),
    Kind("has a header without proof of work", last_header(is_met=False)),
    Kind("has a header of the wrong difficulty", last_header(bits=0x207FFFFE)),
    Kind("has a header that is easier than allowed", last_header(bits=0x2100FFFF)),
    Kind("has a header older than its parent", last_header(later=-1_000_000)),
    Kind("has a header years ahead of the clock", last_header(later=9 * 365 * 86_400)),
    Kind("sends headers with a gap", each(lambda c: c.send(b"headers", headers([b[:80] for b in c.peer.chain.blocks if b != c.peer.chain.blocks[5]])))),
    Kind("sends headers in reverse order", each(lambda c: c.send(b"headers", headers([b[:80] for b in c.peer.chain.blocks[::-1]])))),
    Kind("sends its headers one by one", each(lambda c: [c.send(b"headers", headers([b[:80]])) for b in c.peer.chain.blocks])),
    Kind("sends its headers one by one, the last first", each(lambda c: [c.send(b"headers", headers([b[:80]])) for b in c.peer.chain.blocks[::-1]])),
    Kind("repeats the same 2,000 headers", each(lambda c: c.send(b"headers", headers(REPEATED)))),
    Kind("sends headers indefinitely", each(endless_headers)),
    Kind("sends a header at a byte a second", once(slow)),
    Kind("sends headers that connect to nothing", each(lambda c: [c.send(b"headers", headers([b[:80]])) for b in STRAY.blocks[40:100]])),
    Kind("sends blocks that connect to nothing", each(lambda c: [c.send(b"block", b) for b in STRAY.blocks[40:80]])),
    Kind("sends its blocks before their headers", once(lambda c: [c.send(b"block", b) for b in c.peer.chain.blocks])),
    Kind("sends empty headers 10,000 times", each(lambda c: [c.send(b"headers", b"\0") for _ in range(10_000)])),
    Kind("answers getheaders with an inv", each(lambda c: c.send(b"inv", inventory(c.peer.chain.hashes)))),
    Kind("sends another chain at each request", each(another_chain)),
    Kind("announces unknown blocks indefinitely", lambda c, n, p: n in (b"getheaders", b"ping") and c.send(b"inv", inventory(UNKNOWN[:500])) and False),
    Kind("announces 50,000 transactions", say(b"inv", inventory(UNKNOWN, 1))),
    Kind("announces 50,001 blocks", say(b"inv", compact(50_001) + bytes(36) * 50_001)),
    Kind("asks for 50,001 blocks", say(b"getdata", compact(50_001) + bytes(36) * 50_001)),
    Kind("asks for 50,000 transactions", say(b"getdata", inventory(UNKNOWN, 1))),
    Kind("asks for 50,000 transactions ten times, but reads nothing", unread(lambda c: [c.send(b"getdata", inventory(UNKNOWN, 1)) for _ in range(10)])),
    Kind("asks for headers 20,000 times, but reads nothing", unread(lambda c: [c.send(b"getheaders", locator([GENESIS])) for _ in range(20_000)])),
    Kind("asks for 5,000 unknown blocks", say(b"getdata", inventory(UNKNOWN[:5000]))),
    Kind("asks for the same block 5,000 times", say(b"getdata", inventory([GENESIS] * 5000, WITNESS_BLOCK))),
    Kind("asks for headers 500 times", say(b"getheaders", locator([GENESIS]), 500)),
    Kind("asks with a locator of 102 hashes", say(b"getheaders", locator([bytes(32)] * 102))),
    Kind("asks for blocks by getblocks 500 times", say(b"getblocks", locator([GENESIS]), 500)),
    Kind("sends notfound for 50,000 blocks", say(b"notfound", inventory(UNKNOWN))),
    Kind("pings 10,000 times", say(b"ping", bytes(8), 10_000)),
    Kind("sends 100,000 addresses", once(lambda c: [c.send(b"addrv2", addresses(1000)) for _ in range(100)])),
    Kind("sends 1,001 addresses", say(b"addrv2", addresses(1001))),
    Kind("asks for addresses 1,000 times", say(b"getaddr", b"", 1000)),
    Kind("sends verack repeatedly", say(b"verack", b"", 1000)),
    Kind("sends sendaddrv2 after verack", say(b"sendaddrv2")),
    Kind("sends twenty unknown messages of 4 MB", say(b"junk", bytes(3_999_900), 20)),
    Kind("counts more headers than it sends", say(b"headers", b"\xfd\xd0\7\1\2\3")),
    Kind("counts 4 billion headers", say(b"headers", b"\xfe\xff\xff\xff\xff")),
    Kind("sends 2,001 headers", say(b"headers", compact(2001) + bytes(81) * 2001)),
    Kind("sends bytes that are not a message", raw(b"\x5a" * 4000), transports="1"),
    Kind("announces a message of 4 GB", raw(frame(b"headers", size=0xFFFFFFFF)), transports="1"),
    Kind("sends a message with a wrong checksum", raw(frame(b"inv", b"\0", checksum=b"\1\2\3\4")), transports="1"),
    Kind("sends a command that is not text", raw(frame(b"pi\xffng", bytes(8))), transports="1"),
    Kind("sends half of a message, then nothing", once(lambda c: (setattr(c, "left", 100), c.send(b"headers", bytes(2000))), instead=True)),
    Kind("sends a packet with a changed bit", once(lambda c: c.write(c.transport.packet(b"\x12" + bytes(8))[:-1] + b"!")), transports="2"),
    Kind("sends 10,000 decoy packets", once(lambda c: c.write(b"".join(c.transport.packet(bytes(300), is_decoy=True) for _ in range(10_000)))), transports="2"),
    # The rest of the table that the simulated network plays.
    Kind("sends messages before verack", hello=talks_before_verack),
    Kind("answers pings that were not sent", say(b"pong", bytes(8), 1000)),
    Kind("sends blocks in reverse order", reversed_blocks),
    Kind("has more work, but does not send the last block", gives(below=HONEST_COUNT - 1), chain="longer"),
    Kind("sends an empty packet", once(lambda c: c.write(c.transport.packet(b""))), transports="2"),
    Kind("asks with a locator of 101 hashes 1,000 times", say(b"getheaders", locator([bytes(32)] * 101), 1000)),
    Kind("sends an address of a wrong length", say(b"addrv2", bytes([1, 0, 0, 0, 0, 9, 1, 3, 1, 2, 3, 0, 1]))),
    Kind("sends addresses of unknown networks", say(b"addrv2", compact(1000) + bytes([0, 0, 0, 0, 9, 99, 2, 3, 1, 0, 1]) * 1000)),
    Kind("pings without a nonce, answers with one byte", says_all((b"ping", b"", 1), (b"pong", b"\1", 1))),
    Kind("sends messages of services not offered", says_all(*((n, b"\3" * 40, 1) for n in (b"wtxidrelay", b"sendtxrcncl", b"filterload", b"mempool", b"getblocktxn", b"feature")))),
    Kind("sends unrequested compact blocks", once(lambda c: [c.send(n, b[:80] + bytes(9)) for b in c.peer.chain.blocks[:40] for n in (b"cmpctblock", b"blocktxn")])),
    Kind("asks for filtered blocks", say(b"getdata", compact(100) + of_kind(3, b"\4" * 32) * 100)),
    Kind("sends headers with transaction counts", each(with_transactions)),
    Kind("announces the honest chain, but sends no blocks", silent_with_invs),
    Kind("forks off at each height", each(forks_everywhere)),
    Kind("disconnects within a block", once(closes_inside, b"getdata", instead=True)),
    # Messages of other services, counts and lengths that cannot be, blocks that only look like blocks.
    Kind("has line ends and escapes in its user agent", hello=plain(agent=b"/x/\r\n2026-01-01T00:00:00Z \x1b[2J%n%s\0")),
    Kind("has a protocol version of the year 3000", hello=plain(number=0x7FFFFFFF)),
    Kind("offers every service", hello=plain(services=(1 << 64) - 1)),
    Kind("sends unknown messages before its version", hello=junk_first),
    Kind("sends sendheaders 10,000 times", say(b"sendheaders", b"", 10_000)),
    Kind("sends wtxidrelay after verack", say(b"wtxidrelay")),
    Kind("sends sendtxrcncl after verack", say(b"sendtxrcncl", b"\1" * 12, 3)),
    Kind("sets a fee filter above the money supply", say(b"feefilter", b"\xff" * 8, 100)),
    Kind("clears a bloom filter", say(b"filterclear")),
    Kind("adds to a bloom filter", say(b"filteradd", b"\4\1\2\3\4")),
    Kind("loads an empty bloom filter", say(b"filterload", bytes(10))),
    Kind("asks for the mempool", say(b"mempool")),
    Kind("asks for compact filters that are not offered", once(lambda c: c.send(b"getcfilters", filter_range(c)))),
    Kind("asks for filter headers that are not offered", once(lambda c: c.send(b"getcfheaders", filter_range(c)))),
    Kind("asks for filter checkpoints that are not offered", say(b"getcfcheckpt", bytes(33))),
    Kind("sends alerts", say(b"alert", b"\x60" * 200, 100)),
    Kind("sends 10,000 transactions that do not deserialize", say(b"tx", b"\xfd" * 60, 10_000)),
    Kind("sends a transaction of 3.9 MB", say(b"tx", b"\1" * 3_900_000)),
    Kind("asks for transactions beyond the end of a block", once(lambda c: [c.send(b"getblocktxn", c.peer.chain.hashes[0] + b"\2\xfe\xff\xff\xff\xff\xfd\xff\xff") for _ in range(100)])),
    Kind("sends compact blocks whose short ids are all the same", once(lambda c: [c.send(b"cmpctblock", c.peer.chain.blocks[0][:80] + b"\x09" * 8 + compact(10_000) + b"\5" * 60_000) for _ in range(10)])),
    Kind("sends unrequested transactions of a block", once(lambda c: [c.send(b"blocktxn", c.peer.chain.hashes[0] + b"\xfd\xff\xff") for _ in range(100)])),
    Kind("announces the same block 50,000 times", once(lambda c: c.send(b"inv", inventory(UNKNOWN[:1] * 50_000)))),
    Kind("announces and asks for things of unknown kinds", says_all((b"inv", compact(1000) + THINGS, 1), (b"getdata", compact(1000) + THINGS, 1))),
    Kind("sends empty inventories 10,000 times", says_all(*((n, b"\0", 10_000) for n in (b"inv", b"getdata", b"notfound")))),
    Kind("counts 4 billion announcements", say(b"inv", b"\xfe\xff\xff\xff\xff\2")),
    Kind("counts 4 billion addresses", say(b"addr", b"\xfe\xff\xff\xff\xff\2")),
    Kind("sends a count that is not minimally encoded", say(b"headers", b"\xfd\1\0\7")),
    Kind("asks for headers with an empty locator 1,000 times", say(b"getheaders", locator([])[:-32] + b"\7" * 32, 1000)),
    Kind("asks by getblocks with a locator of 102 hashes", say(b"getblocks", locator([bytes(32)] * 102))),
    Kind("sends addresses of the year 2106 and of this machine", say(b"addr", b"\3" + old_address(0xFFFFFFFF, [60, 1, 2, 3]) + old_address(0, [127, 0, 0, 1]) + old_address(1, [0] * 4), 100)),
    Kind("sends addresses of Tor version 2", say(b"addrv2", compact(1000) + TOR_V2 * 1000)),
    Kind("pings and answers pings with 3.9 MB", says_all((b"ping", b"\1" * 3_900_000, 1), (b"pong", b"\1" * 3_900_000, 1))),
    Kind("sends verack with 3.9 MB", say(b"verack", b"\1" * 3_900_000)),
    Kind("sends a message of another network", raw(b"\xf9\xbe\xb4\xd9" + frame(b"ping", bytes(8))[4:]), transports="1"),
    Kind("sends 2,000 headers of low work, then none", each(low_then_none)),
    Kind("sends the first block at every request", lambda c, n, p: n == b"getdata" and not [c.send(b"block", c.peer.chain.blocks[0]) for _ in listed(p, 36, 4)] or n == b"getdata"),
    Kind("sends blocks with a duplicated last transaction", gives(change=doubled)),
    Kind("sends blocks without a transaction", gives(change=lambda b: b[:80] + b"\0")),
    Kind("sends blocks that count 4 billion transactions", gives(change=lambda b: b[:80] + b"\xfe\xff\xff\xff\xff\1")),
    Kind("sends the same block 1,000 times, unrequested", once(lambda c: [c.send(b"block", c.peer.chain.blocks[5]) for _ in range(1000)])),
]

# The twenty that matter most: they cost time, memory or a connection in one of the programs, or did once.
CHOSEN = [
    "never answers the version message",
    "disconnects at a request for blocks",
    "does not answer getheaders",
    "does not answer getdata",
    "answers every getdata with notfound",
    "sends a header at a byte a second",
    "sends half of a message, then nothing",
    "repeats the same 2,000 headers",
    "sends headers indefinitely",
    "sends another chain at each request",
    "always answers getheaders with no headers",
    "has more work, but sends none of its blocks",
    "has more work, with an invalid block",
    "sends blocks with a wrong body",
    "sends half of a block, then nothing",
    "sends a block at a byte a second",
    "sends blocks of 4 MB of zeros",
    "asks for 50,000 transactions ten times, but reads nothing",
    "asks for headers 20,000 times, but reads nothing",
    "sends twenty unknown messages of 4 MB",
]

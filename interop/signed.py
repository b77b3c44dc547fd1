"""Scripts with signatures, and what spends them: for the blocks of invalid_blocks.py.

Signature hashes by BIP143, BIP341, BIP342, and for older scripts by Bitcoin Core b88bffe, interpreter.cpp
SignatureHash; signatures by the plainest arithmetic, with a few keys and nonces whose points are computed once. None of
it is secret.
"""

import functools
import hashlib
import struct

from coins import FIELD as P
from coins import compact_size as compact

N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
# Small ones, large ones, and ones of no kind.
KEYS = [
    1,
    2,
    3,
    N - 1,
    N // 2,
    1 << 255,
    *(int.from_bytes(hashlib.sha256(bytes([at])).digest(), "big") for at in range(6)),
]
NONCES = [1, 5, N - 2, *(int.from_bytes(hashlib.sha256(bytes([9, at])).digest(), "big") for at in range(4))]
ALL, NONE, SINGLE, ANYONE = 1, 2, 3, 0x80
LEAF = 0xC0


def plus(a, b):
    """The sum of two points; None is infinity."""
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        if (a[1] + b[1]) % P == 0:
            return None
        slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, P) % P
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P) % P
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


@functools.cache
def times_g(scalar):
    product, base = None, G
    while scalar:
        if scalar & 1:
            product = plus(product, base)
        base, scalar = plus(base, base), scalar >> 1
    return product


def tagged(tag, data):
    start = hashlib.sha256(tag.encode()).digest()
    return hashlib.sha256(start + start + data).digest()


def hash256(data):
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def hash160(data):
    return hashlib.new("ripemd160", hashlib.sha256(data).digest()).digest()


def bytes_of(data):
    return compact(len(data)) + data


def push(data):
    """A script that pushes `data` by the shortest opcode for its length."""
    if len(data) < 76:
        return bytes([len(data)]) + data
    if len(data) < 256:
        return b"\x4c" + bytes([len(data)]) + data
    return b"\x4d" + struct.pack("<H", len(data)) + data


def public_key(key, form):
    """`form`: 2 compressed, 4 uncompressed, 6 hybrid, 32 the x alone."""
    x, y = times_g(key)
    x, tail = x.to_bytes(32, "big"), y.to_bytes(32, "big")
    if form == 32:
        return x
    return bytes([2 + y % 2]) + x if form == 2 else bytes([4 if form == 4 else 6 + y % 2]) + x + tail


def even(key):
    """The key or its opposite, the one whose point has an even y."""
    return key if times_g(key)[1] % 2 == 0 else N - key


def outpoints(transaction):
    return b"".join(txid + struct.pack("<I", index) for txid, index, *_ in transaction.inputs)


def amount(value):
    """As it is written, were it negative: blocks stand on bad ones, too."""
    return struct.pack("<Q", value & 0xFFFFFFFFFFFFFFFF)


def output(value, kind):
    return amount(value) + bytes_of(kind.script)


def old_hash(transaction, at, code, hash_type):
    base = hash_type & 0x1F
    if base == SINGLE and at >= len(transaction.outputs):
        return b"\x01" + bytes(31)
    parts = [struct.pack("<I", transaction.version & 0xFFFFFFFF)]
    chosen = [at] if hash_type & ANYONE else range(len(transaction.inputs))
    parts.append(compact(len(chosen)))
    for other in chosen:
        txid, index, _, sequence, _ = transaction.inputs[other]
        sequence = 0 if other != at and base in (NONE, SINGLE) else sequence
        script = bytes_of(code) if other == at else b"\x00"
        parts.append(txid + struct.pack("<I", index) + script + struct.pack("<I", sequence))
    count = {NONE: 0, SINGLE: at + 1}.get(base, len(transaction.outputs))
    parts.append(compact(count))
    for number, (value, kind) in enumerate(transaction.outputs[:count]):
        parts.append(b"\xff" * 8 + b"\x00" if base == SINGLE and number != at else output(value, kind))
    parts.append(struct.pack("<II", transaction.lock_time & 0xFFFFFFFF, hash_type))
    return hash256(b"".join(parts))


def witness_hash(transaction, at, code, hash_type, value):
    base, zero = hash_type & 0x1F, bytes(32)
    txid, index, _, sequence, _ = transaction.inputs[at]
    all_outpoints = zero if hash_type & ANYONE else hash256(outpoints(transaction))
    all_sequences = zero
    if not hash_type & ANYONE and base not in (NONE, SINGLE):
        all_sequences = hash256(b"".join(struct.pack("<I", given[3]) for given in transaction.inputs))
    outputs = zero
    if base not in (NONE, SINGLE):
        outputs = hash256(b"".join(output(*one) for one in transaction.outputs))
    elif base == SINGLE and at < len(transaction.outputs):
        outputs = hash256(output(*transaction.outputs[at]))
    own = txid + struct.pack("<I", index) + bytes_of(code) + amount(value) + struct.pack("<I", sequence)
    head = struct.pack("<I", transaction.version & 0xFFFFFFFF) + all_outpoints + all_sequences
    return hash256(head + own + outputs + struct.pack("<II", transaction.lock_time & 0xFFFFFFFF, hash_type))


def taproot_hash(transaction, at, spent, hash_type, leaf=None, separator=0xFFFFFFFF, annex=None):
    def sha(data):
        return hashlib.sha256(data).digest()

    base = hash_type & 3 or ALL
    parts = [bytes([0, hash_type]), struct.pack("<II", transaction.version & 0xFFFFFFFF, transaction.lock_time)]
    if not hash_type & ANYONE:
        parts.append(sha(outpoints(transaction)))
        parts.append(sha(b"".join(amount(coin.value) for coin in spent)))
        parts.append(sha(b"".join(bytes_of(coin.kind.script) for coin in spent)))
        parts.append(sha(b"".join(struct.pack("<I", given[3]) for given in transaction.inputs)))
    if base == ALL:
        parts.append(sha(b"".join(output(*one) for one in transaction.outputs)))
    parts.append(bytes([2 * (leaf is not None) + (annex is not None)]))
    if hash_type & ANYONE:
        txid, index, _, sequence, _ = transaction.inputs[at]
        parts.append(
            txid + struct.pack("<I", index) + output(spent[at].value, spent[at].kind) + struct.pack("<I", sequence)
        )
    else:
        parts.append(struct.pack("<I", at))
    if annex is not None:
        parts.append(sha(bytes_of(annex)))
    if base == SINGLE:
        parts.append(sha(output(*transaction.outputs[at])))
    if leaf is not None:
        parts.append(leaf + b"\x00" + struct.pack("<I", separator))
    return tagged("TapSighash", b"".join(parts))


def der(r, s, pad=b""):
    def number(value):
        data = value.to_bytes((value.bit_length() + 8) // 8 or 1, "big")
        return b"\x02" + bytes([len(pad + data)]) + pad + data

    body = number(r) + number(s)
    return b"\x30" + bytes([len(body)]) + body


def ecdsa(draw, key, message, hash_type, spoil):
    """A signature with its hash type; `spoil` makes it wrong, or unusual."""
    nonce = draw.choice(NONCES)
    r = times_g(nonce)[0] % N
    s = pow(nonce, -1, N) * (int.from_bytes(message, "big") + r * key) % N
    s = draw.choice([s, N - s])
    ways = {
        "flipped": lambda: der(r, s ^ 1 << draw.randrange(250)),
        "other r": lambda: der(r + 1, s),
        "zero": lambda: draw.choice([der(0, s), der(r, 0)]),
        "order": lambda: draw.choice([der(r, N), der(N, s), der(r, N + 1)]),
        "padded": lambda: der(r, s, b"\x00"),
        "longer": lambda: der(r, s) + b"\x00",
        "empty": lambda: None,
    }
    made = ways[draw.choice(list(ways))]() if spoil else der(r, s)
    return b"" if made is None else made + bytes([hash_type])


def schnorr(draw, key, message, hash_type, spoil):
    key, nonce = even(key), even(draw.choice(NONCES))
    r = times_g(nonce)[0].to_bytes(32, "big")
    e = int.from_bytes(tagged("BIP0340/challenge", r + public_key(key, 32) + message), "big") % N
    s = (nonce + e * key) % N
    tail = bytes([hash_type] if hash_type else [])
    ways = {
        "flipped": lambda: r + (s ^ 1 << draw.randrange(250)).to_bytes(32, "big") + tail,
        "other r": lambda: (P - 1 - draw.randrange(9)).to_bytes(32, "big") + s.to_bytes(32, "big") + tail,
        "r of p": lambda: P.to_bytes(32, "big") + s.to_bytes(32, "big") + tail,
        "order": lambda: r + N.to_bytes(32, "big") + tail,
        "opposite": lambda: r + ((N - s) % N).to_bytes(32, "big") + tail,
        "type 0": lambda: r + s.to_bytes(32, "big") + b"\x00",
        "short": lambda: (r + s.to_bytes(32, "big"))[:63],
        "empty": lambda: b"",
    }
    return ways[draw.choice(list(ways))]() if spoil else r + s.to_bytes(32, "big") + tail


class Signer:
    """What a script of one of the forms below is signed with."""

    def __init__(self, draw):
        self.draw, self.keys = draw, draw.sample(KEYS, 3)

    def key(self, at=0, form=None):
        return public_key(self.keys[at], form or self.draw.choice([2, 2, 2, 4, 6]))

    def hash_type(self):
        return self.draw.choice([ALL, ALL, ALL, NONE, SINGLE, ALL | ANYONE, SINGLE | ANYONE, NONE | ANYONE])

    def old(self, at, code, spoil, who=0):
        """A signature for a script without witness."""
        transaction, index, _ = at
        hash_type = self.draw.choice([self.hash_type(), 0, 0x54])
        message = old_hash(transaction, index, code, hash_type)
        return ecdsa(self.draw, self.keys[who], message, hash_type, spoil)

    def new(self, at, code, spoil, who=0):
        """One for a witness script of version 0."""
        transaction, index, spent = at
        hash_type = self.draw.choice([self.hash_type(), 0, 0x54])
        message = witness_hash(transaction, index, code, hash_type, spent[index].value)
        return ecdsa(self.draw, self.keys[who], message, hash_type, spoil)

    def tap(self, at, spoil, key, leaf=None, separator=0xFFFFFFFF, annex=None):
        transaction, index, spent = at
        hash_type = self.draw.choice([0, 0, self.hash_type()])
        if hash_type & 3 == SINGLE and index >= len(transaction.outputs):
            hash_type = ALL
        message = taproot_hash(transaction, index, spent, hash_type, leaf, separator, annex)
        return schnorr(self.draw, key, message, hash_type, spoil)


# Each gives a script and what signs it: from the place, (transaction, index of the input, coins of all inputs), and
# whether one signature is to be wrong, it makes scriptSig and witness.
FORMS = []


def form(function):
    FORMS.append(function)
    return function


@form
def pay_to_key(signer):
    script = push(signer.key()) + b"\xac"
    return script, lambda at, spoil: (push(signer.old(at, script, spoil)), [])


@form
def pay_to_key_hash(signer):
    key = signer.key()
    script = b"\x76\xa9\x14" + hash160(key) + b"\x88\xac"
    return script, lambda at, spoil: (push(signer.old(at, script, spoil)) + push(key), [])


@form
def separated(signer):
    """The second signature is for what follows OP_CODESEPARATOR, the first for all but that."""
    start, end = push(signer.key()) + b"\xad", push(signer.key(1)) + b"\xac"
    # The first opcode takes the signature that lies on top.
    return start + b"\xab" + end, lambda at, spoil: (
        push(signer.old(at, end, spoil, 1)) + push(signer.old(at, start + end, False)),
        [],
    )


@form
def two_of_three(signer):
    script = b"\x52" + b"".join(push(signer.key(at)) for at in range(3)) + b"\x53\xae"
    pair = signer.draw.choice([(0, 1), (0, 2), (1, 2)])

    def sign(at, spoil):
        who = signer.draw.choice([pair, pair, pair[::-1]]) if spoil else pair
        signatures = [signer.old(at, script, spoil and one == pair[0] and who == pair, one) for one in who]
        return b"\x00" + b"".join(map(push, signatures)), []

    return script, sign


@form
def witness_key_hash(signer):
    key = signer.key(0, 2)
    code = b"\x76\xa9\x14" + hash160(key) + b"\x88\xac"
    return b"\x00\x14" + hash160(key), lambda at, spoil: (b"", [signer.new(at, code, spoil), key])


@form
def nested_key_hash(signer):
    program, sign = witness_key_hash(signer)
    return b"\xa9\x14" + hash160(program) + b"\x87", lambda at, spoil: (push(program), sign(at, spoil)[1])


def witness_script(script, stack):
    return b"\x00\x20" + hashlib.sha256(script).digest(), lambda at, spoil: (b"", [*stack(at, spoil), script])


@form
def witness_two_of_three(signer):
    script = b"\x52" + b"".join(push(signer.key(at, 2)) for at in range(3)) + b"\x53\xae"
    first, second = signer.draw.choice([(0, 1), (0, 2), (1, 2)])

    def stack(at, spoil):
        empty = b"" if not spoil or signer.draw.random() < 0.8 else b"\x01"
        return [empty, signer.new(at, script, spoil and not empty, first), signer.new(at, script, False, second)]

    return witness_script(script, stack)


@form
def not_signed(signer):
    """Holds where the signature does not: a wrong one is not refused, but for its form."""
    script = push(signer.key(0, 2)) + b"\xac\x91"
    return witness_script(script, lambda at, spoil: [signer.new(at, script, spoil, 0 if spoil else 1)])


@form
def one_or_the_other(signer):
    """If the first signature does not hold, the second must."""
    script = push(signer.key(0, 2)) + b"\xac\x63\x75\x51\x67" + push(signer.key(1, 2)) + b"\xac\x68"

    def stack(at, spoil):
        first = signer.draw.random() < 0.5
        return [signer.new(at, script, spoil, 1), signer.new(at, script, False, 0 if first else 2)]

    return witness_script(script, stack)


@form
def added_up(signer):
    """Of three checks, one or two hold; how many is added up by the script."""
    count = signer.draw.choice([1, 2])
    keys = [push(signer.key(at, 2)) + b"\xac" for at in range(3)]
    # A result is put aside, the next is added to it.
    script = keys[0] + b"\x6b" + keys[1] + b"\x6c\x93\x6b" + keys[2] + b"\x6c\x93" + bytes([0x50 + count]) + b"\x9c"

    def stack(at, spoil):
        wrong = signer.draw.sample(range(3), 3 - count)
        if spoil:
            wrong = wrong[1:] or [0, 1, 2]
        # The last check's signature lies lowest; wrong are those of another's key.
        return [signer.new(at, script, False, (one + 1) % 3 if one in wrong else one) for one in (2, 1, 0)]

    return witness_script(script, stack)


def tweaked(key, root):
    """The output key of an internal one, whether its y is odd, and its secret."""
    key = even(key)
    tweak = int.from_bytes(tagged("TapTweak", public_key(key, 32) + root), "big") % N
    secret = (key + tweak) % N
    return public_key(secret, 32), times_g(secret)[1] % 2, secret


@form
def taproot_key(signer):
    program, _, secret = tweaked(signer.keys[0], b"")
    annex = signer.draw.choice([None, None, b"\x50" + bytes(3)])

    def sign(at, spoil):
        signature = signer.tap(at, spoil, secret, annex=annex)
        return b"", [signature] + ([annex] if annex else [])

    return b"\x51\x20" + program, sign


def taproot_script(signer, script, stack):
    leaf = tagged("TapLeaf", bytes([LEAF]) + bytes_of(script))
    other = tagged("TapLeaf", bytes([LEAF]) + bytes_of(b"\x6a"))
    root = tagged("TapBranch", min(leaf, other) + max(leaf, other))
    program, odd, _ = tweaked(signer.keys[2], root)
    control = bytes([LEAF | odd]) + public_key(even(signer.keys[2]), 32) + other

    def sign(at, spoil):
        broken = control[:-1] + bytes([control[-1] ^ 1]) if spoil and signer.draw.random() < 0.2 else control
        return b"", [*stack(at, spoil and broken is control, leaf), script, broken]

    return b"\x51\x20" + program, sign


@form
def tapscript_key(signer):
    script = push(signer.key(0, 32)) + b"\xac"
    return taproot_script(signer, script, lambda at, spoil, leaf: [signer.tap(at, spoil, signer.keys[0], leaf)])


@form
def tapscript_separated(signer):
    start = push(signer.key(1, 32)) + b"\xad"
    script = start + b"\xab" + push(signer.key(0, 32)) + b"\xac"

    def stack(at, spoil, leaf):
        return [signer.tap(at, spoil, signer.keys[0], leaf, 2), signer.tap(at, False, signer.keys[1], leaf)]

    return taproot_script(signer, script, stack)


@form
def tapscript_two_of_three(signer):
    keys = [push(signer.key(at, 32)) for at in range(3)]
    script = keys[0] + b"\xac" + keys[1] + b"\xba" + keys[2] + b"\xba\x52\x9c"

    def stack(at, spoil, leaf):
        left_out = signer.draw.randrange(3)
        signatures = [signer.tap(at, False, signer.keys[one], leaf) for one in range(3)]
        signatures[left_out] = b""
        if spoil:
            one = signer.draw.randrange(3)
            signatures[one] = signer.tap(at, True, signer.keys[one], leaf)
        return signatures[::-1]

    return taproot_script(signer, script, stack)


@form
def tapscript_of_unknown_key(signer):
    """Of a key of another length every signature holds, but it costs."""
    script = push(b"\x02" + bytes(32)) + b"\xac"
    return taproot_script(signer, script, lambda _, spoil, __: [b"" if spoil else b"x"])


@form
def tapscript_budget(signer):
    """One signature in 50 bytes of witness: here checked more often than that."""
    count = signer.draw.choice([2, 8, 10, 12, 12, 12, 13])
    script = (b"\x76" + push(signer.key(0, 32)) + b"\xad") * count + b"\x75\x51"
    return taproot_script(signer, script, lambda at, spoil, leaf: [signer.tap(at, spoil, signer.keys[0], leaf)])


def random_form(draw):
    """A script, and the function that signs it."""
    return draw.choice(FORMS)(Signer(draw))

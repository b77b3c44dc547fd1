"""Random blocks of regtest: good ones, and ones that break a rule or only seem to. blocks.py gives them to two judges.

What a block does to the coins is counted here by the plainest means, for blocks that
both judges take. Rules by BIP and by Bitcoin Core b88bffe, validation.cpp and consensus/tx_verify.cpp.
"""

import hashlib
import struct
import time

import signed
from signed import bytes_of, compact, hash160, hash256, push

COIN = 100_000_000
MAX_MONEY = 21_000_000 * COIN
GENESIS = bytes.fromhex("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206")[::-1]
GENESIS_TIME = 1296688602
BITS = 0x207FFFFF
TARGET = 0x7FFFFF << 232
HALVING = 150
MATURITY = 100
TRUE = b"\x51"
COMMITMENT = bytes.fromhex("6a24aa21a9ed")
NO_INDEX = 0xFFFFFFFF
FINAL = 0xFFFFFFFF


def number(value):
    """A script that pushes a number, as BIP34 wants heights."""
    if value == 0:
        return b"\x00"
    if 1 <= value <= 16:
        return bytes([0x50 + value])
    data = value.to_bytes((value.bit_length() + 8) // 8, "little")
    return push(data)


def merkle(leaves):
    while len(leaves) > 1:
        if len(leaves) % 2:
            leaves = leaves + leaves[-1:]
        leaves = [hash256(leaves[at] + leaves[at + 1]) for at in range(0, len(leaves), 2)]
    return leaves[0]


class Kind:
    """A script and what spends it."""

    def __init__(
        self, name, script, script_sig=b"", witness=(), sequence=None, lock_time=None, is_good=True, sign=None
    ):
        self.name, self.script, self.script_sig, self.witness = name, script, script_sig, list(witness)
        self.sequence, self.lock_time, self.is_good = sequence, lock_time, is_good
        # As signed.py gives it; scriptSig and witness are empty then.
        self.sign = sign


def p2sh(name, redeem, witness=(), **more):
    return Kind(name, b"\xa9\x14" + hash160(redeem) + b"\x87", push(redeem), witness, **more)


def p2wsh(name, script, before=(), **more):
    return Kind(name, b"\x00\x20" + hashlib.sha256(script).digest(), b"", [*before, script], **more)


def random_kind(draw, height):
    """Scripts, most of which can be spent."""
    if draw.random() < 0.4:
        script, sign = signed.random_form(draw)
        return Kind("signed", script, sign=sign)
    blocks = draw.choice([0, 1, 2, 5])
    at = max(1, height - draw.choice([0, 1, 5]))
    csv = number(blocks) + b"\xb2\x75\x51"
    cltv = number(at) + b"\xb1\x75\x51"
    multisig = b"\x00\x63" + b"\xae" * draw.choice([1, 20, 190]) + b"\x68\x51"
    return draw.choice(
        [
            lambda: Kind("true", TRUE),
            lambda: Kind("true", TRUE),
            lambda: Kind("empty", b"", TRUE),
            lambda: Kind(
                "bare",
                draw.choice([b"\x75\x51", b"\x76\x87", b"\xa8\x75\x51"]),
                push(draw.randbytes(draw.choice([1, 75, 80, 520]))),
            ),
            lambda: p2sh("p2sh", TRUE),
            lambda: p2sh("p2sh sigops", b"\x00\x63" + b"\xae" * draw.choice([1, 100, 190]) + b"\x68\x51"),
            lambda: p2wsh("p2wsh", TRUE),
            lambda: p2wsh("p2wsh sigops", b"\x00\x63" + b"\xae" * draw.choice([1, 150]) + b"\x68\x51"),
            lambda: p2wsh("p2wsh big", b"\x75" * 3 + TRUE, [draw.randbytes(draw.choice([0, 520])) for _ in range(3)]),
            lambda: p2sh("p2sh-p2wsh", b"\x00\x20" + hashlib.sha256(TRUE).digest(), [TRUE]),
            lambda: Kind(
                "witness of no version",
                bytes([draw.randrange(0x52, 0x61)]) + push(draw.randbytes(draw.choice([2, 20, 32, 40]))),
                b"",
                [draw.randbytes(3)] * draw.randrange(3),
            ),
            lambda: Kind("anchor", b"\x51\x02\x4e\x73", b"", [b"x"] * draw.randrange(2)),
            lambda: Kind("csv", csv, sequence=draw.choice([blocks, blocks, blocks + 1])),
            lambda: Kind("cltv", cltv, sequence=0, lock_time=draw.choice([at, at, at + 1])),
            lambda: Kind("multisig sigops", multisig),
            lambda: Kind("no signature", push(b"\x02" + b"\x11" * 32) + b"\xac\x91", b"\x00"),
            lambda: Kind("return", b"\x6a" + draw.randbytes(draw.randrange(4)), is_good=False),
            lambda: Kind("false", b"\x00", is_good=False),
            lambda: Kind("too long", b"\x51" * draw.choice([10_000, 10_001]), is_good=False),
            lambda: Kind("taproot", b"\x51\x20" + draw.randbytes(32), b"", [draw.randbytes(64)], is_good=False),
        ]
    )()


class Coin:
    """An output that can be spent."""

    def __init__(self, value, kind, height, is_coinbase):
        self.value, self.kind, self.height, self.is_coinbase = value, kind, height, is_coinbase


class Transaction:
    """Inputs are (txid, index, script_sig, sequence, witness), outputs (value, kind)."""

    def __init__(self):
        self.version, self.inputs, self.outputs, self.lock_time = 2, [], [], 0
        # The coins, by outpoint, as far as they are known.
        self.spent = {}

    def sign(self, places, spoil=False):
        """Signs inputs as it is now; who changes it later breaks them."""
        coins = [self.spent.get(given[:2]) for given in self.inputs]
        for at in places if None not in coins else []:
            txid, index, script_sig, sequence, witness = self.inputs[at]
            if coins[at].kind.sign:
                script_sig, witness = coins[at].kind.sign((self, at, coins), spoil)
                self.inputs[at] = (txid, index, script_sig, sequence, witness)

    def sign_all(self):
        self.sign(range(len(self.inputs)))

    def serialized(self, with_witness):
        is_segwit = with_witness and any(one[4] for one in self.inputs)
        parts = [struct.pack("<I", self.version & 0xFFFFFFFF)]
        if is_segwit:
            parts.append(b"\x00\x01")
        parts.append(compact(len(self.inputs)))
        for txid, index, script_sig, sequence, _ in self.inputs:
            parts.append(txid + struct.pack("<I", index) + bytes_of(script_sig) + struct.pack("<I", sequence))
        parts.append(compact(len(self.outputs)))
        for value, kind in self.outputs:
            parts.append(signed.output(value, kind))
        if is_segwit:
            for one in self.inputs:
                parts.append(compact(len(one[4])) + b"".join(bytes_of(item) for item in one[4]))
        parts.append(struct.pack("<I", self.lock_time & 0xFFFFFFFF))
        return b"".join(parts)

    @property
    def txid(self):
        return hash256(self.serialized(False))

    @property
    def wtxid(self):
        return hash256(self.serialized(True))


class Node:
    """A block of the tree: what stands after it, if it is good."""

    def __init__(self, parent, block_hash, height, block_time, coins):
        self.parent, self.hash, self.height, self.time, self.coins = parent, block_hash, height, block_time, coins

    def median_time(self):
        times, node = [], self
        while node and len(times) < 11:
            times.append(node.time)
            node = node.parent
        return sorted(times)[len(times) // 2]


class Block:
    """A block while it is made; `finish` fills in what was not set on purpose."""

    def __init__(self, draw, parent):
        self.draw, self.parent, self.height = draw, parent, parent.height + 1
        # Of the header: None for what is right.
        self.version, self.bits, self.root, self.nonce_good = 0x20000000, BITS, None, True
        self.time = max(parent.median_time() + 1, parent.time + draw.choice([-600, 0, 1, 600, 600]))
        # Of the coinbase.
        self.script_sig, self.reward_more, self.fees = None, 0, 0
        self.has_commitment, self.reserved, self.commitment = True, bytes(32), None
        self.coinbase = Transaction()
        self.transactions = [self.coinbase]
        # What is done when the coinbase is complete, but for the commitment.
        self.late = []
        # Of the bytes: another body, what is done to those behind the header, and what follows the block.
        self.other_body, self.spoil_bytes, self.tail = None, None, b""
        # What can still be spent, while it is made.
        self.coins = dict(parent.coins)
        # The right body, where another was put in its place under the same header.
        self.good = None

    def add(self, transaction):
        """Its inputs go, its outputs come."""
        gone = [self.coins.get((txid, index)) for txid, index, *_ in transaction.inputs]
        self.fees += sum(coin.value for coin in gone if coin) - sum(value for value, _ in transaction.outputs)
        self.transactions.append(transaction)
        self.apply(transaction, self.coins)

    def apply(self, transaction, coins):
        for txid, index, *_ in transaction.inputs:
            coins.pop((txid, index), None)
        txid = transaction.txid
        for index, (value, kind) in enumerate(transaction.outputs):
            if kind.script[:1] != b"\x6a" and len(kind.script) <= 10_000:
                coins[txid, index] = Coin(value, kind, self.height, transaction is self.coinbase)

    def finish(self):
        """Its bytes, and the node for when it is good."""
        self.finish_coinbase()
        body = [one.serialized(True) for one in self.transactions]
        root = self.root or merkle([one.txid for one in self.transactions] or [bytes(32)])
        head = struct.pack("<I", self.version & 0xFFFFFFFF) + self.parent.hash + root
        head += struct.pack("<II", self.time & 0xFFFFFFFF, self.bits)
        nonce = self.draw.randrange(1 << 31)
        # Two tries in the mean.
        while (int.from_bytes(hash256(head + struct.pack("<I", nonce)), "little") <= TARGET) != self.nonce_good:
            nonce += 1
        header = head + struct.pack("<I", nonce)
        data = compact(len(body)) + b"".join(body)
        if self.other_body:
            self.good = header + data
            body = self.other_body(body)
            data = compact(len(body)) + b"".join(body)
        if self.spoil_bytes:
            data = self.spoil_bytes(data)
        # Again: a defect may have changed what was there.
        coins = dict(self.parent.coins)
        for transaction in self.transactions:
            self.apply(transaction, coins)
        return header + data + self.tail, Node(self.parent, hash256(header), self.height, self.time, coins)

    def finish_coinbase(self):
        draw, outputs = self.draw, self.coinbase.outputs
        more = draw.choice([b"\x00", b"\x51\x51", draw.randbytes(8)])
        script_sig = number(self.height) + more if self.script_sig is None else self.script_sig
        witness = [self.reserved] if self.has_commitment and self.reserved is not None else []
        self.coinbase.inputs = [(bytes(32), NO_INDEX, script_sig, draw.choice([FINAL, FINAL - 1]), witness)]
        value = (50 * COIN >> self.height // HALVING) + max(0, self.fees) + self.reward_more
        if draw.random() < 0.3:
            outputs.append((value // 2, Kind("true", TRUE)))
            value -= value // 2
        outputs.append((value, random_kind(draw, self.height)))
        if self.has_commitment:
            outputs.append((0, Kind("commitment", COMMITMENT + bytes(32))))
        for spoil in self.late:
            spoil()
        if self.has_commitment:
            root = merkle([bytes(32)] + [one.wtxid for one in self.transactions[1:]])
            commitment = self.commitment or hash256(root + (self.reserved or b""))
            outputs[-1] = (0, Kind("commitment", COMMITMENT + commitment))


def draw_sequence(draw):
    return draw.choice([FINAL, FINAL, FINAL - 1, 0x80000000, 0, 1, 3, (1 << 22) | 1, (1 << 22), 0xFFFE])


def spend(block, outpoint, coin, transaction):
    """Adds an input with what its script wants."""
    kind = coin.kind
    sequence = draw_sequence(block.draw) if kind.sequence is None else kind.sequence
    transaction.inputs.append((*outpoint, kind.script_sig, sequence, kind.witness))
    transaction.spent[outpoint] = coin
    if kind.lock_time is not None:
        transaction.lock_time = kind.lock_time


def mature(block, coin):
    return not coin.is_coinbase or block.height - coin.height >= MATURITY


def unlocked(block, coin):
    """Neither CHECKSEQUENCEVERIFY nor CHECKLOCKTIMEVERIFY stand against it."""
    kind = coin.kind
    return (kind.sequence or 0) <= block.height - coin.height and (kind.lock_time or 0) < block.height


def fitting(block):
    """A coin that can be spent, if one is met soon."""
    for _ in range(30 if block.coins else 0):
        outpoint = block.draw.choice(list(block.coins))
        coin = block.coins[outpoint]
        # Now and then one whose lock is not met: more would make nearly every block invalid.
        if mature(block, coin) and coin.kind.is_good and (unlocked(block, coin) or block.draw.random() < 0.01):
            return outpoint, coin
    return None


def plain_coin(block):
    """A coin that anyone can spend, with an empty scriptSig, if there is one."""
    coins = block.coins.items()
    return next((found for found in coins if found[1].kind.name == "true" and mature(block, found[1])), None)


def fill(block, count):
    """Transactions that are good, nearly all."""
    draw = block.draw
    for _ in range(count):
        transaction = Transaction()
        transaction.version = draw.choice([1, 2, 2, 3, 0x7FFFFFFF, 0xFFFFFFFF, 0])
        found = [found for _ in range(draw.choice([1, 1, 1, 2, 5])) if (found := fitting(block))]
        for outpoint, coin in dict(found).items():
            spend(block, outpoint, coin, transaction)
            if coin.kind.sequence is not None:
                transaction.version = 2
            elif draw.random() < 0.99:
                # A relative lock would mostly not be met.
                sequence = draw.choice([FINAL, FINAL - 1, 0x80000000, 0])
                transaction.inputs[-1] = (*transaction.inputs[-1][:3], sequence, coin.kind.witness)
        if not transaction.inputs:
            continue
        if draw.random() < 0.1 and transaction.lock_time == 0:
            transaction.lock_time = draw.choice([block.height - 1, 500_000_000, block.parent.median_time() - 1])
        left = sum(coin.value for coin in dict(found).values())
        left = max(0, left - draw.choice([0, 0, 1000]))
        for part in range(parts := draw.choice([1, 1, 2, 3, 8])):
            value = left if part == parts - 1 else left // 2
            left -= value
            transaction.outputs.append((value, random_kind(draw, block.height)))
        transaction.sign_all()
        block.add(transaction)


# What may be wrong with a block, or only seem so. Each changes a block that has its transactions but is not finished.
DEFECTS = []


def defect(function):
    DEFECTS.append(function)
    return function


def any_of(block):
    """One of its transactions but the coinbase, if there is one."""
    rest = [one for one in block.transactions if one.inputs and one is not block.coinbase]
    return block.draw.choice(rest) if rest else None


@defect
def more_reward(block):
    block.reward_more = block.draw.choice([1, -1, COIN, -COIN])


@defect
def output_values(block):
    one = any_of(block) or block.coinbase
    value = block.draw.choice([-1, MAX_MONEY, MAX_MONEY + 1, 1 << 63, (1 << 64) - 1, 1])
    one.outputs.append((value, Kind("true", TRUE)))


@defect
def sum_of_outputs(block):
    one = any_of(block) or block.coinbase
    one.outputs += [(MAX_MONEY, Kind("true", TRUE))] * 2


@defect
def same_input_twice(block):
    if one := any_of(block):
        at = block.draw.randrange(len(one.inputs))
        one.inputs.insert(block.draw.randrange(len(one.inputs) + 1), one.inputs[at])


@defect
def missing_input(block):
    if one := any_of(block):
        txid = block.draw.choice([block.draw.randbytes(32), one.inputs[0][0], bytes(32)])
        index = block.draw.choice([0, 1, 7, NO_INDEX, NO_INDEX - 1])
        one.inputs.append((txid, index, b"", FINAL, []))


@defect
def spent_twice(block):
    if one := any_of(block):
        again = Transaction()
        again.inputs = one.inputs[:1]
        again.outputs = [(0, Kind("true", TRUE))]
        block.transactions.insert(block.draw.randrange(1, len(block.transactions) + 1), again)


@defect
def spent_in_the_past(block):
    # Of an ancestor's block, gone before this one.
    node = block.parent
    for _ in range(block.draw.randrange(1, 12)):
        if node.parent is None:
            return
        gone = [key for key in node.parent.coins if key not in node.coins]
        if gone and block.draw.random() < 0.5:
            key = block.draw.choice(gone)
            again = Transaction()
            spend(block, key, node.parent.coins[key], again)
            again.outputs = [(0, Kind("true", TRUE))]
            again.sign_all()
            block.transactions.append(again)
            return
        node = node.parent


def spend_to_true(block, outpoint, coin):
    one = Transaction()
    spend(block, outpoint, coin, one)
    one.outputs = [(coin.value, Kind("true", TRUE))]
    one.sign_all()
    block.add(one)


@defect
def any_coin(block):
    """Most often one that cannot be spent, or not yet."""
    bad = [key for key, coin in block.coins.items() if not coin.kind.is_good or not unlocked(block, coin)]
    if bad or block.coins:
        key = block.draw.choice(bad or list(block.coins))
        spend_to_true(block, key, block.coins[key])


@defect
def young_coinbase(block):
    depths = range(MATURITY - 2, MATURITY + 2)
    young = [key for key, coin in block.coins.items() if coin.is_coinbase and block.height - coin.height in depths]
    if young:
        key = block.draw.choice(young)
        spend_to_true(block, key, block.coins[key])


@defect
def order(block):
    block.draw.shuffle(block.transactions)


@defect
def order_of_the_rest(block):
    rest = block.transactions[1:]
    block.draw.shuffle(rest)
    block.transactions[1:] = rest


@defect
def a_transaction_twice(block):
    if one := any_of(block):
        block.transactions.insert(block.draw.randrange(1, len(block.transactions) + 1), one)


@defect
def tail_twice(block):
    """CVE-2012-2459: the same root from a list whose end is there twice."""
    count = len(block.transactions)
    if count > 1:
        block.other_body = lambda body: body + body[-(count & -count) :]


@defect
def without_witness(block):
    """The same header, all witness gone."""
    block.other_body = lambda _: [one.serialized(False) for one in block.transactions]


@defect
def no_transactions(block):
    block.transactions = block.draw.choice([[], block.transactions[1:], [block.coinbase, block.coinbase]])


@defect
def no_inputs_or_outputs(block):
    if one := any_of(block):
        if block.draw.random() < 0.5:
            one.outputs = []
        else:
            one.inputs = []


@defect
def root(block):
    block.root = block.draw.randbytes(32)


@defect
def witness_reserved(block):
    block.reserved = block.draw.choice([None, b"", bytes(31), bytes(33), b"\x01" * 32])


@defect
def witness_commitment(block):
    block.commitment = block.draw.randbytes(32)


@defect
def no_witness_commitment(block):
    block.has_commitment = False


@defect
def two_commitments(block):
    """The last one counts."""
    more = block.draw.randbytes(block.draw.choice([0, 3]))
    block.coinbase.outputs.append((0, Kind("commitment", COMMITMENT + block.draw.randbytes(32) + more)))
    if block.draw.random() < 0.5:
        block.commitment = block.draw.randbytes(32)


@defect
def short_commitment(block):
    block.coinbase.outputs.append((0, Kind("commitment", (COMMITMENT + bytes(32))[: block.draw.choice([6, 36, 37])])))


@defect
def witness_in_coinbase(block):
    block.late.append(lambda: block.coinbase.inputs[0][4].append(b"x"))


@defect
def wrong_signature(block):
    """Of the last transaction with signatures, so that no later one spends what it makes; some of them still hold."""
    for one in reversed(block.transactions[1:]):
        coins = [one.spent.get(given[:2]) for given in one.inputs]
        places = [at for at, coin in enumerate(coins) if coin and coin.kind.sign]
        if places:
            one.sign([block.draw.choice(places)], True)
            return


@defect
def wrong_witness(block):
    if one := any_of(block):
        at = block.draw.randrange(len(one.inputs))
        witness = one.inputs[at][4]
        others = [[], witness + [b"x"], [b"\x00"], [TRUE], [b""], [bytes(521), b"\x75\x51"], witness[:-1]]
        one.inputs[at] = (*one.inputs[at][:4], block.draw.choice(others))


# Scripts with what is refused of itself, or only seems to be.
SCRIPT_SIGS = [
    b"",
    TRUE,
    b"\x4c",
    bytes(1001),
    bytes(10_001),
    b"\x61" * 202,
    push(bytes(521)),
    b"\x7e",
    b"\x63\x68",
    b"\x50",
]
SCRIPT_SIGS += [b"\xab", b"\xba"]


@defect
def wrong_script_sig(block):
    if one := any_of(block):
        at = block.draw.randrange(len(one.inputs))
        txid, index, right, sequence, witness = one.inputs[at]
        near = [right + TRUE, TRUE + right, b"\x61" + right, right[:-1]]
        one.inputs[at] = (txid, index, block.draw.choice(SCRIPT_SIGS + near), sequence, witness)


@defect
def wrong_sequence(block):
    if one := any_of(block):
        at = block.draw.randrange(len(one.inputs))
        txid, index, script_sig, _, witness = one.inputs[at]
        one.version = block.draw.choice([1, 2, 0xFFFFFFFF])
        one.inputs[at] = (txid, index, script_sig, draw_sequence(block.draw), witness)


@defect
def lock_times(block):
    if one := any_of(block):
        draw, height, median = block.draw, block.height, block.parent.median_time()
        times = [median - 1, median, block.time, block.time + 1, 499_999_999, 500_000_000, 0xFFFFFFFF]
        one.lock_time = draw.choice([height - 1, height, height + 1, *times])
        if draw.random() < 0.5:
            final = [FINAL - 1, FINAL, 0x80000001]
            one.inputs = [(*given[:3], draw.choice(final), given[4]) for given in one.inputs]


@defect
def coinbase_lock(block):
    block.coinbase.lock_time = block.draw.choice([block.height - 1, block.height, 0xFFFFFFFF])


@defect
def coinbase_script(block):
    height = number(block.height)
    lengths = [height + bytes(length - len(height)) for length in (len(height), 100, 101)]
    others = [number(block.height + 1) + b"\x00", push(block.height.to_bytes(4, "little")) + b"\x00"]
    block.script_sig = block.draw.choice([b"", b"\x00", b"\x4c" + height, b"\x61" + height, *lengths, *others])


@defect
def coinbase_has_two_inputs(block):
    block.late.append(lambda: block.coinbase.inputs.append((block.draw.randbytes(32), 0, b"", FINAL, [])))


@defect
def version(block):
    block.version = block.draw.choice([0, 1, 2, 3, 4, -1, 0x7FFFFFFF, 0x3FFFE000])


@defect
def times(block):
    median, now = block.parent.median_time(), int(time.time())
    block.time = block.draw.choice([median - 1, median, median + 1, now + 3600, now + 3 * 3600, 0, 0xFFFFFFFF])


@defect
def bits(block):
    block.bits = block.draw.choice([0, 0x207FFFFE, 0x1D00FFFF, 0x21000080, 0x20FFFFFF, 0xFF7FFFFF, 0x01003456])


@defect
def work(block):
    block.nonce_good = False


def only_coinbase_sigops(block, count):
    """Its coinbase has `count` signature operations, as they count without running."""

    def spoil():
        block.coinbase.inputs[0] = (bytes(32), NO_INDEX, number(block.height) + b"\x00", *block.coinbase.inputs[0][3:])
        block.coinbase.outputs[:-1] = [(0, Kind("sigops", b"\x6a" + b"\xac" * (count % 20) + b"\xae" * (count // 20)))]

    block.late.append(spoil)


@defect
def sigops(block):
    """Around the limit: a cost of 80,000, and 4 for each."""
    block.transactions = [block.coinbase]
    only_coinbase_sigops(block, 20_000 + block.draw.choice([-20, -1, 0, 1, 20]))


@defect
def sigops_of_all_kinds(block):
    """The same with some in P2SH, which count as much, and in witness scripts, which count a quarter."""
    block.transactions = [block.coinbase]
    block.coins = dict(block.parent.coins)
    if found := plain_coin(block):
        many = b"\x00\x63" + b"\xae" * 190 + b"\x68\x51"
        kinds = [p2sh("p2sh sigops", many)] * 4 + [p2wsh("p2wsh sigops", many)] * 3
        first, second = Transaction(), Transaction()
        spend(block, *found, first)
        first.outputs = [(0, kind) for kind in kinds]
        block.add(first)
        for index, kind in enumerate(kinds):
            spend(block, (first.txid, index), Coin(0, kind, block.height, False), second)
        second.outputs = [(0, Kind("true", TRUE))]
        block.add(second)
        cost = (4 * 4 + 3) * 190 * 20
        only_coinbase_sigops(block, (80_000 - cost) // 4 + block.draw.choice([-1, 0, 1]))


@defect
def weight(block):
    """Around four million units."""
    if found := plain_coin(block):
        one = Transaction()
        spend(block, *found, one)
        one.outputs = [(0, Kind("return", b"\x6a" + bytes(70_000)))]
        block.add(one)

        def spoil():
            body = [(one.serialized(True), one.serialized(False)) for one in block.transactions]
            full = len(compact(len(body))) + 80 + sum(len(whole) for whole, _ in body)
            bare = len(compact(len(body))) + 80 + sum(len(stripped) for _, stripped in body)
            more = (4_000_000 - full - 3 * bare) // 4 + block.draw.choice([-1, 0, 0, 1])
            one.outputs = [(0, Kind("return", b"\x6a" + bytes(70_000 + more)))]

        block.late.append(spoil)


@defect
def size_64(block):
    """A transaction of 64 bytes without witness."""
    if found := plain_coin(block):
        one = Transaction()
        spend(block, *found, one)
        one.outputs = [(0, Kind("true", b"\x51\x61\x61\x61"))]
        block.add(one)


@defect
def tail_bytes(block):
    block.tail = block.draw.randbytes(block.draw.choice([1, 40, 100]))


@defect
def flipped_byte(block):
    def spoil(data):
        at = block.draw.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << block.draw.randrange(8)]) + data[at + 1 :]

    block.spoil_bytes = spoil


@defect
def cut(block):
    def spoil(data):
        return data[: block.draw.randrange(len(data))]

    block.spoil_bytes = spoil


@defect
def long_form_of_a_count(block):
    def spoil(data):
        return b"\xfd" + bytes([data[0]]) + b"\x00" + data[1:] if data[0] < 253 else data

    block.spoil_bytes = spoil

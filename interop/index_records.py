"""The block index that ffwd leaves beside the one that bitcoind leaves for the same blocks, record by record.

    BITCOIND_EXE=... python interop/index_records.py PROGRAM [ROUNDS [SEED [NAME]]]

Blocks come in a file: `reindex` of it, and `import` into an empty data directory (bitcoind: -loadblock); and one after
another from a scripted peer (feeding.py). They are the chains with invalid blocks and the consensus traps of the test data
(FFWD_TEST_DATA, else ../shared/data), and random trees of valid and invalid blocks (blocks.py), without those whose bodies
are damaged, which docs/differences.md names. NAME picks the cases whose names contain it.
Compared: every record of blocks/index: block entries, file entries, last file, flags.
"""

import itertools
import json
import lzma
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

import feeding
import leveldb
import wire

MAGIC = bytes.fromhex("fabfb5da")
STATUS = {8: "HAVE_DATA", 16: "HAVE_UNDO", 32: "FAILED_VALID", 64: "FAILED_CHILD", 128: "OPT_WITNESS"}
FILE_FIELDS = ("blocks", "size", "undo_size", "height_first", "height_last", "time_first", "time_last")
QUIET = ["-listen=0", "-connect=0", "-dnsseed=0", "-fixedseeds=0", "-checkblockindex=0", "-printtoconsole=0", "-disablewallet"]


# As many blocks in a row can be taken at once, for they are valid.
BASE_BLOCKS = 100
TRAP_BASE_BLOCKS = 120
# Why the kernel refuses a body that is not the one of its header, or no block at all.
DAMAGED = {
    "cannot be read",
    "bad-txnmrklroot",
    "bad-txns-duplicate",
    "bad-witness-nonce-size",
    "bad-witness-merkle-match",
    "unexpected-witness",
}
# Where the records differ, and why: docs/differences.md.
KNOWN = {
    "trap good block with 7 bytes after it inside the record": "the size of the record, not of the block, is counted",
    "trap two tips of equal work, the first in the file linked last": "bitcoind loses blocks before their parents",
    "trap a record cut after 150 of its bytes, then two good blocks": "bitcoind loses blocks inside a damaged record",
    "trap a longer branch whose second body is damaged, beside a complete one of two": "its first block was connected",
}


def framed(block):
    return MAGIC + struct.pack("<I", len(block)) + block


class Numbers:
    """Core's VARINTs, one after another."""

    def __init__(self, data):
        self.data, self.offset = data, 0

    def next(self):
        value = 0
        while True:
            byte = self.data[self.offset]
            self.offset += 1
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value
            value += 1


def told(key, value):
    """A record for a reader; equal texts are equal records."""
    if key[:1] == b"b":
        numbers = Numbers(value)
        numbers.next()  # A version that Core writes and ignores.
        height, status, transactions = numbers.next(), numbers.next(), numbers.next()
        names = "|".join([str(status & 7)] + [name for bit, name in STATUS.items() if status & bit])
        entry = {"height": height, "status": names, "transactions": transactions}
        if status & 24:
            entry["file"] = numbers.next()
        if status & 8:
            entry["data"] = numbers.next()
        if status & 16:
            entry["undo"] = numbers.next()
        return f"block {key[:0:-1].hex()}", f"{entry} {value[numbers.offset:].hex()[:16]}"
    if key[:1] == b"f":
        numbers = Numbers(value)
        return f"file {struct.unpack('<I', key[1:])[0]}", str({field: numbers.next() for field in FILE_FIELDS})
    return f"record {key!r}", value.hex()


def records(datadir):
    return dict(told(key, value) for key, value in leveldb.Directory(datadir / "regtest" / "blocks" / "index").records.items())


def differences(ours, theirs):
    rows = []
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            rows.append(f"    {name}\n      ffwd {ours.get(name)}\n      Core {theirs.get(name)}")
    return rows


def finished(command, log):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        log.append(f"{command}: exit code {done.returncode}\n{done.stderr[-800:]}")


def blocks_dir(datadir):
    path = datadir / "regtest" / "blocks"
    path.mkdir(parents=True)
    return path


def from_a_peer(program, bitcoind, stream, base_count, top):
    """Both programs with the same peer; what differs."""
    ours, theirs = top / "ffwd-peer", top / "core-peer"
    ours.mkdir(), theirs.mkdir()
    base, others = in_line(stream, base_count)
    both = ["-regtest", "-assumevalid=0", "-blocksxor=0", "-dnsseed=0", "-fixedseeds=0"]
    core = [*both, "-listenonion=0", "-server=0", "-checkblockindex=0", "-printtoconsole=0", "-disablewallet"]
    feeding.fed([program, "sync", f"-datadir={ours}", *both], base, others)
    feeding.fed([bitcoind, f"-datadir={theirs}", *core], base, others, quiet_s=0)
    rows = differences(records(ours), records(theirs))
    shutil.rmtree(ours), shutil.rmtree(theirs)
    return rows


def in_line(stream, most):
    """The blocks of a stream after the first: `most` of a chain, which can be taken at once, and the others."""
    raws, at = [], 0
    while at + 8 <= len(stream) and stream.startswith(MAGIC, at):
        size = struct.unpack_from("<I", stream, at + 4)[0]
        raws.append(stream[at + 8 : at + 8 + size])
        at += 8 + size
    count = 1
    while count < min(len(raws), most) and raws[count][4:36] == wire.hash256(raws[count - 1][:80]):
        count += 1
    return raws[1:count], raws[count:]


def compared(program, bitcoind, stream, base_count, top):
    """Both programs on the same bytes, all ways; what differs."""
    rows = [f"  from a peer:\n{row}" for row in from_a_peer(program, bitcoind, stream, base_count, top)]
    source = top / "blocks.dat"
    source.write_bytes(stream)
    for way in ("reindex", "import"):
        ours, theirs = top / f"ffwd-{way}", top / f"core-{way}"
        core = [bitcoind, "-regtest", f"-datadir={theirs}", "-stopafterblockimport", "-blocksxor=0", *QUIET]
        command = [program, way, "--datadir", ours, "--chain", "regtest", "--assumevalid", "0", "--blocksxor", "0"]
        if way == "reindex":
            for datadir in (ours, theirs):
                (blocks_dir(datadir) / "blk00000.dat").write_bytes(stream)
            finished([*core, "-reindex", "-assumevalid=0"], rows)
        else:
            ours.mkdir(), theirs.mkdir()
            finished([*core, f"-loadblock={source}", "-assumevalid=0"], rows)
            command.append(source)
        subprocess.run([str(word) for word in command], capture_output=True)
        rows += [f"  {way}:\n{row}" for row in differences(records(ours), records(theirs))]
        shutil.rmtree(ours), shutil.rmtree(theirs)
    return rows


def first_record(data):
    """The genesis block's record, with which every stream begins."""
    stream = lzma.open(data / "chains" / "regtest_0_150.blk.xz").read()
    return stream[: 8 + struct.unpack_from("<I", stream, 4)[0]]


def liveness(data):
    """Pairs of name and stream: chains of which some blocks are invalid."""
    for names in (["r1"], ["r1", "r2"], ["r3"], ["r3", "r2"], ["bad"], ["bad", "good"], ["bad2", "good"], ["good", "bad2"]):
        files = [lzma.open(data / "liveness" / f"{name}.blk.xz").read() for name in names]
        yield "+".join(names), first_record(data) + b"".join(files)


def traps(data):
    def record(text):
        raw = bytes.fromhex(text.removeprefix("raw:"))
        return raw if text.startswith("raw:") else framed(raw)

    lines = [json.loads(line) for line in lzma.open(data / "suites" / "consensus_traps.jsonl.xz", "rt")]
    base = first_record(data) + b"".join(map(record, lines[0]["blocks"]))
    for case in lines[1:]:
        yield f"trap {case['name']}", base + b"".join(map(record, case["blocks"]))


def random_trees(data, rounds, first):
    for seed in range(first, first + rounds):
        import blocks

        with tempfile.TemporaryDirectory(prefix="ffwd-index-") as directory:
            kernel = blocks.Kernel(pathlib.Path(directory))
            tree = blocks.Tree(random.Random(seed), kernel)
            tree.grow()
            kernel.close()
        damaged = {bytes.fromhex(block)[::-1] for block, whys in kernel.reasons.items() if whys & DAMAGED}
        sound = [raw for raw in tree.raws if wire.hash256(raw[:80]) not in damaged]
        yield f"random tree {seed}", first_record(data) + b"".join(map(framed, sound))


def main():
    program, bitcoind = pathlib.Path(sys.argv[1]).resolve(), os.environ.get("BITCOIND_EXE")
    rounds, first, only = [*sys.argv[2:5], *["12", "1", ""][len(sys.argv) - 2 :]]
    data = pathlib.Path(os.environ.get("FFWD_TEST_DATA", "../shared/data"))
    if not bitcoind or not data.is_dir():
        why = f"there is no test data at {data}" if bitcoind else "BITCOIND_EXE names no bitcoind"
        print(f"skipped: {why}, so the block index is compared with no other")
        return
    seen, different = 0, []
    for name, stream in itertools.chain(liveness(data), traps(data), random_trees(data, int(rounds), int(first))):
        if only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="ffwd-index-") as directory:
            base_count = TRAP_BASE_BLOCKS if name.startswith("trap") else BASE_BLOCKS
            rows = compared(program, bitcoind, stream, base_count, pathlib.Path(directory))
        seen += 1
        if rows and name in KNOWN:
            print(f"{name}: differs, as known: {KNOWN[name]}", flush=True)
        elif rows:
            different.append(name)
            print(f"{name}:", *rows[:12], sep="\n", flush=True)
    if different:
        raise SystemExit(f"{len(different)} of {seen} block indexes differ from bitcoind's: {', '.join(different)}")
    print(f"ffwd and bitcoind leave the same {seen} block indexes, by reindex, by import and from a peer")


main()

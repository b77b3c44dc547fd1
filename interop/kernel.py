"""ffwd and libbitcoinkernel, Core's own validation, on the same data directories. interop/run starts it.

    python interop/kernel.py PROGRAM

Every use of the kernel is a process of its own, so that its locks and caches end with it:

    python interop/kernel.py --kernel NETWORK_DIRECTORY [BLOCK_FILE FIRST LAST]

opens the data directory, gives it blocks number FIRST to LAST of the file, and reads every block and all spent outputs of the chain.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import coins
from program import run

# Both have the same first blocks, for the same arguments give the same bytes; the second goes on.
CHAIN = ["--blocks", "3", "--seed", "11", "--utxos", "5000", "--signatures", "real"]
TAILS = {"short": "4", "long": "10"}


def records(path):
    """The blocks of a file without obfuscation."""
    data, at, blocks = pathlib.Path(path).read_bytes(), 0, []
    while at < len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        blocks.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return blocks


def kernel(directory, path=None, first=0, last=-1):
    """Runs in its own process: what the kernel finds in a data directory, after it was given some blocks."""
    import pbk

    options = pbk.ContextOptions()
    options.set_chainparams(pbk.ChainParameters(pbk.ChainType.REGTEST))
    context = pbk.Context(options)
    manager = pbk.ChainstateManager(pbk.ChainstateManagerOptions(context, directory, f"{directory}/blocks"))
    chain = manager.get_active_chain()
    opened = chain.height
    for raw in records(path)[int(first) : int(last) + 1] if path else []:
        if not manager.process_block(pbk.Block(raw)):
            raise SystemExit("a block was not new")
    transactions = spent = 0
    for entry in list(chain.block_tree_entries)[1:]:
        block = manager.blocks[entry]
        count = len(list(block.transactions))
        undo = list(manager.block_spent_outputs[entry].transactions)
        if block.block_hash != entry.block_hash or len(undo) != count - 1:
            raise SystemExit(f"block {entry.block_hash} and what it spent do not fit")
        transactions += count
        spent += sum(len(list(one.coins)) for one in undo)
    tip = chain.block_tree_entries[chain.height]
    return {
        "opened": opened,
        "height": chain.height,
        "bestblock": str(tip.block_hash),
        "transactions": transactions,
        "inputs": spent,
    }


class Test:
    """The steps, each on what the one before left."""

    def __init__(self, program, directory):
        self.program, self.directory = program, pathlib.Path(directory)
        self.made = {}

    def ffwd(self, name, command, *more):
        chain = ["--datadir", self.directory / name, "--chain", "regtest", "--assumevalid", "0"]
        return run([self.program, *command.split(), *chain, *more, "--json"])[0]

    def kernel(self, name, *blocks):
        return run([sys.executable, __file__, "--kernel", self.directory / name / "regtest", *blocks])[0]

    def check(self, what, got, want):
        if got != want:
            raise SystemExit(f"{what}: got {got}, want {want}")
        print(f"ok: {what}", flush=True)

    def same_set(self, name, what, want):
        """ffwd and the reader of this directory agree with `want` on the coins."""
        ours = self.ffwd(name, "coins info", "--hash", "hash_serialized_3")
        theirs = coins.read(self.directory / name / "regtest")
        ours["satoshis"] = int(ours["total_amount"] * 10**8)
        ours = {field: ours[field] for field in ("bestblock", "txouts", "bogosize", "satoshis", "hash_serialized_3")}
        self.check(f"{what}: two readers see the same coins", {field: theirs[field] for field in ours}, ours)
        if want:
            self.check(f"{what}: the coins are the right ones", ours, want)
        return ours

    def make(self, name):
        made, _ = run([self.program, "lab", "chain", "--out", self.directory / name, *CHAIN, "--tail", TAILS[name], "--json"])
        self.made[name] = {field: made[field] for field in ("height", "bestblock", "transactions", "inputs")}
        return self.directory / name / "regtest/blocks/blk00000.dat"

    def all(self):
        self.make("short")
        long = self.make("long")
        untouched = self.directory / "blocks.dat"
        shutil.copy(long, untouched)
        short, height = self.made["short"], self.made["short"]["height"]
        self.ffwd("short", "reindex")
        found = self.kernel("short")
        self.check("the kernel opens what ffwd made, at its tip", (found["opened"], found["bestblock"]), (height, short["bestblock"]))
        counts = ("transactions", "inputs")
        self.check("all blocks and spent outputs are there", [found[c] for c in counts], [short[c] for c in counts])
        self.same_set("short", "after the kernel was there", None)

        self.ffwd("long", "reindex")
        want = self.same_set("long", "a reindex", None)
        self.check("it ends at the tip", want["bestblock"], self.made["long"]["bestblock"])

        found = self.kernel("short", untouched, height + 1, height + 2)
        self.check("the kernel takes the next blocks", (found["opened"], found["height"]), (height, height + 2))
        self.same_set("short", "coins that the kernel wrote on ours", None)
        self.ffwd("short", "verify", "--level", "4", "--blocks", "0")
        went_on = self.ffwd("short", "import", untouched)
        self.check("ffwd goes on from there", (went_on["height_start"], went_on["bestblock"]), (height + 2, want["bestblock"]))
        self.same_set("short", "both have written", want)
        found = self.kernel("short")
        self.check("the kernel opens it again", found["bestblock"], want["bestblock"])

        last = self.made["long"]["height"]
        found = self.kernel("kernel", untouched, 1, last)
        self.check("the kernel takes the whole chain", (found["height"], found["bestblock"]), (last, want["bestblock"]))
        self.same_set("kernel", "the kernel's own directory", want)
        self.ffwd("kernel", "verify", "--level", "4", "--blocks", "0")
        again = self.ffwd("kernel", "reindex", "--hash", "hash_serialized_3")
        self.check("ffwd reindexes the kernel's directory", again["hash_serialized_3"], want["hash_serialized_3"])
        self.ffwd("kernel", "reindex", "--chainstate-only")
        self.same_set("kernel", "rebuilt", want)
        found = self.kernel("kernel")
        self.check("the kernel opens its directory again", found["bestblock"], want["bestblock"])


def main():
    if sys.argv[1] == "--kernel":
        print(json.dumps(kernel(*sys.argv[2:])))
        return
    with tempfile.TemporaryDirectory(prefix="ffwd-interop-") as directory:
        Test(sys.argv[1], directory).all()
    print("ffwd and libbitcoinkernel agree")


main()

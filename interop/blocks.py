"""Random trees of blocks, judged by ffwd and by libbitcoinkernel, Core's own validation. interop/run starts it.

    python interop/blocks.py PROGRAM [ROUNDS [SEED]]

Each round grows a tree of regtest blocks from genesis, good and invalid ones (invalid_blocks.py). The kernel gets them one by
one and says after each where the chain ends; on that, or beside it, the next is built. ffwd then gets all of them in
one file. Both must end at the same block and refuse blocks for the same reasons, the coins must be those that were
counted, and a reindex of what ffwd stored must end there too.
"""

import collections
import pathlib
import random
import re
import struct
import sys
import tempfile

import pbk
import invalid_blocks
from program import run

MAGIC = bytes.fromhex("fabfb5da")
# ffwd looks first at the header, then whether the body is the header's at all; Core in another order.
LOOKED_AT_FIRST = {
    "bad-prevblk",
    "duplicate-invalid",
    "high-hash",
    "bad-diffbits",
    "bad-version",
    "time-too-old",
    "time-too-new",
    "mutated",
    "bad-txnmrklroot",
    "bad-txns-duplicate",
    "bad-witness-nonce-size",
    "bad-witness-merkle-match",
    "unexpected-witness",
}
# Between why a script failed and where.
AT = " in "
# The kernel does not look at a block that it cannot read, that it has refused, or whose parent it has refused.
NOT_LOOKED_AT = {"cannot be read", "prev-blk-not-found", "bad-prevblk", "duplicate-invalid"}


def tell(block_hash):
    return block_hash[::-1].hex()


def reason(text):
    """The verdict without what is told beside it, but for the input whose script failed."""
    if "do not deserialize as a block" in text:
        return "cannot be read"
    if failed := re.match(r"block-script-verify-flag-failed \((.*?)\).*?input (\d+) of (?:transaction )?(\w+)", text):
        return f"{failed[1]}{AT}input {failed[2]} of {failed[3]}"
    return re.split(r",|\(0x|: | \(", text.strip())[0].strip()


def unlike(ours, theirs):
    """The reasons of ours for which there is no explanation but an error."""
    if theirs & NOT_LOOKED_AT:
        return set()
    # Of several inputs whose scripts fail the kernel names the one that its threads met first.
    places = {why.partition(AT)[2] for why in theirs} - {""}
    others = {why for why in ours if AT in why and places and why.partition(AT)[2] not in places}
    return ours - theirs - LOOKED_AT_FIRST - others


class Kernel:
    """Core's validation, its tables in memory, and why it refused what it refused."""

    def __init__(self, directory):
        self.reasons = collections.defaultdict(set)
        self.given = self.why = None
        options = pbk.ContextOptions()
        options.set_chainparams(pbk.ChainParameters(pbk.ChainType.REGTEST))
        self.context = pbk.Context(options)
        settings = pbk.ChainstateManagerOptions(self.context, str(directory), f"{directory}/blocks")
        settings.update_block_tree_db_in_memory(True)
        settings.update_chainstate_db_in_memory(True)
        # With none the scripts of a transaction come before what is wrong with the next one.
        settings.set_worker_threads_num(1)
        self.log = pbk.LoggingConnection(self.heard)
        self.manager = pbk.ChainstateManager(settings)

    def heard(self, line: str) -> None:
        if found := re.search(r"AcceptBlock FAILED \((.*)\)", line):
            self.reasons[self.given].add(reason(found[1]))
        elif found := re.search(r"Block validation error: (.*)", line):
            self.why = reason(found[1])
        elif self.why and (found := re.search(r"InvalidChainFound: invalid block=(\w+)", line)):
            self.reasons[found[1]].add(self.why)
            self.why = None

    def give(self, raw, block_hash):
        """What it says is heard from its log."""
        self.given = tell(block_hash)
        try:
            block = pbk.Block(raw)
        except RuntimeError:
            self.reasons[self.given].add("cannot be read")
            return
        try:
            self.manager.process_block(block)
        except pbk.ProcessBlockException:
            pass

    def close(self):
        """Ends the log first, which would hear the next kernel too."""
        self.log = None
        self.manager = self.context = None

    def tip(self):
        chain = self.manager.get_active_chain()
        return bytes(chain.block_tree_entries[chain.height].block_hash)


class Tree:
    """The blocks of a round, in the order in which they come."""

    def __init__(self, draw, kernel):
        self.draw, self.kernel = draw, kernel
        genesis = invalid_blocks.Node(None, invalid_blocks.GENESIS, 0, invalid_blocks.GENESIS_TIME, {})
        self.nodes, self.names = {genesis.hash: genesis}, {genesis.hash: "genesis"}
        self.recent, self.raws, self.made = [genesis], [], collections.Counter()
        # A branch that grows for some blocks, whatever the best chain is.
        self.branch, self.branch_left = None, 0

    def grow(self):
        base = self.draw.choice([101, 103, 110, 145])
        for _ in range(base):
            self.add(invalid_blocks.Block(self.draw, self.nodes[self.kernel.tip()]), "good")
        for _ in range(self.draw.choice([20, 40, 60])):
            block = invalid_blocks.Block(self.draw, self.parent())
            invalid_blocks.fill(block, self.draw.choice([0, 1, 2, 5, 20]))
            name = "good"
            if self.draw.random() < 0.5:
                # One in five is a signature's: there are many kinds of them.
                is_signature = self.draw.random() < 0.2
                defect = invalid_blocks.wrong_signature if is_signature else self.draw.choice(invalid_blocks.DEFECTS)
                name = defect.__name__
                defect(block)
                if self.draw.random() < 0.15:
                    self.draw.choice(invalid_blocks.DEFECTS)(block)
            self.add(block, name)

    def parent(self):
        tip = self.nodes[self.kernel.tip()]
        if self.branch_left:
            self.branch_left -= 1
            return self.branch
        what = self.draw.random()
        if what < 0.06:
            for _ in range(self.draw.randrange(1, 7)):
                tip = tip.parent or tip
            self.branch, self.branch_left = tip, self.draw.randrange(2, 9)
            return tip
        # One of the last blocks, good or not; or one beside the tip.
        return self.draw.choice(self.recent) if what < 0.14 else tip.parent if what < 0.2 and tip.parent else tip

    def add(self, block, name):
        raw, node = block.finish()
        self.made[name] += 1
        self.names.setdefault(node.hash, name)
        self.nodes.setdefault(node.hash, node)
        self.recent = (self.recent + [node])[-8:]
        if self.branch_left:
            self.branch = node
        bodies = [raw]
        if self.draw.random() < 0.03:
            bodies.append(raw)
        if block.good and self.draw.random() < 0.5:
            # The header is still good, whatever was wrong with the first body.
            self.made["good after bad"] += 1
            bodies.append(block.good)
        for body in bodies:
            self.raws.append(body)
            self.kernel.give(body, node.hash)

    def name(self, block_hash):
        return self.names.get(bytes.fromhex(block_hash)[::-1], "none of these")


class Round:
    """One tree, and both judges."""

    def __init__(self, program, seed, directory):
        self.program, self.seed, self.directory = program, seed, directory
        self.draw = random.Random(seed)
        self.kernel = Kernel(directory / "kernel")
        self.tree = Tree(self.draw, self.kernel)
        self.reasons = collections.defaultdict(set)
        self.settings = ["--par", self.draw.choice([1, 2, 4]), "--dbcache", self.draw.choice([4, 100])]

    def fail(self, why):
        raise SystemExit(f"seed {self.seed} ({self.settings}): {why}")

    def ffwd(self, *words):
        chain = [
            "--datadir",
            self.directory / "ffwd",
            "--chain",
            "regtest",
            "--assumevalid",
            "0",
            *self.settings,
            "--json",
        ]
        try:
            return run([self.program, *words, *chain])
        except SystemExit as why:
            self.fail(why)

    def run(self):
        self.tree.grow()
        path = self.directory / "blocks.dat"
        path.write_bytes(b"".join(MAGIC + struct.pack("<I", len(raw)) + raw for raw in self.tree.raws))
        (self.directory / "ffwd").mkdir()
        found, told = self.ffwd("import", path)
        for block_hash, why in re.findall(r"refused: block (\w+) at height \d+: (.*)", told):
            self.reasons[block_hash].add(reason(why))
        want = self.tree.nodes[self.kernel.tip()]
        self.same_tip("an import", found, want)
        self.same_reasons()
        info, _ = self.ffwd("coins", "info", "--hash", "none")
        theirs = (info["txouts"], int(info["total_amount"] * invalid_blocks.COIN))
        counted = (len(want.coins), sum(coin.value for coin in want.coins.values()))
        if theirs != counted:
            self.fail(f"coins and their sum: ffwd {theirs}, counted {counted}")
        self.same_tip("a reindex", self.ffwd("reindex")[0], want)
        self.kernel.close()

    def same_tip(self, what, found, want):
        if found["bestblock"] != tell(want.hash):
            ours, theirs = (f"{block} ({self.tree.name(block)})" for block in (found["bestblock"], tell(want.hash)))
            self.fail(
                f"{what} ends at height {found['height']}, {ours}, the kernel at height {want.height}, {theirs}; "
                f"refused: ffwd {dict(self.reasons)}, the kernel {dict(self.kernel.reasons)}"
            )

    def same_reasons(self):
        for block_hash, ours in self.reasons.items():
            theirs = self.kernel.reasons.get(block_hash, set())
            if not theirs or unlike(ours, theirs):
                name = self.tree.name(block_hash)
                self.fail(f"block {block_hash} ({name}) refused: ffwd {ours}, the kernel {theirs or 'not'}")


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    made, refused = collections.Counter(), collections.Counter()
    for seed in range(first, first + rounds):
        with tempfile.TemporaryDirectory(prefix="ffwd-blocks-") as directory:
            one = Round(program, seed, pathlib.Path(directory))
            one.run()
        made += one.tree.made
        refused += collections.Counter(why.partition(AT)[0] for whys in one.kernel.reasons.values() for why in whys)
    if rounds > 20:
        print("made:", ", ".join(f"{count} {name}" for name, count in made.most_common()))
        print("refused by the kernel:", ", ".join(f"{count} {why}" for why, count in refused.most_common()))
    total = sum(made.values())
    print(
        f"ffwd and libbitcoinkernel agree on {rounds} trees of {total} blocks, {sum(refused.values())} of them refused"
    )


if __name__ == "__main__":
    main()

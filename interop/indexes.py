"""The four optional indexes of ffwd beside bitcoind's own, over random trees of blocks, after each tip.

    BITCOIND_EXE=... python interop/indexes.py PROGRAM [ROUNDS [SEED]]

A bitcoind with all four indexes makes a chain, with spends, and changes its tip by invalidateblock, reconsiderblock and new
blocks. After each tip ffwd takes its blocks into a data directory of its own, keeping the same indexes, and every filter,
filter header, statistic, transaction and spender of the active chain is compared, and filters and statistics of the blocks
that became stale. At the end bitcoind opens ffwd's data directory: all four are synced at once.
Of three rounds one imports the block files and keeps the indexes in the pass, one imports them and brings the indexes up
with `ffwd index`, and one syncs from the bitcoind as from any peer, indexes in the pass.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from program import free_port

NAMES = ("txindex", "blockfilterindex", "txospenderindex", "coinstatsindex")
QUIET = ["-connect=0", "-listen=1", "-listenonion=0", "-dnsseed=0", "-fixedseeds=0", "-printtoconsole=0", "-disablewallet", "-blocksxor=0"]
STATISTICS = ("height", "bestblock", "txouts", "bogosize", "muhash", "total_amount", "total_unspendable_amount", "block_info")


class Node:
    """A bitcoind with the four indexes, which listens for peers."""

    def __init__(self, datadir):
        port, self.peer_port = free_port(), free_port()
        exe = pathlib.Path(os.environ["BITCOIND_EXE"])
        self.cli = [str(exe.with_name("bitcoin-cli")), "-regtest", f"-datadir={datadir}", f"-rpcport={port}"]
        options = [f"-{name}=1" for name in NAMES]
        bind = f"-bind=127.0.0.1:{self.peer_port}"
        self.process = subprocess.Popen([str(exe), "-regtest", f"-datadir={datadir}", f"-rpcport={port}", bind, *QUIET, *options])
        while True:
            try:
                self.call("getblockcount")
                return
            except RuntimeError:
                assert self.process.poll() is None, "bitcoind ends"
                time.sleep(0.05)

    def call(self, *words):
        out = subprocess.run([*self.cli, *map(str, words)], capture_output=True, text=True, check=False)
        if out.returncode:
            raise RuntimeError(out.stderr)
        text = out.stdout.strip()
        try:
            return json.loads(text, parse_float=str)
        except ValueError:
            return text

    def wait_synced(self):
        height = self.call("getblockcount")
        while any(not x["synced"] or x["best_block_height"] != height for x in self.call("getindexinfo").values()):
            time.sleep(0.02)

    def stop(self):
        self.call("stop")
        self.process.wait(60)


def ffwd(program, datadir, *words, ok=True):
    out = subprocess.run([program, *map(str, words), "--datadir", str(datadir), "--chain", "regtest", "--json"],
                         capture_output=True, text=True, check=False)
    assert not ok or out.returncode == 0, f"{words}: {out.stderr}"
    return json.loads(out.stdout.splitlines()[-1], parse_float=str) if out.returncode == 0 else {}


class Round:
    def __init__(self, program, seed, top):
        self.program, self.rng, self.seed = program, random.Random(seed), seed
        self.core_dir, self.own = top / "core", top / "own"
        self.core_dir.mkdir()
        self.own.mkdir()
        self.way = ("import, in the pass", "import, afterwards", "sync")[seed % 3]
        self.stale, self.core = set(), Node(self.core_dir)

    def grow(self, count):
        for _ in range(count):
            # A script of its own: a block that was invalidated must not be made again.
            word = f"raw(04{self.rng.randbytes(4).hex()}7551)"
            self.core.call("generatetodescriptor", 1, word)
            if self.rng.random() < 0.6 and (spend := self.spend()):
                self.core.call("generateblock", word, json.dumps([spend]))

    def spend(self):
        """A transaction that spends a coin that anyone may, into two and a word."""
        height = self.core.call("getblockcount") - 101
        if height < 1:
            return None
        block = self.core.call("getblock", self.core.call("getblockhash", self.rng.randrange(1, height + 1)), 2)
        tx = self.rng.choice(block["tx"])
        coin = self.core.call("gettxout", tx["txid"], 0)
        if not coin or not coin["scriptPubKey"]["hex"].endswith("51"):
            return None
        half = int(round(float(coin["value"]) * 1e8)) // 2
        outputs = [(half, "51"), (half - 500, "00" * self.rng.randrange(1, 40)), (0, "6a0161")]
        raw = "02000000" + "01" + bytes.fromhex(tx["txid"])[::-1].hex() + "00000000" + "00" + "ffffffff"
        raw += f"{len(outputs):02x}" + "".join(v.to_bytes(8, "little").hex() + f"{len(s) // 2:02x}" + s for v, s in outputs)
        return raw + "00000000"

    def reorg(self):
        """Another branch from a random depth, or back to one that was left."""
        height, depth = self.core.call("getblockcount"), self.rng.randrange(1, 6)
        active = [self.core.call("getblockhash", h) for h in range(height - depth + 1, height + 1)]
        self.core.call("invalidateblock", active[0])
        self.grow(self.rng.randrange(1, depth + 2))
        # Of two branches of equal work each program keeps the one that it saw first.
        if self.core.call("getblockcount") == height:
            self.grow(1)
        self.core.call("reconsiderblock", active[0])
        now = {self.core.call("getblockhash", h) for h in range(height - depth + 1, self.core.call("getblockcount") + 1)}
        # Stale to ffwd is what it connected itself.
        self.stale = {x for x in self.stale | (set(active) & self.seen) if x not in now}

    seen = set()

    def take_tip(self):
        self.core.wait_synced()
        flags = [f"--{name}" for name in NAMES]
        if self.way == "sync":
            peer = f"127.0.0.1:{self.core.peer_port}"
            got = ffwd(self.program, self.own, "sync", "--connect", peer, "--exit-at-tip", *flags, "--blocksxor", 0)
        else:
            files = sorted((self.core_dir / "regtest" / "blocks").glob("blk*.dat"))
            flags = flags if "in the pass" in self.way else []
            got = ffwd(self.program, self.own, "import", *files, *flags, "--blocksxor", 0)
        assert got["bestblock"] == self.core.call("getbestblockhash"), f"seed {self.seed}, {self.way}: {got}"
        if self.way == "import, afterwards":
            ffwd(self.program, self.own, "index", *(x for name in NAMES for x in ("--only", name)))
        height = self.core.call("getblockcount")
        self.seen = self.seen | {self.core.call("getblockhash", h) for h in range(max(0, height - 12), height + 1)}

    def compare(self):
        height = self.core.call("getblockcount")
        for h in sorted({0, 1, self.rng.randrange(2, height), *range(max(2, height - 8), height + 1)}):
            self.compare_block(self.core.call("getblockhash", h), h)
        for block in self.stale:
            want = self.core.call("getblockfilter", block)
            got = ffwd(self.program, self.own, "filter", block)
            assert (got["filter"], got["header"]) == (want["filter"], want["header"]), f"seed {self.seed}: stale {block}"
            want = self.core.call("gettxoutsetinfo", "muhash", block)
            got = ffwd(self.program, self.own, "coins", "info", "--height", block)
            assert got["muhash"] == want["muhash"], f"seed {self.seed}: stale {block}"

    def compare_block(self, block, height):
        where = f"seed {self.seed}, {self.way}, height {height}"
        want, got = self.core.call("getblockfilter", block), ffwd(self.program, self.own, "filter", height)
        assert (got["filter"], got["header"]) == (want["filter"], want["header"]), where
        if height == 0:
            return
        want, got = self.core.call("gettxoutsetinfo", "muhash", height), ffwd(self.program, self.own, "coins", "info", "--height", height)
        for name in STATISTICS:
            assert got[name] == want[name], f"{where}: {name}: {got[name]}, bitcoind {want[name]}"
        for tx in self.core.call("getblock", block, 2)["tx"]:
            found = ffwd(self.program, self.own, "tx", tx["txid"])
            assert (found["hex"], found["blockhash"]) == (tx["hex"], block), where
            for x in tx["vin"]:
                if "txid" in x:
                    found = ffwd(self.program, self.own, "spender", f"{x['txid']}:{x['vout']}")
                    assert (found.get("spendingtxid"), found.get("blockhash")) == (tx["txid"], block), where

    def run(self):
        self.grow(104)
        self.take_tip()
        tips = 1
        for _ in range(5):
            self.reorg() if self.rng.random() < 0.8 else self.grow(2)
            self.take_tip()
            self.compare()
            tips += 1
        self.core.stop()
        self.core = Node(self.own)
        height = self.core.call("getblockcount")
        info = self.core.call("getindexinfo")
        assert len(info) == 4 and all(x["synced"] and x["best_block_height"] == height for x in info.values()), f"seed {self.seed}: {info}"
        self.core.stop()
        return tips


def main():
    if not os.environ.get("BITCOIND_EXE"):
        print("skipped: BITCOIND_EXE names no bitcoind")
        return
    program = str(pathlib.Path(sys.argv[1]).resolve())
    rounds, seed = (int(sys.argv[2]) if len(sys.argv) > 2 else 4), (int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    tips = 0
    for number in range(seed, seed + rounds):
        top = pathlib.Path(tempfile.mkdtemp(prefix="indexes-"))
        this = Round(program, number, top)
        try:
            tips += this.run()
        finally:
            if this.core.process.poll() is None:
                this.core.process.kill()
                this.core.process.wait()
            shutil.rmtree(top, ignore_errors=True)
    print(f"indexes: {tips} tips of {rounds} random trees are bitcoind's")


if __name__ == "__main__":
    main()

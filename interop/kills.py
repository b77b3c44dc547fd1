#!/usr/bin/env python3
"""Kills at random instants over sync, reindex, rebuild and a pruned sync: after each row of kills the next run ends with the UTXO set
of a run that was never killed, and `verify` finds nothing.

    interop/kills.py target/release/ffwd [KILLS] [SEED]

1,000 kills take some 20 minutes on two cores, and 2 GB of TMPDIR. What a kill leaves is what was written, synced or not: the
machine goes on. Power loss is in the tests, on a simulated disk.
"""

import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from program import free_port

REGTEST = ("--chain", "regtest", "--json")
HASH = ("--hash", "hash_serialized_3")
A_ROW_MAX = 12  # kills one after another before a run is left alone


def answer(text):
    lines = text.strip().splitlines()
    return json.loads(lines[-1]) if lines else {}


def run(program, *words):
    """The object that a whole run prints; ends the test if the program failed."""
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return answer(done.stdout)


def set_hash(program, datadir):
    return run(program, "coins", "info", "--datadir", datadir, *REGTEST, *HASH)["hash_serialized_3"]


def make_chain(program, datadir, blocks, utxos):
    chain = ("--blocks", blocks, "--utxos", utxos, "--seed", 3, "--tail", 2100, "--signatures", "fake")
    return run(program, "lab", "chain", "--out", datadir, *chain, "--json")["bestblock"]


class Work:
    """One command that is killed: what it starts from, and what it must leave."""

    def __init__(self, program, name, start, words, is_fresh, assumed):
        self.program, self.name, self.start, self.words, self.is_fresh = program, name, start, words, is_fresh
        self.assumed = assumed
        self.kills, self.runs, self.at = 0, 0, start(None)
        began = time.monotonic()
        run(program, *words(self.at))
        self.seconds = time.monotonic() - began
        self.want = set_hash(program, self.at)

    def row(self, rng, kills):
        """Up to `kills` kills, then a run to the end, whose UTXO set is compared."""
        if self.is_fresh:
            self.at = self.start(self.at)
        for _ in range(kills):
            started = subprocess.Popen([self.program, *map(str, self.words(self.at))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                _, said = started.communicate(timeout=rng.uniform(0.01, self.seconds * 1.1))
            except subprocess.TimeoutExpired:
                started.kill()
                started.communicate()
                self.kills += 1
                continue
            if started.returncode:
                sys.exit(f"{self.name} after {self.kills} kills: exit code {started.returncode}: {said[-2000:]}")
            self.runs += 1
            if self.is_fresh:
                break
        run(self.program, *self.words(self.at))
        self.runs += 1
        got = set_hash(self.program, self.at)
        if got != self.want:
            sys.exit(f"FAILED: {self.name} after {self.kills} kills: UTXO set {got}, expected {self.want}; kept in {self.at}")


def works(program, scratch):
    """The four works, each on directories of its own; and the program that serves blocks to two of them."""
    small, large = scratch / "small", scratch / "large"
    tip, large_tip = make_chain(program, small, 40, 200_000), make_chain(program, large, 420, 100_000)
    run(program, "reindex", "--datadir", small, *REGTEST, "--assumevalid", tip)
    run(program, "reindex", "--datadir", large, *REGTEST, "--assumevalid", large_tip)
    servers, ports = [], {}
    for datadir in (small, large):
        ports[datadir] = free_port()
        words = ("sync", "--datadir", datadir, *REGTEST, "--connect", 0, "--listen", f"127.0.0.1:{ports[datadir]}", "--dbcache", 50)
        servers.append(subprocess.Popen([program, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    time.sleep(3)

    def empty(name):
        def start(_):
            shutil.rmtree(scratch / name, ignore_errors=True)
            (scratch / name).mkdir()
            return scratch / name
        return start

    def copy(name):
        def start(_):
            shutil.rmtree(scratch / name, ignore_errors=True)
            blocks = scratch / name / "regtest/blocks"
            blocks.mkdir(parents=True)
            for file in [*(small / "regtest/blocks").glob("blk*.dat"), small / "regtest/blocks/xor.dat"]:
                shutil.copy(file, blocks)
            return scratch / name
        return start

    def sync(datadir, block, *more):
        return lambda at: ("sync", "--datadir", at, *REGTEST, "--assumevalid", block, "--connect", f"127.0.0.1:{ports[datadir]}", "--exit-at-tip", "--dbcache", 4, *more)

    def reindex(*more):
        return lambda at: ("reindex", "--datadir", at, *REGTEST, "--assumevalid", tip, "--dbcache", 4, *more)

    def indexed(at):
        at = copy("rebuild")(at)
        run(program, *reindex()(at))
        return at

    made = [
        Work(program, "sync", empty("sync"), sync(small, tip), True, tip),
        Work(program, "reindex", copy("reindex"), reindex(), False, tip),
        Work(program, "rebuild", indexed, reindex("--chainstate-only"), False, tip),
        Work(program, "pruned sync", empty("pruned"), sync(large, large_tip, "--prune", 550), True, large_tip),
    ]
    return made, servers


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(10**6)
    rng, scratch = random.Random(seed), pathlib.Path(tempfile.mkdtemp(prefix="ffwd-kills-"))
    made, servers = works(program, scratch)
    try:
        while sum(work.kills for work in made) < kills:
            work = min(made, key=lambda work: work.kills)
            work.row(rng, min(rng.randint(1, A_ROW_MAX), kills - sum(work.kills for work in made)))
            counts = collections.Counter({work.name: work.kills for work in made})
            print(f"{counts.total()} of {kills} kills (seed {seed}): {dict(counts)}", flush=True)
        for work in made:
            blocks = () if work.name == "pruned sync" else ("--level", 4, "--blocks", 0)
            run(program, "verify", "--datadir", work.at, *REGTEST, "--assumevalid", work.assumed, *blocks)
    finally:
        for server in servers:
            server.send_signal(signal.SIGINT)
            server.wait(60)
    for work in made:
        print(f"ok: {work.name}: {work.kills} kills, {work.runs} whole runs between them, UTXO set {work.want[:16]} each time")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    main()

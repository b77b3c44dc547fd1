#!/usr/bin/env python3
"""Random episodes of submitblock, submitheader, invalidateblock, reconsiderblock, preciousblock and generate, to ffwd and to a
bitcoind, from the same chain on: after each step both must give the same answer, stand on the same tip, and have the same tips of
chains, each with its length and status.

    BITCOIND_EXE=... interop/chain_changes.py target/release/ffwd [--episodes 400] [--seed 1]

An episode grows a tree of a dozen blocks on the tip that both have: some of them bad when they are connected (the coinbase takes
too much), some at their place in the chain (its height is wrong), some in themselves (the merkle root). Blocks come late, twice,
and before their parents. Says that it skips without a bitcoind; ends with 1 where something differs.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import struct
import sys
import tempfile

from figures import bitcoind, PASSWORD, Program, USER

SUBSIDY = 50 * 10**8


def twice(data):
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def pushed(height):
    """The height as the coinbase's first push: BIP 34."""
    if height <= 16:
        return bytes([0x50 + height])
    number = height.to_bytes((height.bit_length() + 8) // 8, "little")
    return bytes([len(number)]) + number


class Block:
    """A block with nothing but a coinbase."""

    def __init__(self, parent, height, time, extra, fault=None):
        self.parent, self.height, self.time, self.fault = parent, height, time, fault
        script = pushed(height + (fault == "height")) + struct.pack("<BI", 4, extra)
        value = (SUBSIDY >> (height // 150)) + (fault == "amount")
        coinbase = (struct.pack("<iB", 2, 1) + bytes(32) + b"\xff" * 4 + bytes([len(script)]) + script + b"\xff" * 4 + b"\1"
                    + struct.pack("<q", value) + b"\1\x51" + bytes(4))
        root = twice(coinbase)
        if fault == "root":
            root = twice(root)
        nonce = 0
        while True:
            self.header = struct.pack("<i", 0x20000000) + bytes.fromhex(parent)[::-1] + root + struct.pack("<III", time, 0x207FFFFF, nonce)
            if twice(self.header)[31] < 0x7F:
                break
            nonce += 1
        self.hash, self.hex = twice(self.header)[::-1].hex(), (self.header + b"\1" + coinbase).hex()


def ask(program, method, *params):
    """The result, or the error's code and text."""
    keep = program.keep
    _, size = keep.ask(keep.post(method, *params))
    said = json.loads(bytes(keep.buffer[keep.start:keep.start + size]))
    return said["result"] if said["error"] is None else (said["error"]["code"], said["error"]["message"])


def state(program):
    tips = {(tip["height"], tip["hash"], tip["branchlen"], tip["status"]) for tip in ask(program, "getchaintips")}
    return ask(program, "getbestblockhash"), sorted(tips)


class Episode:
    def __init__(self, programs, seed):
        self.programs, self.dice, self.done = programs, random.Random(seed), []
        best = ask(programs[1], "getblockheader", ask(programs[1], "getbestblockhash"))
        self.blocks = []
        self.root = (best["hash"], best["height"], best["time"])

    def grow(self):
        """One block more that is known to nobody yet, most of them high up."""
        some = self.blocks[-4:] if self.blocks and self.dice.random() < 0.7 else self.blocks
        parent = self.dice.choice(some) if some and self.dice.random() < 0.85 else None
        at = (parent.hash, parent.height, parent.time) if parent else self.root
        fault = self.dice.choices([None, "amount", "height", "root"], [12, 2, 1, 1])[0]
        self.blocks.append(Block(at[0], at[1] + 1, at[2] + 1, self.dice.randrange(1 << 32), fault))

    def both(self, method, *params):
        return [ask(program, method, *params) for program in self.programs]

    def step(self):
        """One thing, done to both: what it was, and what both said."""
        if len(self.blocks) < 14 and (not self.blocks or self.dice.random() < 0.5):
            self.grow()
        number = self.dice.randrange(len(self.blocks))
        block = self.blocks[number]
        what = self.dice.choices(["submitblock", "submitheader", "invalidateblock", "reconsiderblock", "preciousblock", "generate"], [50, 6, 12, 12, 12, 8])[0]
        if what == "submitblock":
            return f"{what} {number} ({block.fault})", self.both(what, block.hex)
        if what == "submitheader":
            return f"{what} {number}", self.both(what, block.header.hex())
        if what == "generate":
            # The one makes it, the other is given it.
            maker, taker = self.dice.sample(self.programs, 2)
            made = ask(maker, "generatetodescriptor", 1, "raw(51)")
            if isinstance(made, tuple):
                return f"{what} by {maker.name}, which refuses: {made}", [made, ask(taker, "generatetodescriptor", 1, "raw(51)")]
            raw = ask(maker, "getblock", made[0], 0)
            header = ask(maker, "getblockheader", made[0])
            given = ask(taker, "submitblock", raw)
            mine = Block.__new__(Block)
            mine.parent, mine.height, mine.time, mine.fault = header["previousblockhash"], header["height"], header["time"], None
            mine.hash, mine.hex, mine.header = made[0], raw, bytes.fromhex(raw[:160])
            self.blocks.append(mine)
            return f"{what} {len(self.blocks) - 1} by {maker.name}", [given, None]
        if what == "preciousblock" and block.height > ask(self.programs[1], "getblockcount"):
            return "nothing", [None, None]
        return f"{what} {number}", self.both(what, block.hash)

    def run(self, steps):
        """What differs; nothing where all is the same."""
        for _ in range(steps):
            what, said = self.step()
            states = [state(program) for program in self.programs]
            self.done.append(f"{what}: {said[1]}")
            if said[0] != said[1] or states[0] != states[1]:
                names = [program.name for program in self.programs]
                both = [f"    {name}: {answer}, {at}" for name, answer, at in zip(names, said, states)]
                return "\n".join([*self.done, *both])
        return None


def main():
    read = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    read.add_argument("ffwd", type=pathlib.Path)
    read.add_argument("--episodes", type=int, default=400)
    read.add_argument("--steps", type=int, default=30)
    read.add_argument("--seed", type=int, default=1)
    options = read.parse_args()
    if "BITCOIND_EXE" not in os.environ:
        print("skipped: BITCOIND_EXE names no bitcoind")
        return
    work, different = pathlib.Path(tempfile.mkdtemp(prefix="ffwd-changes-")), 0
    try:
        for name in ("own", "core"):
            (work / name).mkdir()
        serve = [options.ffwd.resolve(), "serve", "--datadir", work / "own", "--chain", "regtest", "--rpcport", "RPC", "--rpcuser", USER, "--rpcpassword", PASSWORD]
        programs = [Program("ffwd", serve), bitcoind(work / "core")]
        for number in range(options.episodes):
            if difference := Episode(programs, options.seed * 1_000_000 + number).run(options.steps):
                different += 1
                print(f"episode {number}:\n{difference}", flush=True)
                break
            if number % 50 == 49:
                print(f"{number + 1} episodes", flush=True)
        for program in programs:
            program.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{number + 1} episodes of {options.steps} steps, {different} differ")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()

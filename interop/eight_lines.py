#!/usr/bin/env python3
"""How much of eight lines a sync uses, of which five are honest, two stall and one lies: ffwd and bitcoind in turn.

    BITCOIND_EXE=... interop/eight_lines.py target/release/ffwd CHAIN [--rounds 3] [--faketime LIBRARY]

CHAIN: see line_share.py, whose lines these are. All lead to one server. A line that stalls passes nothing more from its third block on.
The one that lies passes blocks with another last byte and the right checksum, so that only the Merkle root tells.

bitcoind gets seven lines: it never drops a peer of -connect, and asks the one that lies for the same blocks without an end.

The share is that of the honest lines' rates together, 52 Mbit/s, which the blocks used that were still to come ten seconds after the
first block: their bytes by the seconds until the program had connected all. Without BITCOIND_EXE ffwd runs alone. Ends with 1 where
ffwd's median share is below 0.90.

bitcoind asks other peers than the first for headers, and so for blocks, when its best header is less than a day old. The chain is of
2011: with --faketime (libfaketimeMT.so.1 of Debian's package faketime) both programs have a clock of that day.
"""
import argparse
import collections
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import line_share

# Mbit/s, round trip in milliseconds, what the peer does.
LINES = [(30, 20, "honest"), (12, 50, "honest"), (6, 100, "honest"), (3, 200, "honest"), (1, 200, "honest"), (20, 50, "stalls"), (5, 100, "stalls"), (10, 50, "lies")]
RATE = sum(mbit for mbit, _, kind in LINES if kind == "honest") * 125_000
HEADER_BYTES = 24


class Line(line_share.Line):
    """A line whose peer may not be honest; messages go from the server to the client as a whole."""

    def __init__(self, to, mbit, round_trip_ms, kind):
        self.kind, self.blocks = kind, 0
        super().__init__(to, round_trip_ms / 2000, mbit * 125_000)

    def carry(self, source, sink, is_down):
        super().carry(Changed(source, self) if is_down and self.kind != "honest" else source, sink, is_down)


class Changed:
    """What a server says, as a peer that is not honest passes it on."""

    def __init__(self, source, line):
        self.source, self.line, self.stalled = source, line, False

    def recv(self, most):
        head = self.exactly(HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return b""
        body = self.exactly(int.from_bytes(head[16:20], "little"))
        if head[4:16].rstrip(b"\0") == b"block":
            self.line.blocks += 1
            if self.line.kind == "lies":
                body = body[:-1] + bytes([body[-1] ^ 1])
                head = head[:20] + hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4]
            elif self.line.blocks >= 3:
                while self.source.recv(most):
                    pass
                return b""
        return head + body

    def exactly(self, count):
        data = bytearray()
        while len(data) < count and (more := self.source.recv(count - len(data))):
            data += more
        return bytes(data)


def ended(process, folder, height):
    """Waits until a program has connected the block at `height`; the moment."""
    log = folder / "regtest" / "debug.log"
    while not (log.exists() and f"height={height} " in log.read_text(errors="replace")[-8000:]):
        time.sleep(0.1)
        if process.poll() is not None:
            raise RuntimeError(f"the program ended with {process.returncode}")
    return time.monotonic()


def tip_time(folder):
    """Seconds since 1970 in the last header of block files that are not obfuscated."""
    with sorted((folder / "regtest" / "blocks").glob("blk*.dat"))[-1].open("rb") as file:
        seconds = 0
        while (start := file.read(8 + 80)) and start[:4] != bytes(4):
            seconds = int.from_bytes(start[76:80], "little")
            file.seek(int.from_bytes(start[4:8], "little") - 80, os.SEEK_CUR)
    return seconds


def clock_of(library, seconds):
    """The environment of programs whose clock begins at `seconds` since 1970."""
    if not library:
        return None
    return {**os.environ, "LD_PRELOAD": library, "FAKETIME": f"{seconds - int(time.time()):+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def sync(command, clock, folder, height):
    process = subprocess.Popen(command, env=clock, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return ended(process, folder, height)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def commands(ffwd, tip):
    """The command of each program, by folder and ports."""
    common = lambda ports: [f"--connect=127.0.0.1:{port}" for port in ports] + [f"--assumevalid={tip}", "--dbcache=450", "--v2transport=0", "--listen=0"]
    made = {"ffwd": lambda folder, ports: [ffwd, "sync", "--datadir", folder, "--chain", "regtest", *common(ports)]}
    if bitcoind := os.environ.get("BITCOIND_EXE"):
        made["Core"] = lambda folder, ports: [bitcoind, "-regtest", f"-datadir={folder}", "-dnsseed=0", "-server=0", "-printtoconsole=0", *common(ports)]
    return made


def turn(command, lines, clock, server, height, total):
    """The share of a sync of `total` bytes, its seconds, and the bytes that each line passed."""
    lines, folder = [Line(server, *line) for line in lines], pathlib.Path(tempfile.mkdtemp())
    try:
        end = sync(command(folder, [line.port for line in lines]), clock, folder, height)
    finally:
        for line in lines:
            line.close()
        shutil.rmtree(folder, ignore_errors=True)
    honest = sorted(entry for line in lines if line.kind == "honest" for entry in line.log)
    first = next(at for at, count in honest if count > 30_000)
    late = first + 10
    before = sum(count for at, count in honest if at <= late)
    return (total - before) / (RATE * (end - late)), end - first, [sum(count for _, count in line.log) for line in lines]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ffwd")
    parser.add_argument("chain", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--faketime")
    given = parser.parse_args()
    ffwd = str(pathlib.Path(given.ffwd).resolve())
    height, tip = line_share.chain(ffwd, given.chain)
    total = sum(file.stat().st_size for file in (given.chain / "regtest" / "blocks").glob("blk*.dat"))
    begins = tip_time(given.chain) + 600
    shares = collections.defaultdict(list)
    with line_share.serving(ffwd, given.chain) as port:
        for at in range(given.rounds):
            for name, command in commands(ffwd, tip).items():
                lines = [line for line in LINES if name == "ffwd" or line[2] != "lies"]
                share, seconds, passed = turn(command, lines, clock_of(given.faketime, begins), port, height, total)
                shares[name].append(share)
                print(f"round {at + 1}, {name}: {share:.3f} of the honest lines from the tenth second on, {seconds:.1f} s; MB by line: {', '.join(f'{n / 1e6:.1f}' for n in passed)}", flush=True)
    line_share.ended(shares, 0.90)


if __name__ == "__main__":
    main()

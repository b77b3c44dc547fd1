#!/usr/bin/env python3
"""How much of a line a sync uses: a round trip of 50 ms and 100 Mbit/s, ffwd and bitcoind in turn, from one server.

    BITCOIND_EXE=... interop/line_share.py target/release/ffwd CHAIN [--rounds 3] [--mbit 100] [--round-trip-ms 50] [--par N]

CHAIN is a data directory of regtest that ffwd reindexed, with at least 30 s of blocks for the line; it is served, and not changed
but for its log. Where it is not there it is made:
`ffwd lab chain --out CHAIN --blocks 300 --utxos 800000 --tail 2100 --signatures fake --seed 2` (480 MB).

The line is a proxy of this script: half of the round trip each way, the rate towards the client. The share is that of the bytes
which the line could have passed from the tenth second after the first block to the moment at which 98 % of all had passed. Without
BITCOIND_EXE ffwd runs alone. Ends with 1 where ffwd's median share is below 0.95.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

MADE = "--blocks 300 --utxos 800000 --tail 2100 --signatures fake --seed 2".split()
WAITING_BYTES_MAX = 1 << 21  # As in a router: the rest waits with the sender.


class Line:
    """A proxy to a port; `log` has (time, bytes) of what went to the client."""

    def __init__(self, to, seconds_each_way, rate):
        self.to, self.delay, self.rate, self.log, self.is_open = to, seconds_each_way, rate, [], True
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while self.is_open:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink, is_down in ((server, client, True), (client, server, False)):
                threading.Thread(target=self.carry, args=(source, sink, is_down), daemon=True).start()

    def carry(self, source, sink, is_down):
        waiting, changed, size = collections.deque(), threading.Condition(), [0]

        def deliver():
            while True:
                with changed:
                    while not waiting:
                        changed.wait()
                    due, data = waiting.popleft()
                time.sleep(max(0.0, due - time.monotonic()))
                try:
                    if not data:
                        return sink.shutdown(socket.SHUT_WR)
                    sink.sendall(data)
                except OSError:
                    return
                with changed:
                    size[0] -= len(data)
                    changed.notify_all()
                if is_down:
                    self.log.append((time.monotonic(), len(data)))

        threading.Thread(target=deliver, daemon=True).start()
        free_at = 0.0
        while True:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            free_at = max(free_at, time.monotonic()) + (len(data) / self.rate if is_down else 0.0)
            with changed:
                while size[0] > WAITING_BYTES_MAX:
                    changed.wait(0.1)
                size[0] += len(data)
                waiting.append((free_at + self.delay, data))
                changed.notify_all()
            if not data:
                return

    def close(self):
        self.is_open = False
        self.socket.close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def chain(ffwd, path):
    """Its height and the hash of its tip."""
    if not path.exists():
        made = json.loads(subprocess.run([ffwd, "lab", "chain", "--out", path, *MADE, "--json"], check=True, stdout=subprocess.PIPE).stdout)
        # Its signatures are false.
        assumed = ["--assumevalid", made["bestblock"]]
        subprocess.run([ffwd, "reindex", "--datadir", path, "--chain", "regtest", *assumed], check=True, stdout=subprocess.DEVNULL)
    said = subprocess.run([ffwd, "info", "--datadir", path, "--chain", "regtest"], check=True, capture_output=True, text=True).stdout
    height, tip = re.search(r"height (\d+), block ([0-9a-f]{64})", said).groups()
    return int(height), tip


def share(log, rate):
    """Part of the line from the tenth second on."""
    total = sum(n for _, n in log)
    large = next(at for at, n in log if n > 30_000)
    passed, end = 0, log[-1][0]
    for at, n in log:
        passed += n
        if passed >= 0.98 * total:
            end = at
            break
    counted = sum(n for at, n in log if large + 10 <= at <= end)
    return counted / (rate * max(end - large - 10, 0.001)), end - large, total


def ffwd_sync(ffwd, folder, port, tip, par):
    command = [ffwd, "sync", "--datadir", folder, "--chain", "regtest", "--connect", f"127.0.0.1:{port}", "--exit-at-tip", "--assumevalid", tip, "--dbcache", "450", "--v2transport=0", *par]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def core_sync(bitcoind, folder, port, tip, height, par):
    command = [bitcoind, "-regtest", f"-datadir={folder}", f"-connect=127.0.0.1:{port}", f"-assumevalid={tip}", "-dbcache=450", "-v2transport=0", "-listen=0", "-dnsseed=0", "-server=0", "-printtoconsole=0"]
    command += [f"-par={par[1]}"] if par else []
    process = subprocess.Popen(command)
    log = folder / "regtest" / "debug.log"
    try:
        while not (log.exists() and f"height={height} " in log.read_text(errors="replace")[-4000:]):
            time.sleep(0.2)
            if process.poll() is not None:
                raise RuntimeError(f"bitcoind ended with {process.returncode}")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@contextlib.contextmanager
def serving(ffwd, folder):
    """Serves the chain of a data directory; its port."""
    port = free_port()
    server = subprocess.Popen([ffwd, "sync", "--datadir", folder, "--chain", "regtest", "--connect", "0", "--listen", f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(150):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.2)
        yield port
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def ended(shares, least):
    """Prints the shares of each program, and ends with 1 where ffwd's median is below `least`."""
    for name, parts in shares.items():
        print(f"{name}: median {statistics.median(parts):.3f}, least {min(parts):.3f}, most {max(parts):.3f}")
    sys.exit(statistics.median(shares["ffwd"]) < least)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ffwd")
    parser.add_argument("chain", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mbit", type=float, default=100)
    parser.add_argument("--round-trip-ms", type=float, default=50)
    parser.add_argument("--par", type=int)
    given = parser.parse_args()
    ffwd, rate = str(pathlib.Path(given.ffwd).resolve()), given.mbit * 1e6 / 8
    par = ["--par", str(given.par)] if given.par else []
    height, tip = chain(ffwd, given.chain)
    syncs = {"ffwd": lambda folder, at: ffwd_sync(ffwd, folder, at, tip, par)}
    if bitcoind := os.environ.get("BITCOIND_EXE"):
        syncs["Core"] = lambda folder, at: core_sync(bitcoind, folder, at, tip, height, par)
    shares = collections.defaultdict(list)
    with serving(ffwd, given.chain) as port:
        for turn in range(given.rounds):
            for name, sync in syncs.items():
                line, folder = Line(port, given.round_trip_ms / 2000, rate), pathlib.Path(tempfile.mkdtemp(dir=given.chain.parent))
                try:
                    sync(folder, line.port)
                finally:
                    line.close()
                    shutil.rmtree(folder, ignore_errors=True)
                part, seconds, total = share(line.log, rate)
                shares[name].append(part)
                print(f"round {turn + 1}, {name}: {part:.3f} of the line from the tenth second on, {seconds:.1f} s, {total / 1e6:.0f} MB", flush=True)
    ended(shares, 0.95)


if __name__ == "__main__":
    main()

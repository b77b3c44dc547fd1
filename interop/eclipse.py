#!/usr/bin/env python3
"""An eclipse attack on ffwd and on bitcoind at the same time: the attacker's share of outbound connections after a restart.

    BITCOIND_EXE=... interop/eclipse.py target/release/ffwd [--groups 4 64] [--days 30] [--restarts 10] [--seed 1]

Both programs run on regtest in a network namespace whose loopback answers for every IPv4 address, so that each address is a node of
this script. Their clock is set by setmocktime. They know 1,000 honest nodes in 800 network groups, which is a tenth of the real
network. On each of the days:

- The attacker, from 20 inbound connections, announces 17,280 addresses in his network groups, all of which answer.
- Honest inbound peers announce 144 honest addresses.
- The clock moves in six steps, each with time for a feeler. Two outbound connections end.

Then both restart, several times, and the share of full-relay and block-relay-only connections that lead to the attacker is counted.
The attack's messages have the permission `addr`, so that the limit of addresses per second, which is tested apart, costs no time.
Ends with 1 if ffwd's share is above bitcoind's by more than chance explains (two standard deviations).
"""
import argparse
import base64
import http.client
import json
import math
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from wire import V1, Ended, compact, frame

PORT = 18444
START = 1_750_000_000
DAY = 86_400
STEPS = 6
GENESIS = bytes.fromhex("06226e46111a0b59caaf126043eb5bbf28c34f3a5e332a1fc7b2b73cf188910f")
INSIDE = "FFWD_ECLIPSE_NAMESPACE"


def number(address):
    return struct.pack(">I", address)


def text(address):
    return socket.inet_ntoa(number(address))


class World:
    """Who is who: an honest node is in one of 800 groups, the attacker has others."""

    def __init__(self, seed, groups):
        self.random = random.Random(seed)
        free = [a << 8 | b for a in range(20, 95) for b in range(256)]
        self.random.shuffle(free)
        self.honest_groups, self.bad_groups = free[:800], set(free[800:800 + groups])
        self.honest = [self.random.choice(self.honest_groups) << 16 | self.random.randrange(1, 65535) for _ in range(1000)]

    def bad(self):
        return self.random.choice(sorted(self.bad_groups)) << 16 | self.random.randrange(1, 65535)

    def is_bad(self, address):
        return struct.unpack(">I", socket.inet_aton(address))[0] >> 16 in self.bad_groups


def version():
    net_address = struct.pack("<Q", 9) + bytes(10) + b"\xff\xff" + bytes(6)
    head = struct.pack("<IQq", 70016, 9, int(time.time())) + net_address * 2
    return head + os.urandom(8) + b"\6/node/" + struct.pack("<i", 0) + b"\1"


def addresses(told, now):
    entry = lambda a: struct.pack("<IQ", now, 9) + bytes(10) + b"\xff\xff" + number(a) + struct.pack(">H", PORT)
    return compact(len(told)) + b"".join(map(entry, told))


def transport(sock):
    def read(count):
        data = b""
        while len(data) < count:
            more = sock.recv(count - len(data))
            if not more:
                raise Ended("closed")
            data += more
        return data
    return V1(read, sock.sendall)


class Everyone:
    """The node at every address: it shakes hands, knows the first block and no other, and answers pings."""

    def __init__(self):
        self.socket = socket.create_server(("0.0.0.0", PORT), backlog=256)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            sock, _ = self.socket.accept()
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        try:
            line = transport(sock)
            while True:
                name, payload = line.receive()
                if name == b"version":
                    line.send(b"version", version()), line.send(b"verack")
                elif name == b"verack":
                    line.send(b"inv", b"\1" + struct.pack("<I", 2) + GENESIS)
                elif name == b"getheaders":
                    line.send(b"headers", b"\0")
                elif name == b"ping":
                    line.send(b"pong", payload)
        except (Ended, OSError):
            pass
        sock.close()


class Program:
    """One of the two programs on a directory of its own."""

    def __init__(self, name, words, directory):
        self.name, self.words, self.directory, self.process = name, words, directory, None
        self.port, self.rpc_port = (29001, 29002) if name == "ffwd" else (29003, 29004)

    def start(self, now):
        options = ["-regtest", f"-datadir={self.directory}", "-listen=1", f"-bind=0.0.0.0:{self.port}", f"-rpcport={self.rpc_port}", "-dnsseed=0", "-fixedseeds=0",
                   "-discover=0", "-v2transport=0", "-peertimeout=100000000", "-whitelist=noban,addr,in@0.0.0.0/0", f"-mocktime={now}", "-printtoconsole=0"]
        self.log = (self.directory / "output.txt").open("ab")
        self.process = subprocess.Popen([*self.words, *options], stdout=self.log, stderr=self.log)
        end = time.time() + 60
        while True:
            try:
                self.call("getblockcount")
                return
            except (OSError, ValueError, http.client.HTTPException, RuntimeError):
                if time.time() > end or self.process.poll() is not None:
                    raise SystemExit(f"{self.name} does not start: {(self.directory / 'output.txt').read_text()[-500:]}") from None
                time.sleep(0.1)

    def call(self, method, *params):
        connection = http.client.HTTPConnection("127.0.0.1", self.rpc_port, timeout=60)
        word = base64.b64encode((self.directory / "regtest" / ".cookie").read_text().strip().encode()).decode()
        connection.request("POST", "/", json.dumps({"method": method, "params": params, "id": 1}), {"Authorization": "Basic " + word})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        if answer["error"]:
            raise RuntimeError(f"{self.name}: {method}: {answer['error']}")
        return answer["result"]

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)
        self.log.close()

    def outbound(self):
        """The lasting outbound connections."""
        kinds = ("outbound-full-relay", "block-relay-only")
        return [peer for peer in self.call("getpeerinfo") if peer["connection_type"] in kinds and peer["version"] > 0]

    def tell(self, source, told, now):
        """An inbound peer at an address announces others, and waits until they are read."""
        with socket.socket() as sock:
            sock.bind((text(source), 0))
            sock.settimeout(30)
            sock.connect(("127.0.0.1", self.port))
            line = transport(sock)
            line.send(b"version", version())
            while (message := line.receive())[0] != b"verack":
                pass
            line.send(b"verack")
            sock.sendall(frame(b"addr", addresses(told, now)) + frame(b"ping", bytes(8)))
            while (message := line.receive())[0] != b"pong":
                if message[0] == b"ping":
                    line.send(b"pong", message[1])


def day(world, programs, now):
    """One day; returns the time after it."""
    attackers = [world.bad() for _ in range(20)]
    lies = [[world.bad() for _ in range(864)] for _ in attackers]
    friends = world.random.sample(world.honest, 8)
    truths = [world.random.sample(world.honest, 18) for _ in friends]
    for step in range(STEPS):
        now += DAY // STEPS
        for program in programs:
            program.call("setmocktime", now)
            for source, told in list(zip(attackers, lies))[step::STEPS] + list(zip(friends, truths))[step::STEPS]:
                program.tell(source, told, now)
        # Core looks for the next connection every half second.
        time.sleep(0.6)
    for program in programs:
        peers = program.outbound()
        for peer in world.random.sample(peers, min(2, len(peers))):
            program.call("disconnectnode", peer["addr"])
    return now


def share(world, program, now):
    """The attacker's connections and all of them, soon after a start."""
    program.start(now)
    end = time.time() + 30
    while len(peers := program.outbound()) < 10 and time.time() < end:
        now += 1
        program.call("setmocktime", now)
        time.sleep(0.2)
    program.stop()
    return sum(world.is_bad(peer["addr"].rsplit(":", 1)[0]) for peer in peers), len(peers)


def attack(args, groups, commands, directory):
    world = World(args.seed, groups)
    programs = []
    for name, words in commands:
        (directory / f"{name}-{groups}").mkdir()
        programs.append(Program(name, words, directory / f"{name}-{groups}"))
    now = START
    try:
        for program in programs:
            program.start(now)
            for address in world.honest:
                program.call("addpeeraddress", text(address), PORT)
        for _ in range(args.days):
            now = day(world, programs, now)
        tables = [program.call("getaddrmaninfo")["all_networks"] for program in programs]
    finally:
        for program in programs:
            program.stop()
    rows = {}
    for program, table in zip(programs, tables):
        counts = [share(world, program, now + 60) for _ in range(args.restarts)]
        bad, all_ = (sum(column) for column in zip(*counts))
        rows[program.name] = (bad / max(all_, 1), all_)
        print(f"{groups} groups, {program.name}: {bad} of {all_} connections after {args.restarts} restarts; new {table['new']}, tried {table['tried']}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ffwd")
    parser.add_argument("--groups", type=int, nargs="+", default=[4, 64])
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    core = os.environ.get("BITCOIND_EXE")
    if not core:
        return print("skipped: BITCOIND_EXE names no bitcoind to compare with")
    if not os.environ.get(INSIDE):
        setup = f'ip link set lo up && ip route add local 0.0.0.0/0 dev lo && {INSIDE}=1 exec "$@"'
        made = subprocess.run(["unshare", "-rn", "sh", "-c", setup, "sh", "true"], capture_output=True, text=True)
        if made.returncode:
            return print(f"skipped: no network namespace can be made here ({made.stderr.strip()})")
        os.execvp("unshare", ["unshare", "-rn", "sh", "-c", setup, "sh", sys.executable, *sys.argv])
    everyone = Everyone()
    commands = [("ffwd", [args.ffwd, "sync", "--server=1"]), ("bitcoind", [core])]
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ffwd-eclipse-"))
    is_worse = False
    try:
        for groups in args.groups:
            rows = attack(args, groups, commands, directory)
            (ours, our_count), (theirs, their_count) = rows["ffwd"], rows["bitcoind"]
            mean = (ours * our_count + theirs * their_count) / max(our_count + their_count, 1)
            chance = 2 * math.sqrt(mean * (1 - mean) * (1 / max(our_count, 1) + 1 / max(their_count, 1)))
            is_worse |= our_count == 0 or ours > theirs + chance
    finally:
        everyone.socket.close()
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit("ffwd's share is above bitcoind's" if is_worse else 0)


if __name__ == "__main__":
    main()

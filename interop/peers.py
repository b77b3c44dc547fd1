"""Plays hostile peers over sockets against ffwd or bitcoind, a scripted honest peer beside them; prints what came of each.

    peers.py PROGRAM... [--kinds chosen|all|NAME] [--ways out,in,memory] [--transports 1,2] [--limit SECONDS] [--json FILE]

A program is the command of ffwd or of bitcoind. Each case has a new data directory on regtest, and both peers have the same
blocks for each program. The program connects to both peers (out), or to the honest one while the hostile one connects to
it (in), or finds both in its address memory, told by a seed node (memory). Addresses of this machine's own network are in no
address memory: for that way all runs in a network namespace whose loopback has others (unshare, ip). The honest peer answers once the hostile one has shaken hands, or after two seconds; from then on
time is counted until all of its blocks are connected: a third peer, that connects to the program, asks it for headers. Memory is the greatest anonymous memory of the process (RssAnon).
The exit code is 1 if an honest chain was not whole in time or a program ended; a bitcoind is only measured.
"""

import argparse
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import hostile
import wire
from program import free_port

HONEST_COUNT = 200
CHAINS = {
    "good": hostile.Chain(HONEST_COUNT, b"good"),
    "equal": hostile.Chain(HONEST_COUNT, b"equal"),
    "longer": hostile.Chain(HONEST_COUNT + 20, b"longer"),
    "invalid": hostile.Chain(HONEST_COUNT + 20, b"invalid", bad=40),
}
STARTED_S = 30
# Where the two listen that are found in the address memory.
FOUND_AT = {"bad": "31.1.2.3", "good": "32.1.2.3"}
# Set inside the network namespace.
NAMESPACE = "FFWD_PEERS_NAMESPACE"
# What is looked at after the chain is whole: whether the hostile peer is kept, and what memory it costs.
AFTER_S = 3


class Peer:
    """A scripted peer: it listens, or connects once."""

    def __init__(self, kind, v2, port=None, waits_for=None, address="127.0.0.1"):
        self.kind, self.v2, self.chain = kind, v2, CHAINS[kind.chain]
        self.ready, self.goes_on, self.waits_for = threading.Event(), True, waits_for
        self.opened_at = self.closed_at = self.released_at = None
        self.sockets = []
        if port is None:
            self.listener = socket.create_server((address, 0))
            self.port = self.listener.getsockname()[1]
            threading.Thread(target=self.accept, daemon=True).start()
        else:
            self.listener = None
            self.begin(socket.create_connection(("127.0.0.1", port)), True)

    def accept(self):
        while self.goes_on:
            try:
                self.begin(self.listener.accept()[0], False)
            except OSError:
                return

    def begin(self, sock, initiates):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sockets.append(sock)
        self.opened_at = self.opened_at or time.time()
        threading.Thread(target=self.serve, args=(sock, initiates), daemon=True).start()

    def serve(self, sock, initiates):
        if self.waits_for:
            self.waits_for.ready.wait(2)
        self.released_at = self.released_at or time.time()
        hostile.Connection(self, sock, initiates).run()

    def look(self):
        """Notes whether the first connection was closed by the other end, though nothing is read of it."""
        if self.closed_at or not self.sockets:
            return
        try:
            poll = select.poll()
            poll.register(self.sockets[0], select.POLLRDHUP)
            if poll.poll(0):
                self.closed_at = time.time()
        except (OSError, ValueError):
            self.closed_at = time.time()

    def end(self):
        self.goes_on = False
        for sock in [self.listener, *self.sockets]:
            if sock:
                sock.close()


class Watch:
    """A peer without services, that asks again and again for the headers of the program's chain."""

    def __init__(self):
        self.has_tip, self.socket = False, None

    def begin(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        def read(count):
            data = b""
            while len(data) < count:
                more = self.socket.recv(count - len(data))
                if not more:
                    raise wire.Ended("closed")
                data += more
            return data

        def ask():
            time.sleep(0.05)
            talk.send(b"getheaders", hostile.locator(CHAINS["good"].hashes[HONEST_COUNT - 2 : HONEST_COUNT - 1]))

        # Of two chains with the same work the first that is whole stays.
        talk = wire.V1(read, self.socket.sendall)
        tips = [CHAINS[name].blocks[-1][:80] for name in ("good", "equal")]
        try:
            talk.send(b"version", hostile.version(services=0))
            talk.send(b"verack")
            while not self.has_tip:
                name, payload = talk.receive()
                if name == b"verack":
                    ask()
                elif name == b"getheaders":
                    talk.send(b"headers", b"\0")
                elif name == b"headers":
                    self.has_tip = any(tip in payload for tip in tips)
                    ask()
        except (wire.Ended, OSError):
            pass

    def end(self):
        if self.socket:
            self.socket.close()


def is_core(program):
    return "bitcoind" in pathlib.Path(program).name


def seed(v2, *told):
    """A peer that tells of others when it is asked for addresses."""

    def packed(name, peer):
        last = socket.inet_aton(FOUND_AT[name]) + struct.pack(">H", peer.port)
        return struct.pack("<IQ", int(time.time()) - 60, hostile.NETWORK | hostile.WITNESS) + bytes(10) + b"\xff\xff" + last

    addresses = hostile.compact(len(told)) + b"".join(packed(*one) for one in told)
    return Peer(hostile.Kind("tells of others", hostile.once(lambda c: c.send(b"addr", addresses), b"getaddr")), v2)


def command(program, directory, peers, port, v2):
    both = ["-regtest", f"-datadir={directory}", *peers, f"-bind=127.0.0.1:{port}", f"-v2transport={int(v2)}", "-dnsseed=0"]
    if is_core(program):
        more = ["-listen=1", "-listenonion=0", f"-rpcport={free_port()}", "-printtoconsole=0", "-checkblockindex=0"]
        return [program, *both, *more]
    return [program, "sync", *both]


def anonymous_kib(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)
    except OSError:
        return 0


def play(program, kind, way, v2, limit):
    """One case; what came of it."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ffwd-peers-"))
    port, inbound, others = free_port(), way == "in", []
    at = FOUND_AT if way == "memory" else dict.fromkeys(FOUND_AT, "127.0.0.1")
    bad = None if inbound else Peer(kind, v2, address=at["bad"])
    good = Peer(hostile.Kind(), v2, waits_for=bad, address=at["good"])
    if way == "memory":
        others = [seed(v2, ("bad", bad), ("good", good))]
        connect = [f"-seednode=127.0.0.1:{others[0].port}", "-fixedseeds=0"]
    else:
        connect = [f"-connect=127.0.0.1:{one.port}" for one in (bad, good) if one]
    if inbound:
        good.waits_for = waits = type("Waits", (), {"ready": threading.Event()})()
    output = open(directory / "output", "wb")
    process = subprocess.Popen(command(program, directory, connect, port, v2), stdout=output, stderr=output)
    watch, found = Watch(), {"kind": kind.name, "way": way, "v2": v2}
    start, peak, whole = time.time(), 0, None
    try:
        while process.poll() is None:
            now = time.time()
            if bad is None:
                try:
                    bad = Peer(kind, v2, port)
                    waits.ready = bad.ready
                except OSError:
                    pass
            peak = max(peak, anonymous_kib(process.pid))
            if not watch.socket:
                try:
                    watch.begin(port)
                except OSError:
                    pass
            if whole is None and watch.has_tip and good.released_at:
                whole = now
            if bad:
                bad.look()
            begun = good.released_at
            if (begun and now - begun > limit) or (not begun and now - start > STARTED_S):
                break
            if whole and now - whole > AFTER_S:
                break
            time.sleep(0.02)
        found["ended"] = process.poll()
        if found["ended"] is not None:
            found["output"] = (directory / "output").read_text(errors="replace")[-500:]
    finally:
        gone = bad.closed_at - bad.opened_at if bad and bad.closed_at and bad.opened_at else None
        watch.end()
        for peer in [good, bad, *others]:
            if peer:
                peer.end()
        stop(process)
        output.close()
        shutil.rmtree(directory, ignore_errors=True)
    found["whole_s"] = round(whole - good.released_at, 2) if whole else None
    found["gone_s"] = round(gone, 2) if gone is not None else None
    found["peak_mib"] = round(peak / 1024, 1)
    return found


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def chosen(names):
    if names == "all":
        return hostile.KINDS
    wanted = hostile.CHOSEN if names == "chosen" else [names]
    return [next(kind for kind in hostile.KINDS if kind.name == name) for name in wanted]


def ways(names):
    """The ways that can be gone; with the address memory among them, in a network namespace from here on."""
    names = names.split(",")
    if "memory" not in names or os.environ.get(NAMESPACE):
        return names
    try:
        subprocess.run(["unshare", "-rn", "ip", "link", "set", "lo", "up"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as why:
        print(f"skipped: no peer of the address memory, for no network namespace can be made here ({why})")
        return [name for name in names if name != "memory"]
    os.environ[NAMESPACE] = "1"
    os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.argv])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("programs", nargs="+")
    options.add_argument("--kinds", default="chosen")
    options.add_argument("--ways", default="out,in,memory")
    options.add_argument("--transports", default="1,2")
    options.add_argument("--limit", type=float, default=40)
    options.add_argument("--json", type=argparse.FileType("w"))
    given = options.parse_args()
    given.ways = ways(given.ways)
    if os.environ.get(NAMESPACE):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for address in FOUND_AT.values():
            subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    transports = [one for one in given.transports.split(",") if one == "1" or wire.HAS_V2]
    if "2" in given.transports and not wire.HAS_V2:
        print("skipped: v2 wants the Python package cryptography")
    failed = 0
    for kind in chosen(given.kinds):
        for way in given.ways:
            for transport in transports:
                if transport not in kind.transports:
                    continue
                for program in given.programs:
                    found = play(program, kind, way, transport == "2", given.limit)
                    found["program"] = os.path.basename(program)
                    is_bad = found["whole_s"] is None or found["ended"] is not None
                    failed += is_bad and not is_core(program)
                    if given.json:
                        print(json.dumps(found), file=given.json, flush=True)
                    whole = f"> {given.limit:.0f}" if found["whole_s"] is None else f"{found['whole_s']:.2f}"
                    gone = "kept" if found["gone_s"] is None else f"gone after {found['gone_s']:.2f} s"
                    print(f"{whole:>6} s {found['peak_mib']:6.1f} MiB  {gone:20} {way:6} v{transport} {found['program']:9} {kind.name}"
                          + (f"  ENDED {found['ended']}: {found['output']}" if found["ended"] is not None else ""), flush=True)
    print(f"{failed} cases failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

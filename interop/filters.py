"""Compact block filters for peers: ffwd beside bitcoind, the same requests to both, the same bytes from both.

    BITCOIND_EXE=... python interop/filters.py PROGRAM [REQUESTS [SEED]]

A bitcoind that serves filters makes a chain with a block that is reorganised away; `ffwd sync` follows it, keeps the index
and serves it too. Then each is asked the same: the cases of Core's p2p_blockfilters.py that concern messages, random
ranges, and nonsense. What comes up to the answer to a ping behind the request must be equal, and so must an end of the
connection. At the end the same nonsense without the service.
"""

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
import time

import wire
from indexes import QUIET, Node
from program import free_port

COMPACT_FILTERS = 64
PATIENCE = 120


class Peers(Node):
    """A bitcoind that listens."""

    def __init__(self, datadir, port, *options):
        self.port = port
        quiet, listens = [x for x in QUIET if x != "-listen=0"], ["-listen=1", f"-bind=127.0.0.1:{port}", "-listenonion=0"]
        QUIET[:], kept = [*quiet, *listens, *options], list(QUIET)
        try:
            super().__init__(datadir)
        finally:
            QUIET[:] = kept


def sync(program, datadir, source, port, *flags):
    """A ffwd that follows a bitcoind and listens."""
    words = [program, "sync", "--datadir", datadir, "--chain", "regtest", "--connect", f"127.0.0.1:{source}",
             "--listen", f"127.0.0.1:{port}", *flags]
    return subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def ask(port, *requests):
    """Services, what comes up to the answer to a ping behind the requests, and whether the connection is still there."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as stream:
        def read(count):
            got = b""
            while len(got) < count:
                more = stream.recv(count - len(got))
                if not more:
                    raise wire.Ended("closed")
                got += more
            return got

        peer = wire.V1(read, stream.sendall)
        address = bytes(26)
        peer.send(b"version", struct.pack("<iQq", 70016, 0, int(time.time())) + address * 2 + bytes(8) + b"\0" + struct.pack("<i?", 0, False))
        services, answers, asked = None, [], False
        try:
            while True:
                name, payload = peer.receive()
                if name == b"version":
                    services = struct.unpack_from("<Q", payload, 4)[0]
                elif name == b"verack" and not asked:
                    asked = True
                    peer.send(b"verack")
                    for request in requests:
                        peer.send(*request)
                    peer.send(b"ping", b"theirend")
                elif name == b"pong" and payload == b"theirend":
                    return services, answers, True
                elif name in (b"cfilter", b"cfheaders", b"cfcheckpt"):
                    answers.append((name, payload))
        except (wire.Ended, ConnectionError):
            return services, answers, False


def internal(block):
    return bytes.fromhex(block)[::-1]


def filters(start, stop, kind=0):
    return b"getcfilters", struct.pack("<BI", kind, start) + stop


def hashes(start, stop, kind=0):
    return b"getcfheaders", struct.pack("<BI", kind, start) + stop


def checkpoints(stop, kind=0):
    return b"getcfcheckpt", bytes([kind]) + stop


def wait(condition, what):
    end = time.time() + PATIENCE
    while not condition():
        assert time.time() < end, what
        time.sleep(0.1)


def compare(ours, theirs, request, answers_wanted=None):
    """The answers, which are the same."""
    got, want = ask(ours, request), ask(theirs, request)
    assert got[1:] == want[1:], f"{request}: ffwd {summary(got)}, bitcoind {summary(want)}"
    assert (got[0] & COMPACT_FILTERS) == (want[0] & COMPACT_FILTERS), f"services {got[0]:#x} and {want[0]:#x}"
    if answers_wanted is not None:
        assert (len(got[1]), got[2]) == (answers_wanted, answers_wanted > 0), f"{request}: {summary(got)}"
    return got[1]


def summary(answer):
    return answer[0], [(name, len(payload)) for name, payload in answer[1]][:5], len(answer[1]), answer[2]


def main():
    if not os.environ.get("BITCOIND_EXE"):
        print("skipped: BITCOIND_EXE names no bitcoind")
        return
    program = pathlib.Path(sys.argv[1]).resolve()
    count, seed = (int(sys.argv[2]) if len(sys.argv) > 2 else 60), (int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    rng, top = random.Random(seed), pathlib.Path(tempfile.mkdtemp(prefix="filters-"))
    (top / "core").mkdir()
    (top / "ffwd").mkdir()
    source, port = free_port(), free_port()
    core, follower = None, None
    try:
        core = Peers(top / "core", source, "-peerblockfilters=1")
        core.call("generatetodescriptor", 1000, "raw(51)")
        stale = core.call("getbestblockhash")
        follower = sync(program, top / "ffwd", source, port, "--blockfilterindex", 1, "--peerblockfilters", 1)
        wait(lambda: is_served(port, internal(stale)), "ffwd serves the first chain")
        core.call("invalidateblock", stale)
        core.call("generatetodescriptor", 1001, "raw(52)")
        core.call("reconsiderblock", stale)
        tip = core.call("getbestblockhash")
        wait(lambda: is_served(port, internal(tip)), "ffwd serves the second chain")
        core.wait_synced()
        at = {height: internal(core.call("getblockhash", height)) for height in (0, 10, 999, 1000, 2000)}
        stale = internal(stale)
        # Core's cases, with the number of answers; none where the connection ends.
        for request, answers in [
            (checkpoints(at[2000]), 1), (checkpoints(stale), 1), (checkpoints(at[0]), 1),
            (hashes(1, at[1000]), 1), (hashes(1, stale), 1), (hashes(0, at[10]), 1), (hashes(1, at[2000]), 1),
            (filters(1, at[10]), 10), (filters(1000, stale), 1), (filters(1, at[1000]), 1000), (filters(0, at[0]), 1),
            (filters(0, at[1000]), 0), (hashes(0, at[2000]), 0), (checkpoints(at[1000], 255), 0),
            (checkpoints(bytes(31) + b"\1"), 0), (hashes(1000, at[999]), 0), (filters(2**32 - 1, at[999]), 0),
        ]:
            compare(port, source, request, answers)
        for _ in range(count):
            stop = internal(core.call("getblockhash", rng.randrange(2001))) if rng.random() < 0.8 else stale
            start, kind = rng.randrange(2001), rng.choice([0] * 9 + [rng.randrange(256)])
            compare(port, source, rng.choice([filters(start, stop, kind), hashes(start, stop, kind), checkpoints(stop, kind)]))
        core.call("addnode", f"127.0.0.1:{port}", "onetry")
        named = lambda: any("COMPACT_FILTERS" in x["servicesnames"] for x in core.call("getpeerinfo") if "/ffwd:" in x["subver"])
        wait(named, "bitcoind names the service of ffwd")
        follower = stopped(follower)
        # What was kept is served at once, and neither program serves without being told.
        follower = sync(program, top / "ffwd", source, port, "--blockfilterindex", 1)
        wait(lambda: is_there(port), "ffwd listens")
        core.stop()
        core = Peers(top / "core", source)
        for request in (checkpoints(at[1000]), hashes(1000, at[1000]), filters(1000, at[1000])):
            compare(port, source, request, 0)
    finally:
        if follower:
            stopped(follower)
        if core and core.process.poll() is None:
            core.process.kill()
            core.process.wait()
        shutil.rmtree(top, ignore_errors=True)
    print(f"filters: {count + 20} requests are answered as by bitcoind")


def is_there(port):
    try:
        return ask(port)[2]
    except OSError:
        return False


def is_served(port, block):
    try:
        return len(ask(port, checkpoints(block))[1]) == 1
    except OSError:
        return False


def stopped(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 0, said
    return None


if __name__ == "__main__":
    main()

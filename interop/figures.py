"""What the programs that measure or compare share: rows and their bounds, a program that answers on a port, the command line."""
import argparse
import base64
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time

USER, PASSWORD = "reader", "word"
LOGIN = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
QUIET = "-listen=0 -connect=0 -dnsseed=0 -fixedseeds=0 -printtoconsole=0 -disablewallet -checkblocks=1 -checklevel=0".split()
table = []


def row(what, found, bound="", holds=None):
    table.append((what, found, bound, {None: "", True: "yes", False: "NO"}[holds]))
    print(f"{what}: {found}", flush=True)


def spread(values, form="{:.2f}"):
    """Median, least and most."""
    return f"{form} ({form} to {form})".format(statistics.median(values), min(values), max(values))


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Keep:
    """A connection that stays, and a client of few instructions: what is measured is to be the server."""

    def __init__(self, at):
        self.socket = socket.create_connection(("127.0.0.1", at), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(1 << 24)

    def post(self, method, *params):
        body = json.dumps({"method": method, "params": params, "id": 1})
        return (f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {LOGIN}\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()

    def ask(self, request):
        """Sends a request; status and number of bytes of the body, which lies in the buffer from `self.start` on."""
        self.socket.sendall(request)
        have, start, end = 0, 0, -1
        while end < 0 or have < end:
            if have == len(self.buffer):
                self.buffer += bytes(len(self.buffer))
            with memoryview(self.buffer) as view:
                count = self.socket.recv_into(view[have:])
            if not count:
                raise OSError("the server closed")
            have += count
            if end < 0 and (at := self.buffer.find(b"\r\n\r\n", 0, have)) >= 0:
                head = bytes(self.buffer[:at]).lower()
                start = at + 4
                end = start + int(head.split(b"content-length:")[1].split(b"\r")[0])
        self.start = start
        return int(self.buffer[9:12]), end - start

    def result(self, method, *params):
        status, size = self.ask(self.post(method, *params))
        said = json.loads(bytes(self.buffer[self.start:self.start + size]))
        if status != 200:
            sys.exit(f"{method}: {said}")
        return said["result"]


class Program:
    """A program that answers on a port."""

    def __init__(self, name, words):
        self.name, self.at = name, port()
        self.process = subprocess.Popen([str(word).replace("RPC", str(self.at)) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.time() + 120
        while True:
            try:
                self.keep = Keep(self.at)
                self.tip = self.keep.result("getblockcount")
                return
            except (OSError, SystemExit):
                if self.process.poll() is not None or time.time() > end:
                    sys.exit(f"{name} does not answer; exit code {self.process.poll()}")
                time.sleep(0.2)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(120)


def bitcoind(datadir, *more):
    words = [os.environ["BITCOIND_EXE"], "-regtest", f"-datadir={datadir}", "-rpcport=RPC", f"-rpcuser={USER}", f"-rpcpassword={PASSWORD}", "-rest", *QUIET, *more]
    return Program("bitcoind", words)


def arguments(text, rounds, parts):
    """Those of a program that measures `parts`: the ffwd, a chain, how many rounds, and `only`, a list."""
    read = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("ffwd", type=pathlib.Path)
    read.add_argument("chain", type=pathlib.Path)
    read.add_argument("--rounds", type=int, default=rounds)
    read.add_argument("--only", default=parts)
    options = read.parse_args()
    options.ffwd, options.only = options.ffwd.resolve(), options.only.split(",")
    return options


def make(ffwd, chain, made):
    """A reindexed chain of `lab chain` with these arguments, if it is not there yet."""
    if not (chain / "regtest").exists():
        for words in (["lab", "chain", "--out", chain, *made], ["reindex", "--datadir", chain, "--chain", "regtest"]):
            subprocess.run([ffwd, *map(str, words)], check=True)


def finish():
    """Prints the table; ends with 1 where a bound does not hold."""
    print("\n| what | found: median (least to most) | bound | holds |\n|:---|:---|:---|:---|")
    for line in table:
        print("| " + " | ".join(line) + " |")
    sys.exit(any(line[3] == "NO" for line in table))

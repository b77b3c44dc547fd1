"""Blocks for ffwd's sync or for bitcoind from a scripted peer that connects to it, one after another.

Each block comes by a connection of its own: its header alone is announced, and it is sent if it is asked for. So the order
in which both programs get blocks is the same, and what is done with one is done before the next is announced.
"""

import signal
import socket
import subprocess
import time

import hostile
import wire
from program import free_port

# Connecting to a program that starts; waiting for an answer.
STARTED_S, ANSWERED_S = 30, 20


class Feed:
    """A connection that knows some blocks, by hash."""

    def __init__(self, port, blocks, quiet_s):
        self.blocks, self.quiet_s, self.data, self.given = blocks, quiet_s, b"", set()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWERED_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.talk = wire.V1(self.read, self.socket.sendall)
        self.talk.send(b"version", hostile.version(height=1))
        while self.handle()[0] != b"verack":
            pass

    def read(self, count):
        while len(self.data) < count:
            more = self.socket.recv(1 << 20)
            if not more:
                raise wire.Ended("closed")
            self.data += more
        found, self.data = self.data[:count], self.data[count:]
        return found

    def handle(self):
        """Answers the next message; its name, and whether a block was given, which this connection does once."""
        name, payload = self.talk.receive()
        if name == b"version":
            self.talk.send(b"verack")
        elif name == b"ping":
            self.talk.send(b"pong", payload)
        elif name == b"getheaders":
            self.talk.send(b"headers", hostile.headers([]))
        elif name == b"getdata":
            wanted = [block_hash for block_hash in hostile.listed(payload, 36, 4) if block_hash not in self.given]
            self.given.update(wanted)
            for block_hash in wanted:
                self.talk.send(b"block", self.blocks[block_hash])
            return name, bool(wanted)
        return name, False

    def settle(self):
        """Answers until what was sent is dealt with, and no block was given since."""
        gave = True
        while gave:
            gave, name = False, None
            self.talk.send(b"ping", bytes(8))
            while name != b"pong":
                name, is_given = self.handle()
                gave |= is_given
            if self.quiet_s and not gave:
                self.socket.settimeout(self.quiet_s)
                try:
                    while not gave:
                        _, gave = self.handle()
                except TimeoutError:
                    pass
                self.socket.settimeout(ANSWERED_S)

    def announce(self, raws):
        self.talk.send(b"headers", hostile.headers([raw[:80] for raw in raws]))
        self.settle()

    def close(self):
        self.socket.close()


def first_feed(port, process, *how):
    for _ in range(STARTED_S * 20):
        try:
            return Feed(port, *how)
        except ConnectionRefusedError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
    raise SystemExit(f"{process.args}: no connection to port {port} (exit code {process.poll()})")


def fed(command, base, raws, quiet_s=0.1):
    """Runs a program, to which options for its network are added: blocks of a chain at once, then others in turn.

    A program that answers a ping before all that came earlier is dealt with is given some time to ask for a block.
    """
    port = free_port()
    options = [f"-bind=127.0.0.1:{port}", "-listen=1", "-connect=0", "-whitelist=noban@127.0.0.1", "-v2transport=0"]
    blocks = {wire.hash256(raw[:80]): raw for raw in base}
    words = [str(word) for word in [*command, *options]]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        feed = first_feed(port, process, blocks, quiet_s)
        if base:
            feed.announce(base)
        for raw in raws:
            feed.close()
            # Of two bodies with the same header the second is sent where the header was refused, or the first body.
            blocks[wire.hash256(raw[:80])] = raw
            feed = Feed(port, blocks, quiet_s)
            feed.announce([raw])
        feed.close()
    except (wire.Ended, TimeoutError) as why:
        raise SystemExit(f"{command}: {why!r}") from why
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)

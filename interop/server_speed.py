#!/usr/bin/env python3
"""How fast the server is, and what it costs a sync: for a quiet machine, about eight minutes with a chain of 200 full blocks.

    BITCOIND_EXE=... interop/server_speed.py target/release/ffwd CHAIN [--rounds 5] [--only rate,block,rest,sync,apart]

CHAIN is a data directory of regtest with full blocks that ffwd reindexed; it is copied, not changed. Where it is not there it
is made: `ffwd lab chain --out CHAIN --blocks 200 --seed 1 --utxos 500000 --tail 2100 --signatures real`.

rate    getblockhash from one client on one connection, one call after the other, without batches
block   getblock 2 of full blocks, ffwd and bitcoind in turn
rest    full blocks by REST, from the page cache
sync    a sync from a peer on this machine with all scripts: without a server, and with one that is scraped each second, has a
        reader of the page's events and is asked getblockchaininfo 100 times a second; in turn
apart   the same, where the sync has the first half of the processors (one of two) and its peer and the clients the others:
        what the clients take is not taken from the sync, what its server takes is

Without BITCOIND_EXE there is no comparison with bitcoind. Ends with 1 where a bound of the last column does not hold.

The sync keeps all processors that it may use busy, so that whatever else runs on them is time of its clock. In `sync` the clients
run there too, and their work is counted as the server's; `apart` shows the server's alone, and beside the sync on one processor
100 calls a second are twice as much as beside one on two.
"""
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from figures import arguments, bitcoind, finish, Keep, make, PASSWORD, port, Program, row, spread, USER

TICK = os.sysconf("SC_CLK_TCK")
MADE = "--blocks 200 --seed 1 --utxos 500000 --tail 2100 --signatures real".split()


def processor_time(pid):
    """User and system seconds of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return int(fields[11]) / TICK, int(fields[12]) / TICK


def serve(ffwd, datadir):
    return Program("ffwd", [ffwd, "serve", "--rest", "--datadir", datadir, "--chain", "regtest", "--rpcport", "RPC", "--rpcuser", USER, "--rpcpassword", PASSWORD])


def rate(both, rounds):
    """Calls a second of one client."""
    count, found = 20_000, {}
    for _ in range(rounds):
        for program in both:
            keep = program.keep
            requests = [keep.post("getblockhash", height) for height in range(100)]
            before, began = processor_time(program.process.pid), time.perf_counter()
            for at in range(count):
                keep.ask(requests[at % 100])
            took, after = time.perf_counter() - began, processor_time(program.process.pid)
            found.setdefault(program.name, []).append((count / took, *(1e6 * (b - a) / count for a, b in zip(before, after))))
    for name, values in found.items():
        rates = [value[0] for value in values]
        bound = ("10,000", statistics.median(rates) >= 10_000) if name == "ffwd" else ()
        row(f"getblockhash a second, {name}", spread(rates, "{:,.0f}"), *bound)
        row(f"its user + system time a call, {name}", " + ".join(f"{statistics.median(value[part] for value in values):.0f}" for part in (1, 2)) + " us")


def full_blocks(program, count):
    """Hashes of the largest blocks."""
    keep, sizes = program.keep, []
    for height in range(program.tip + 1):
        hash = keep.result("getblockhash", height)
        sizes.append((keep.result("getblock", hash, 1)["size"], hash))
    return [hash for _, hash in sorted(sizes, reverse=True)[:count]]


def block(both, rounds, hashes):
    found = {}
    for _ in range(rounds):
        for hash in hashes[:4]:
            for program in both:
                keep = program.keep
                before, began = processor_time(program.process.pid), time.perf_counter()
                status, size = keep.ask(keep.post("getblock", hash, 2))
                took, after = time.perf_counter() - began, processor_time(program.process.pid)
                if status != 200:
                    sys.exit(f"getblock 2 of {program.name}: {status}")
                found.setdefault(program.name, []).append((1000 * took, size, 1000 * (sum(after) - sum(before))))
    medians = {name: statistics.median(value[0] for value in values) for name, values in found.items()}
    for name, values in found.items():
        row(f"getblock 2 of a full block, {name}, ms", spread([value[0] for value in values], "{:.1f}"))
        row(f"its processor time, {name}, ms; bytes", f"{statistics.mean(value[2] for value in values):.1f}; {values[0][1]:,}")
    if "bitcoind" in medians:
        part = medians["ffwd"] / medians["bitcoind"]
        row("ffwd's time beside bitcoind's", f"{part:.2f}", "0.50", part <= 0.5)


def rest(both, rounds, hashes):
    found = {}
    for _ in range(rounds):
        for program in both:
            requests = [f"GET /rest/block/{hash}.bin HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() for hash in hashes]
            before, began, size = processor_time(program.process.pid), time.perf_counter(), 0
            for request in requests * 10:
                status, got = program.keep.ask(request)
                size += got
                if status != 200:
                    sys.exit(f"REST of {program.name}: {status}")
            found.setdefault(program.name, []).append((size / (time.perf_counter() - began) / 1e9, size / 1e9 / max(sum(processor_time(program.process.pid)) - sum(before), 0.01)))
    for name, values in found.items():
        rates = [value[0] for value in values]
        bound = ("1.00", statistics.median(rates) >= 1) if name == "ffwd" else ()
        row(f"REST blocks, GB a second, {name}", spread(rates), *bound)
        row(f"the same for a second of its processor time, {name}", spread([value[1] for value in values]))


def processors():
    """Those of the sync, and those of everything else, for `apart`; nothing where there is only one."""
    all_of_them = sorted(os.sched_getaffinity(0))
    half = len(all_of_them) // 2
    return (set(all_of_them[:half]), set(all_of_them[half:])) if half else None


def on(these):
    """What a child does first, to run on these processors alone."""
    return (lambda: os.sched_setaffinity(0, these)) if these else None


class Threads:
    """Processor seconds of a process by name of thread, as far as they are seen before it ends."""

    def __init__(self, pid):
        self.pid, self.seen, self.end, self.took = pid, {}, threading.Event(), 0.0
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.end.wait(0.25):
            for task in pathlib.Path(f"/proc/{self.pid}/task").glob("*"):
                try:
                    name, ran = (task / "comm").read_text().strip(), int((task / "schedstat").read_text().split()[0]) / 1e9
                except (OSError, ValueError, IndexError):
                    continue
                self.seen[task.name] = (name, ran)
            self.took = time.thread_time()

    def stop(self):
        """Seconds of the server's threads by name."""
        self.end.set()
        self.thread.join()
        sums = {}
        for name, ran in self.seen.values():
            if name in ("ffwd-http", "ffwd-rpc", "ffwd-page"):
                sums[name] = sums.get(name, 0.0) + ran
        return sums


class Clients:
    """What looks at a sync: a scrape a second, the page's events, and getblockchaininfo 100 times a second."""

    def __init__(self, at):
        self.at, self.end, self.counts, self.late = at, threading.Event(), {"scrapes": 0, "events": 0, "calls": 0}, []
        self.threads = [threading.Thread(target=self.until_end, args=(run,), daemon=True) for run in (self.scrape, self.events, self.calls)]
        for thread in self.threads:
            thread.start()

    def until_end(self, run):
        while not self.end.is_set():
            try:
                run()
            except (OSError, ValueError, IndexError):
                # It starts, or it ends.
                time.sleep(0.05)

    def scrape(self):
        keep = Keep(self.at)
        while not self.end.wait(1):
            keep.ask(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            self.counts["scrapes"] += 1

    def events(self):
        with socket.create_connection(("127.0.0.1", self.at), timeout=5) as stream:
            stream.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            while not self.end.is_set():
                said = stream.recv(1 << 16)
                if not said:
                    raise OSError("closed")
                self.counts["events"] += said.count(b"\ndata:") + said.startswith(b"data:")

    def calls(self):
        keep = Keep(self.at)
        request, due = keep.post("getblockchaininfo"), time.perf_counter()
        while not self.end.is_set():
            began = time.perf_counter()
            status, _ = keep.ask(request)
            self.late.append(time.perf_counter() - began)
            self.counts["calls"] += status == 200
            due = max(due + 0.01, time.perf_counter() - 0.1)
            time.sleep(max(0, due - time.perf_counter()))

    def stop(self):
        self.end.set()
        for thread in self.threads:
            thread.join(6)


class Run:
    """A sync: seconds of the clock, processor seconds of its own, of its server's threads, and of its clients."""

    def __init__(self, clock, processor, clients_processor, clients, threads):
        self.clock, self.processor, self.clients_processor = clock, processor, clients_processor
        self.clients, self.threads = clients, threads


def one_sync(ffwd, work, peer, has_server, these):
    datadir, at = work / "synced", port()
    datadir.mkdir()
    words = [ffwd, "sync", "--datadir", datadir, "--chain", "regtest", "--connect", peer, "--dbcache", 1000, "--assumevalid", 0, "--exit-at-tip"]
    if has_server:
        words += ["--server", "--rpcport", at, "--rpcuser", USER, "--rpcpassword", PASSWORD]
    own, began = os.times(), time.perf_counter()
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=on(these))
    # In both, so that looking costs both the same.
    threads = Threads(process.pid)
    clients = Clients(at) if has_server else None
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if clients:
        clients.stop()
    by_thread = threads.stop()
    if process.returncode:
        sys.exit(f"the sync ended with {process.returncode}")
    shutil.rmtree(datadir)
    after = os.times()
    of_clients = after[0] + after[1] - own[0] - own[1] - threads.took
    return Run(took, usage.ru_utime + usage.ru_stime, of_clients, clients, by_thread)


def sync(ffwd, work, chain, rounds, where=None):
    """Pairs of syncs; with `where`, on processors of their own."""
    before, these = os.sched_getaffinity(0), where and where[0]
    if where:
        os.sched_setaffinity(0, where[1])
    try:
        report(sync_pairs(ffwd, work, chain, rounds, these), bool(where))
    finally:
        os.sched_setaffinity(0, before)


def sync_pairs(ffwd, work, chain, rounds, these):
    at = port()
    words = [ffwd, "sync", "--datadir", chain, "--chain", "regtest", "--connect", "0", "--listen", f"127.0.0.1:{at}"]
    peer = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.time() + 60
        while time.time() < end:
            try:
                socket.create_connection(("127.0.0.1", at), timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        one_sync(ffwd, work, f"127.0.0.1:{at}", False, these)
        pairs = []
        for turn in range(rounds):
            order = (False, True) if turn % 2 == 0 else (True, False)
            runs = {has: one_sync(ffwd, work, f"127.0.0.1:{at}", has, these) for has in order}
            pairs.append((runs[False], runs[True]))
            print(f"  {runs[False].clock:.2f} s without, {runs[True].clock:.2f} s with; {runs[True].clients.counts}", flush=True)
        return pairs
    finally:
        peer.send_signal(signal.SIGINT)
        peer.wait(60)


def report(pairs, is_apart):
    name = "sync on processors of its own" if is_apart else "sync"
    for what, of in (("clock", lambda run: run.clock), ("processor", lambda run: run.processor)):
        without, with_server = ([of(pair[has]) for pair in pairs] for has in (0, 1))
        row(f"{name}, {what} s, without a server", spread(without))
        row(f"{name}, {what} s, with it", spread(with_server))
        more = 100 * (statistics.median(b / a for a, b in zip(without, with_server)) - 1)
        row(f"{name}: more by the {what}, median of pairs", f"{more:+.1f} %", "2 %", more <= 2)
    runs = [pair[1] for pair in pairs]
    if not is_apart:
        # Where the sync keeps every processor busy, what its clients take on them is time of the clock that a sync with
        # clients elsewhere does not lose.
        less = [(run.clock - run.clients_processor / os.cpu_count()) / without.clock for without, run in pairs]
        row(f"{name}: more by the clock, less the clients' own processor time", f"{100 * (statistics.median(less) - 1):+.1f} %")
    own = [sum(run.threads.values()) for run in runs]
    row(f"{name}: the server's own threads, processor s", spread(own, "{:.3f}"))
    row(f"{name}: the same of the sync's without a server", f"{100 * statistics.median(seconds / without.processor for seconds, (without, _) in zip(own, pairs)):.2f} %")
    by_name = sorted({name for run in runs for name in run.threads})
    row(f"{name}: by thread, ms", ", ".join(f"{thread} {1000 * statistics.median(run.threads.get(thread, 0.0) for run in runs):.0f}" for thread in by_name))
    asked = {name: sum(run.clients.counts[name] for run in runs) / sum(run.clock for run in runs) for name in runs[0].clients.counts}
    row(f"{name}: a second", ", ".join(f"{value:.1f} {what}" for what, value in asked.items()))
    row(f"{name}: the clients' own processor s a run", spread([run.clients_processor for run in runs]))
    late = sorted(value for run in runs for value in run.clients.late)
    row(f"{name}: getblockchaininfo beside it, ms: median, 99 %", f"{1000 * late[len(late) // 2]:.2f}, {1000 * late[len(late) * 99 // 100]:.2f}")


def main():
    options = arguments(__doc__, 5, "rate,block,rest,sync,apart")
    ffwd, wanted = options.ffwd, options.only
    make(ffwd, options.chain, MADE)
    work = pathlib.Path(tempfile.mkdtemp(prefix="ffwd-speed-"))
    try:
        copy = work / "own"
        shutil.copytree(options.chain, copy)
        if set(wanted) & {"rate", "block", "rest"}:
            both = [serve(ffwd, copy)]
            if "BITCOIND_EXE" in os.environ:
                shutil.copytree(options.chain, work / "core")
                both.append(bitcoind(work / "core"))
            if "rate" in wanted:
                rate(both, options.rounds)
            hashes = full_blocks(both[0], 20)
            if "block" in wanted:
                block(both, options.rounds, hashes)
            if "rest" in wanted:
                rest(both, options.rounds, hashes)
            for program in both:
                program.stop()
        if "sync" in wanted:
            sync(ffwd, work, copy, options.rounds)
        if "apart" in wanted:
            where = processors()
            if where:
                sync(ffwd, work, copy, options.rounds, where)
            else:
                print("apart: skipped, there is one processor")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    finish()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Programs that were written for bitcoind, run unchanged against ffwd's server, and against a bitcoind on a copy of the same
data directory: what they make of both must be the same.

    BITCOIND_EXE=... interop/clients.py target/release/ffwd

bitcoin-etl    exports blocks and transactions by batches of calls: the package of that name.
exporter       bitcoind-monitor.py of github.com/jvstein/bitcoin-prometheus-exporter: BITCOIN_EXPORTER names the file; it needs
               the packages python-bitcoinlib, prometheus-client and riprova.
/metrics       ffwd's own, read by the parser of prometheus-client, and by promtool where that is on PATH.

A client that is not there is skipped, and said so. Without BITCOIND_EXE everything is.
"""
import base64
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

QUIET = ["-connect=0", "-dnsseed=0", "-fixedseeds=0", "-printtoconsole=0", "-disablewallet"]
USER, PASSWORD = "reader", "word"
figures = []


def check(what, holds, more=""):
    print("ok:" if holds else "FAILED:", what, more, flush=True)
    if not holds:
        sys.exit(1)


def ensure(what, holds, more=""):
    """The same, without a word where it holds."""
    if not holds:
        check(what, holds, more)


def skip(what, why):
    print(f"SKIPPED: {what}: {why}", flush=True)


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Node:
    """A program that answers JSON-RPC on a port of its own, and peers on another one."""

    def __init__(self, name, datadir, command):
        self.name, self.datadir, self.rpc_port, self.p2p_port = name, datadir, port(), port()
        words = [word.replace("RPC", str(self.rpc_port)).replace("P2P", str(self.p2p_port)) for word in command]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.time() + 60
        while time.time() < end and self.process.poll() is None:
            try:
                self.call("getblockcount")
                return
            except (OSError, RuntimeError):
                time.sleep(0.1)
        check(f"{name} answers", False, f"exit code {self.process.poll()}")

    def call(self, method, *params):
        body = json.dumps({"method": method, "params": params, "id": 1}).encode()
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.rpc_port}/", body, {"Authorization": f"Basic {login}"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["result"]
        except urllib.error.HTTPError as why:
            raise RuntimeError(f"{self.name}: {method}: {why.read()[:300]}") from why

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        check(f"{self.name} stops", self.process.wait(60) == 0)


def make_chain(ffwd, work):
    """A data directory with a made chain, and a copy of it."""
    of_ffwd, of_core = work / "ffwd", work / "core"
    made = ["lab", "chain", "--out", of_ffwd, "--blocks", 3, "--utxos", 3000, "--tail", 130, "--seed", 21]
    for command in (made, ["reindex", "--datadir", of_ffwd, "--chain", "regtest"]):
        subprocess.run([ffwd, *map(str, command)], check=True, capture_output=True)
    shutil.copytree(of_ffwd, of_core)
    return of_ffwd, of_core


def start(ffwd, work):
    of_ffwd, of_core = make_chain(ffwd, work)
    core = Node("bitcoind", of_core, [
        os.environ["BITCOIND_EXE"], "-regtest", f"-datadir={of_core}", "-rpcport=RPC", "-bind=127.0.0.1:P2P", f"-rpcuser={USER}",
        f"-rpcpassword={PASSWORD}", "-rest", "-txindex", "-txospenderindex", *QUIET])
    own = Node("ffwd", of_ffwd, [
        ffwd, "sync", "--server", "--rest", "--txindex", "--txospenderindex", "--datadir", str(of_ffwd), "--chain", "regtest", "--rpcport", "RPC", "--rpcuser",
        USER, "--rpcpassword", PASSWORD, "--listen", "127.0.0.1:P2P", "--connect", "0"])
    # A block of today ends the initial block download, for which clients wait.
    both_add(own, core)
    end = time.time() + 60
    while any(index["best_block_height"] < core.call("getblockcount") for index in core.call("getindexinfo").values()):
        ensure("bitcoind's indexes are there within a minute", time.time() < end)
        time.sleep(0.1)
    check("both are at the same tip", own.call("getbestblockhash") == core.call("getbestblockhash"))
    check("and out of the initial block download", not own.call("getblockchaininfo")["initialblockdownload"])
    return own, core


def both_add(own, core):
    """One more block, made by ffwd, taken by bitcoind; its coinbase can be spent by anyone."""
    block = own.call("generateblock", "raw(51)", [], False)["hex"]
    for node in (own, core):
        ensure(f"{node.name} takes the block", node.call("submitblock", block) is None)


def bitcoin_etl(own, core, work):
    if importlib.util.find_spec("bitcoinetl") is None:
        return skip("bitcoin-etl", "Python has no package bitcoin-etl")
    out = {}
    for node in (own, core):
        files = [work / f"etl-{node.name}-{what}.json" for what in ("blocks", "transactions")]
        # Genesis is not asked for: that of mainnet is built in.
        words = ["export_blocks_and_transactions", "-s", 1, "-e", core.call("getblockcount"), "-b", 5, "-w", 1, "-p",
                 f"http://{USER}:{PASSWORD}@127.0.0.1:{node.rpc_port}", "--blocks-output", files[0], "--transactions-output", files[1]]
        code = "from bitcoinetl.cli import cli; cli()"
        done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False)
        check(f"bitcoin-etl exports from {node.name}", done.returncode == 0, done.stderr[-1500:] if done.returncode else "")
        out[node.name] = [file.read_text(encoding="utf-8").splitlines() for file in files]
    check("bitcoin-etl: blocks and transactions are the same", out["ffwd"] == out["bitcoind"])
    blocks, transactions = out["ffwd"]
    check("bitcoin-etl: all blocks are there", len(blocks) == core.call("getblockcount") and len(transactions) > len(blocks))
    figures.append(f"bitcoin-etl exported {len(blocks)} blocks and {len(transactions)} transactions")


# What a scrape says of the program itself and of its memory, not of the chain; peers are others on both sides.
OF_THE_PROGRAM = ("process_", "python_", "bitcoin_uptime", "bitcoin_meminfo", "bitcoin_exporter", "bitcoin_rpc_active", "bitcoin_total_bytes",
                  "bitcoin_verification_progress", "bitcoin_size_on_disk", "bitcoin_protocol_version", "bitcoin_warnings_created")


def exporter(own, core, _work):
    program = os.environ.get("BITCOIN_EXPORTER")
    if not program:
        return skip("exporter", "BITCOIN_EXPORTER names no bitcoind-monitor.py")
    lacks = [name for name in ("bitcoin", "riprova", "prometheus_client") if importlib.util.find_spec(name) is None]
    if lacks:
        return skip("exporter", f"Python has no {', '.join(lacks)}")
    seen = []
    for node in (own, core):
        at = port()
        settings = {"BITCOIN_RPC_HOST": "127.0.0.1", "BITCOIN_RPC_PORT": str(node.rpc_port), "BITCOIN_RPC_USER": USER,
                    "BITCOIN_RPC_PASSWORD": PASSWORD, "METRICS_ADDR": "127.0.0.1", "METRICS_PORT": str(at), "RATE_LIMIT": "0"}
        process = subprocess.Popen([sys.executable, program], env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end, text = time.time() + 30, ""
        while not text:
            ensure(f"the exporter beside {node.name} answers", time.time() < end and process.poll() is None)
            try:
                text = urllib.request.urlopen(f"http://127.0.0.1:{at}/metrics", timeout=30).read().decode()
            except OSError:
                time.sleep(0.2)
        process.terminate()
        process.wait(30)
        series = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
        check(f"the exporter beside {node.name} met no error", not [name for name in series if name.startswith("bitcoin_exporter_errors")])
        seen.append({name: value for name, value in series.items() if not name.startswith(OF_THE_PROGRAM)})
    wrong = [(name, seen[0].get(name), seen[1].get(name)) for name in sorted(seen[0].keys() | seen[1].keys()) if seen[0].get(name) != seen[1].get(name)]
    check(f"exporter: {len(seen[0])} figures are the same from ffwd and bitcoind", not wrong, str(wrong) if wrong else "")
    check("exporter: the height is there", float(seen[0]["bitcoin_blocks"]) == core.call("getblockcount"))


def metrics(own, _core, _work):
    text = urllib.request.urlopen(f"http://127.0.0.1:{own.rpc_port}/metrics", timeout=30).read().decode()
    if importlib.util.find_spec("prometheus_client") is None:
        skip("/metrics", "Python has no prometheus-client")
    else:
        from prometheus_client.parser import text_string_to_metric_families  # pylint: disable=import-outside-toplevel
        families = {family.name: family for family in text_string_to_metric_families(text)}
        wrong = [name for name, family in families.items() if not family.documentation or family.type == "unknown"]
        # The parser takes the suffix _total off the names of counters, and does not find those that lack it.
        wrong += [s.name for f in families.values() if f.type == "counter" for s in f.samples if not s.name.endswith("_total")]
        for family in families.values():
            if family.type == "histogram":
                series = {}
                for sample in family.samples:
                    rest = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
                    series.setdefault(rest, {}).setdefault(sample.name.rsplit("_", 1)[1], []).append(sample)
                for parts in series.values():
                    counts = [sample.value for sample in parts["bucket"]]
                    is_good = counts == sorted(counts) and parts["bucket"][-1].labels["le"] == "+Inf" and parts["count"][0].value == counts[-1]
                    wrong += [] if is_good and "sum" in parts else [family.name]
        check(f"/metrics: prometheus-client reads {len(families)} families", not wrong and len(families) > 20, str(wrong) if wrong else "")
    if promtool := shutil.which("promtool"):
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        check("/metrics: promtool", done.returncode == 0, done.stdout + done.stderr)
    else:
        skip("promtool", "it is not on PATH")


def main():
    if "BITCOIND_EXE" not in os.environ:
        skip("all clients", "BITCOIND_EXE names no bitcoind to compare with")
        return
    work = pathlib.Path(tempfile.mkdtemp(prefix="ffwd-clients-"))
    nodes = []
    try:
        nodes = start(str(pathlib.Path(sys.argv[1]).resolve()), work)
        for client in (metrics, exporter, bitcoin_etl):
            client(*nodes, work)
        for node in nodes:
            node.stop()
    finally:
        for node in nodes:
            if node.process.poll() is None:
                node.process.kill()
        shutil.rmtree(work, ignore_errors=True)
    print("clients:", "; ".join(figures) or "none", flush=True)


if __name__ == "__main__":
    main()

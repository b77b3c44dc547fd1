#!/usr/bin/env python3
"""Programs that were written for bitcoind, run unchanged against ffwd's server, and against a bitcoind on a copy of the same
data directory: what they make of both must be the same.

    BITCOIND_EXE=... interop/clients.py target/release/ffwd

electrs        an Electrum server: indexes the chain by REST, answers about headers, scripts, transactions and their proofs,
               and follows a new block. ELECTRS names it, else it is looked for on PATH (`cargo install electrs`).
explorer       btc-rpc-explorer of github.com/janoside: its pages and its API about tip, blocks, transactions and node.
               BTC_RPC_EXPLORER names a checkout in which `npm install` ran; it needs node.
bitcoin-etl    exports blocks and transactions by batches of calls: the package of that name.
exporter       bitcoind-monitor.py of github.com/jvstein/bitcoin-prometheus-exporter: BITCOIN_EXPORTER names the file; it needs
               the packages python-bitcoinlib, prometheus-client and riprova.
/metrics       ffwd's own, read by the parser of prometheus-client; and with the alert rules of contrib/ by promtool, which is in
               Debian's package prometheus: PROMTOOL names it, else it is looked for on PATH.

A client that is not there is skipped, and said so. Without BITCOIND_EXE everything is.
"""
import base64
import hashlib
import importlib.util
import json
import os
import pathlib
import random
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


def in_order(unspent):
    """electrs has them in the order of a hash table with a random key."""
    return sorted(unspent, key=lambda one: (one["tx_hash"], one["tx_pos"])) if isinstance(unspent, list) else unspent


class Electrum:
    """An Electrum server beside a node, and a client of it."""

    def __init__(self, name, node, words, at):
        self.name = f"{name} beside {node.name}"
        self.log = tempfile.TemporaryFile("w+")
        began = time.time()
        self.process = subprocess.Popen([str(word) for word in words], stdout=self.log, stderr=self.log)
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", at), timeout=60)
                break
            except OSError:
                if self.process.poll() is not None or time.time() > began + 120:
                    self.log.seek(0)
                    check(f"{self.name} answers", False, self.log.read()[-3000:])
                time.sleep(0.1)
        self.lines = self.socket.makefile("rw")
        self.call("server.version", "interop", "1.4")
        self.wait_for(node.call("getblockcount"))
        self.took = time.time() - began

    def call(self, method, *params):
        return self.call_all([(method, params)])[0]

    def call_all(self, asked):
        """Many questions at a time: between two batches it asks its node for news."""
        answers = []
        for at in range(0, len(asked), 50):
            some = asked[at:at + 50]
            lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params}) for n, (method, params) in enumerate(some)]
            self.lines.write("\n".join(lines) + "\n")
            self.lines.flush()
            found = {}
            while len(found) < len(some):
                answer = json.loads(self.lines.readline())
                # What is told without being asked has no id.
                if "id" in answer:
                    found[answer["id"]] = answer.get("result", answer.get("error"))
            answers += [in_order(found[n]) if method.endswith("listunspent") else found[n] for n, (method, _) in enumerate(some)]
        return answers

    def wait_for(self, height):
        end = time.time() + 90
        while self.call("blockchain.headers.subscribe").get("height") != height:
            ensure(f"{self.name} comes to {height}", time.time() < end)
            time.sleep(0.1)

    def stop(self):
        self.lines.close()
        self.socket.close()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        self.log.close()


def of_electrs(program, node, work):
    """electrs, which takes blocks by REST or from the peers' port, as its version does."""
    at, conf = port(), work / f"electrs-{node.name}.toml"
    conf.write_text(f'auth = "{USER}:{PASSWORD}"\n', encoding="utf-8")
    words = [program, "--skip-default-conf-files", "--conf", conf, "--network", "regtest", "--db-dir", work / f"electrs-{node.name}",
             "--daemon-dir", node.datadir, "--daemon-rpc-addr", f"127.0.0.1:{node.rpc_port}", "--electrum-rpc-addr", f"127.0.0.1:{at}",
             "--monitoring-addr", f"127.0.0.1:{port()}"]
    if b"--daemon-p2p-addr" in subprocess.run([program, "--help"], capture_output=True, check=False).stdout:
        words += ["--daemon-p2p-addr", f"127.0.0.1:{node.p2p_port}"]
    return Electrum("electrs", node, words, at)


def questions(core, rng):
    """What an Electrum wallet asks, about blocks and transactions of all the chain."""
    tip = core.call("getblockcount")
    scripts, ids = {"51"}, []
    for height in range(tip + 1):
        block = core.call("getblock", core.call("getblockhash", height), 2)
        some = block["tx"] if len(block["tx"]) < 30 else rng.sample(block["tx"], 30)
        ids += [(tx["txid"], height) for tx in some]
        scripts |= {out["scriptPubKey"]["hex"] for tx in some for out in tx["vout"]}
    yield "blockchain.headers.subscribe", []
    yield "blockchain.block.headers", [0, 2016]
    yield "blockchain.relayfee", []
    yield "blockchain.estimatefee", [3]
    yield "mempool.get_fee_histogram", []
    for height in range(tip + 1):
        yield "blockchain.block.header", [height]
    for script in ["51", *rng.sample(sorted(scripts), 40)]:
        name = hashlib.sha256(bytes.fromhex(script)).digest()[::-1].hex()
        for what in ("subscribe", "get_balance", "get_history", "listunspent"):
            yield f"blockchain.scripthash.{what}", [name]
    for txid, height in rng.sample(ids, min(len(ids), 60)):
        if height:
            yield "blockchain.transaction.get", [txid]
            yield "blockchain.transaction.get", [txid, True]
            yield "blockchain.transaction.get_merkle", [txid, height]
    for height in range(1, tip + 1, 7):
        yield "blockchain.transaction.id_from_pos", [height, 0]
        yield "blockchain.transaction.id_from_pos", [height, 0, True]
    yield "blockchain.transaction.get", ["11" * 32]


def electrs(own, core, work):
    program = os.environ.get("ELECTRS") or shutil.which("electrs")
    if not program:
        return skip("electrs", "it is not on PATH: cargo install electrs, or ELECTRS=FILE")
    return compare_electrum([of_electrs(program, node, work) for node in (own, core)], own, core)


def compare_electrum(both, own, core):
    """The answers of two servers, one beside ffwd and one beside bitcoind."""
    name = both[0].name.split()[0]
    asked = list(questions(core, random.Random(21)))
    wrong, said = [], 0
    for (method, params), a, b in zip(asked, *(one.call_all(asked) for one in both)):
        said += bool(a) and not (isinstance(a, dict) and "code" in a)
        wrong += [] if a == b else [(method, params, str(a)[:200], str(b)[:200])]
    check(f"{name}: {len(asked)} answers are the same beside ffwd and bitcoind", not wrong, str(wrong[:3]) if wrong else "")
    check(f"{name}: most of them say something", said > len(asked) // 2, f"{said} of {len(asked)}")
    both_add(own, core)
    for one in both:
        one.process.send_signal(signal.SIGUSR1)
        one.wait_for(core.call("getblockcount"))
    script = hashlib.sha256(b"\x51").digest()[::-1].hex()
    histories = [one.call("blockchain.scripthash.get_history", script) for one in both]
    is_there = any(entry["height"] == core.call("getblockcount") for entry in histories[0])
    check(f"{name} follows a new block", histories[0] == histories[1] and is_there, "" if is_there else str(histories)[:300])
    for one in both:
        one.stop()
    figures.append(f"{name} had the chain in {both[0].took:.1f} s from ffwd, in {both[1].took:.1f} s from bitcoind")


class Explorer:
    """btc-rpc-explorer beside a node."""

    def __init__(self, checkout, node, work):
        self.name, self.port, cache = f"explorer beside {node.name}", port(), work / f"explorer-{node.name}"
        cache.mkdir()
        settings = {
            "BTCEXP_HOST": "127.0.0.1", "BTCEXP_PORT": str(self.port), "BTCEXP_BITCOIND_HOST": "127.0.0.1", "BTCEXP_BITCOIND_PORT": str(node.rpc_port),
            "BTCEXP_BITCOIND_USER": USER, "BTCEXP_BITCOIND_PASS": PASSWORD, "BTCEXP_PRIVACY_MODE": "true", "BTCEXP_NO_RATES": "true",
            "BTCEXP_SLOW_DEVICE_MODE": "false", "BTCEXP_COOKIE_SECRET": "interop", "BTCEXP_FILESYSTEM_CACHE_DIR": str(cache),
            "BTCEXP_RATE_LIMIT_WINDOW_MINUTES": "-1", "BTCEXP_BITCOIND_RPC_TIMEOUT": "30000", "HOME": str(cache), "NODE_ENV": "production"}
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(["node", "bin/www"], cwd=checkout, env={**os.environ, **settings}, stdout=self.log, stderr=self.log)
        end = time.time() + 90
        while True:
            try:
                # Before it knows the node it shows how to connect.
                if json.loads(self.get("/api/blocks/tip")[1]).get("hash") and self.get("/node-details")[0] == 200:
                    return
            except (OSError, ValueError):
                pass
            if self.process.poll() is not None or time.time() > end:
                self.log.seek(0)
                check(f"{self.name} answers", False, self.log.read()[-3000:])
            time.sleep(0.3)

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as why:
            return why.code, why.read().decode()

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


def explorer(own, core, work):
    checkout = os.environ.get("BTC_RPC_EXPLORER")
    if not checkout or not (pathlib.Path(checkout) / "node_modules").is_dir():
        return skip("explorer", "BTC_RPC_EXPLORER names no checkout of btc-rpc-explorer with node_modules")
    if not shutil.which("node"):
        return skip("explorer", "there is no node on PATH")
    tip = core.call("getblockcount")
    full = max(range(1, tip), key=lambda height: core.call("getblockstats", height, ["txs"])["txs"])
    hashes = [core.call("getblockhash", height) for height in (0, 1, full, tip)]
    txids = core.call("getblock", hashes[2])["tx"][:6]
    asked = [f"/api/block/{height}" for height in (1, 2, full, tip)] + [f"/api/block/header/{hash}" for hash in hashes]
    asked += [f"/api/tx/{txid}" for txid in txids] + ["/api/blocks/tip", "/api/mempool/summary", "/api/mempool/fees", "/api/blockchain/coins"]
    asked += ["/api/mining/hashrate", "/api/mining/diff-adj-estimate", "/api/blockchain/utxo-set"]
    # A page, and what must be on it.
    pages = [("/", str(tip)), ("/blocks", str(tip)), ("/node-details", "regtest"), ("/mempool-summary", "0"), ("/mining-summary", ""),
             ("/block-stats", ""), ("/peers", ""), ("/next-block", "")]
    pages += [(f"/block/{hash}", hash) for hash in hashes] + [(f"/block-height/{full}", hashes[2]), (f"/block-analysis/{full}", "")]
    pages += [(f"/tx/{txid}", txid) for txid in txids]
    both = [Explorer(checkout, node, work) for node in (own, core)]
    wrong, missing = [], []
    for path in asked:
        answers = [comparable_json(one.get(path)) for one in both]
        wrong += [] if answers[0] == answers[1] else [(path, *[str(answer)[:300] for answer in answers])]
        failed = isinstance(answers[1][1], dict) and answers[1][1].get("success") is False
        ensure(f"explorer: {path} says something beside bitcoind", answers[1][0] == 200 and not failed, str(answers[1])[:300])
    check(f"explorer: {len(asked)} answers of its API are the same beside ffwd and bitcoind", not wrong, str(wrong[:3]) if wrong else "")
    for path, must in pages:
        status, text = both[0].get(path)
        other = both[1].get(path)
        missing += [(path, said[0], must) for said in ((status, text), other) if said[0] != 200 or must not in said[1] or "Failed to load" in said[1]]
    check(f"explorer: {len(pages)} pages load beside both", not missing, str(missing[:6]) if missing else "")
    for one in both:
        one.stop()


def comparable_json(answer):
    """Without what is of the program: the size of its tables."""
    status, text = answer
    value = json.loads(text)
    for name in ("disk_size", "lastUpdated") if isinstance(value, dict) else ():
        value.pop(name, None)
    return status, value


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


def spenders(own, core, _work):
    """Who spent which output: ffwd's and bitcoind's txospenderindex, by the call that clients use."""
    outputs = []
    for height in range(core.call("getblockcount") + 1):
        for tx in core.call("getblock", core.call("getblockhash", height), 2)["tx"][:40]:
            outputs += [{"txid": tx["txid"], "vout": out["n"]} for out in tx["vout"][:2]]
    found = []
    for node in (own, core):
        found.append([entry for at in range(0, len(outputs), 500) for entry in node.call("gettxspendingprevout", outputs[at:at + 500], {"return_spending_tx": True})])
    spent = sum("spendingtxid" in entry for entry in found[0])
    check(f"gettxspendingprevout: {len(outputs)} outputs, {spent} of them spent, are the same", found[0] == found[1] and 0 < spent < len(outputs))


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
        process.kill()
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
    promtool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if not promtool:
        return skip("promtool", "it is not on PATH")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    check("/metrics: promtool", done.returncode == 0 and not done.stderr, done.stdout + done.stderr)
    rules = pathlib.Path(__file__).parent.parent / "contrib" / "prometheus-alerts.yml"
    done = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True, check=False)
    check("alert rules: promtool", done.returncode == 0, done.stderr or done.stdout.splitlines()[-1].strip())


def main():
    if "BITCOIND_EXE" not in os.environ:
        skip("all clients", "BITCOIND_EXE names no bitcoind to compare with")
        return
    work = pathlib.Path(tempfile.mkdtemp(prefix="ffwd-clients-"))
    nodes = []
    try:
        nodes = start(str(pathlib.Path(sys.argv[1]).resolve()), work)
        for client in (metrics, exporter, bitcoin_etl, spenders, explorer, electrs):
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

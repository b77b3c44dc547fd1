#!/usr/bin/env python3
"""What audits, exports and Spark cost: for a quiet machine of two cores or more, about eight minutes with 200 full blocks.

    target/ffwd-spark/bin/python interop/cluster_speed.py target/release/ffwd CHAIN [--rounds 3] [--only audit,workers,export,etl,spark]

CHAIN is a data directory of regtest with full blocks that ffwd reindexed; a copy of its chainstate is rebuilt. Where it is not
there it is made: `ffwd lab chain --out CHAIN --blocks 40 --seed 1 --utxos 100000 --tail 2100 --signatures real`. Without the 2,100 empty
blocks above the full ones no script of theirs may be assumed valid.

audit    processor time of an audit of all blocks, beside that of their scripts in a rebuild
workers  a range by one worker, and its halves by two at the same time
export   all tables on two cores, and the largest memory of the task
etl      bitcoin-etl beside an export of the same few blocks: wants BITCOIND_EXE, and the package (BITCOIN_ETL: a Python that has it);
         with RUSTY_BLOCKPARSER naming that program its csvdump, too
spark    tasks that wait ten seconds and do nothing, in a session of local[2]: wants pyspark and a Java runtime

Ends with 1 where a bound of the last column does not hold.
"""
import json
import os
import pathlib
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from figures import arguments, bitcoind, finish, make, PASSWORD, row, spread, USER

MADE = "--blocks 40 --seed 1 --utxos 100000 --tail 2100 --signatures real".split()
WAIT_S, TASKS = 10, 8


class Done:
    """A run of a program: seconds of the clock, of processors, the largest memory in MB, and what it printed."""

    def __init__(self, *words):
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            began = time.perf_counter()
            process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=err)
            _, status, usage = os.wait4(process.pid, 0)
            self.wall = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            self.processor = usage.ru_utime + usage.ru_stime
            self.memory_mb = usage.ru_maxrss / 1000
            out.seek(0)
            err.seek(0)
            self.out = out.read()
            if process.returncode:
                sys.exit(f"{words} ended with {process.returncode}: {err.read()[-800:]}")

    def json(self):
        return json.loads(self.out.strip().splitlines()[-1])


class Chain:
    """The chain, a plan of two halves, a salt, and a copy whose chainstate is rebuilt."""

    def __init__(self, ffwd, datadir, work):
        self.ffwd, self.at, self.work = ffwd, ["--datadir", datadir, "--chain", "regtest"], work
        self.plan, self.salt = work / "plan", work / "salt"
        self.salt.write_text(secrets.token_hex(32))
        self.halves = Done(ffwd, "audit", "plan", "--parts", 2, "--out", self.plan, *self.at, "--json").json()["ranges"]
        self.height = self.halves[-1][1]
        self.copy = work / "copy"
        shutil.copytree(datadir, self.copy)

    def part(self, first, last, par):
        name = self.work / f"record-{first}"
        return [self.ffwd, "audit", "part", "--from", first, "--to", last, "--plan", self.plan, "--salt", self.salt, "--out", name, "--par", par, *self.at]

    def rebuild(self, assumed):
        return Done(self.ffwd, "reindex", "--chainstate-only", "--assumevalid", assumed, "--par", 2, "--dbcache", 4000, "--datadir", self.copy, "--chain", "regtest")

    def export(self, first, last, par):
        out = self.work / "tables"
        shutil.rmtree(out, ignore_errors=True)
        return Done(self.ffwd, "export", "--from", first, "--to", last, "--plan", self.plan, "--out", out, "--par", par, *self.at, "--json")


def audit(chain, rounds):
    tip = Done(chain.ffwd, "coins", "info", *chain.at, "--json").json()["bestblock"]
    found = {"rebuild, every script": [], "rebuild, scripts assumed valid": [], "audit": []}
    for _ in range(rounds):
        found["rebuild, every script"].append(chain.rebuild("0"))
        found["audit"].append(Done(*chain.part(0, chain.height, 2)))
        found["rebuild, scripts assumed valid"].append(chain.rebuild(tip))
    for name, runs in found.items():
        row(f"{name}: processor s; clock s", f"{spread([run.processor for run in runs])}; {spread([run.wall for run in runs])}")
    every, assumed, audited = ([run.processor for run in runs] for runs in (found["rebuild, every script"], found["rebuild, scripts assumed valid"], found["audit"]))
    if statistics.median(assumed) > 0.7 * statistics.median(every):
        sys.exit("scripts are not assumed valid on this chain: it has too few blocks above the full ones, or too few signatures")
    parts = [c / (a - b) for a, b, c in zip(every, assumed, audited)]
    row("audit's processor time beside its scripts'", spread(parts), "1.10", statistics.median(parts) <= 1.1)


def workers(chain, rounds):
    (a, b, _), (c, d, _) = chain.halves
    ratios = []
    for _ in range(rounds):
        one = Done(*chain.part(0, chain.height, 1)).wall
        began = time.perf_counter()
        both = [subprocess.Popen([str(word) for word in chain.part(*ends, 1)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for ends in ((a, b), (c, d))]
        if any([process.wait() for process in both]):
            sys.exit("a worker failed")
        ratios.append(one / (time.perf_counter() - began))
    row("two workers beside one, by the clock", spread(ratios), "1.90", statistics.median(ratios) >= 1.9)


def export(chain, rounds):
    rates, memory, processor = [], [], []
    for _ in range(rounds):
        done = chain.export(0, chain.height, 2)
        size = done.json()["bytes_in"] / 1e6
        rates.append(size / done.wall)
        memory.append(done.memory_mb)
        processor.append(size / done.processor)
    row("export of all tables, MB of blocks a second on two cores", spread(rates, "{:.0f}"), "60", statistics.median(rates) >= 60)
    row("the same for each second of a processor", spread(processor, "{:.0f}"))
    row("its largest memory with mapped pages, MB", spread(memory, "{:.0f}"), "300", max(memory) <= 300)


def full_range(call, height, count):
    """As many neighbouring blocks as asked for, with the most transactions."""
    counts = [call("getblockstats", at, ["txs"])["txs"] for at in range(height + 1)]
    first = max(range(1, height - count + 2), key=lambda at: sum(counts[at:at + count]))
    return first, first + count - 1


def etl(chain):
    python = os.environ.get("BITCOIN_ETL", sys.executable)
    if "BITCOIND_EXE" not in os.environ or subprocess.run([python, "-c", "import bitcoinetl"], capture_output=True, check=False).returncode:
        return print("SKIPPED: bitcoin-etl: wants BITCOIND_EXE, and the package", flush=True)
    core = bitcoind(chain.copy)
    try:
        first, last = full_range(core.keep.result, chain.height, 60)
        files = [chain.work / f"etl-{what}.json" for what in ("blocks", "transactions")]
        code = "from bitcoinetl.cli import cli; cli()"
        words = [python, "-c", code, "export_blocks_and_transactions", "-s", first, "-e", last, "-b", 1, "-w", 2, "-p", f"http://{USER}:{PASSWORD}@127.0.0.1:{core.at}"]
        theirs = Done(*words, "--blocks-output", files[0], "--transactions-output", files[1])
        lines = sum(1 for _ in files[1].open(encoding="utf-8"))
    finally:
        core.stop()
    ours = [chain.export(first, last, 2) for _ in range(3)]
    size, wall = ours[0].json()["bytes_in"] / 1e6, statistics.median(run.wall for run in ours)
    if ours[0].json()["transactions"] != lines:
        sys.exit(f"bitcoin-etl has {lines} transactions, an export {ours[0].json()['transactions']}")
    row(f"blocks {first} to {last}, {size:.1f} MB, {lines:,} transactions: export, s", spread([run.wall for run in ours]))
    row("the same by bitcoin-etl from bitcoind, without what inputs spend, s", f"{theirs.wall:.1f}")
    row("bitcoin-etl's time beside an export's", f"{theirs.wall / wall:.0f}", "20", theirs.wall / wall >= 20)


def blockparser(chain):
    program = os.environ.get("RUSTY_BLOCKPARSER")
    if not program:
        return print("SKIPPED: rusty-blockparser: RUSTY_BLOCKPARSER names none", flush=True)
    times = []
    for _ in range(3):
        out = chain.work / "csv"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        # It knows no regtest, and looks at nothing that differs on testnet but addresses.
        times.append(Done(program, "-c", "testnet3", "-d", chain.copy / "regtest" / "blocks", "csvdump", out).wall)
    done = chain.export(0, chain.height, 2)
    row("rusty-blockparser csvdump of all blocks, s; export, s", f"{spread(times)}; {done.wall:.2f}")
    row("its time beside an export's", f"{statistics.median(times) / done.wall:.1f}")


SLEEPER = f'''#!/usr/bin/env python3
"""Stands for ffwd: a plan of one thousand blocks a range, and tasks that wait."""
import json, pathlib, sys, time
args = sys.argv[1:]
value = lambda name: args[args.index(name) + 1]
if args[:2] == ["audit", "plan"]:
    n = int(value("--parts"))
    pathlib.Path(value("--out")).write_text("a plan")
    print(json.dumps({{"height": 1000 * n - 1, "bestblock": "b", "ranges": [[1000 * i, 1000 * i + 999, 5] for i in range(n)]}}))
else:
    time.sleep({WAIT_S})
    print(json.dumps(dict.fromkeys(["blocks", "transactions", "inputs", "outputs", "files", "bytes_in", "bytes_out"], 1)))
'''


def spark(work):
    try:
        from pyspark.sql import SparkSession  # pylint: disable=import-outside-toplevel
    except ImportError:
        return print("SKIPPED: Spark: Python has no pyspark", flush=True)
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
    import ffwd_spark  # pylint: disable=import-outside-toplevel
    program = work / "sleeper"
    program.write_text(SLEEPER)
    program.chmod(0o755)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    began = time.perf_counter()
    builder = SparkSession.builder.master("local[2]").config(map=ffwd_spark.recommended_conf()).config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    row("a session's start, s", f"{time.perf_counter() - began:.1f}")
    least, costs = WAIT_S * TASKS / 2, []
    for name in ("first", "second"):
        began = time.perf_counter()
        ffwd_spark.export(session, "/data", work / "nothing", TASKS, chain="regtest", binary=program)
        costs.append(100 * ((time.perf_counter() - began) / least - 1))
        # The first job starts Python's workers; their share falls with the length of the job.
        row(f"Spark's own cost, {TASKS} tasks of {WAIT_S} s on two cores, {name} job", f"{costs[-1]:.1f} %", "10 %", costs[-1] < 10)
    session.stop()


def main():
    options = arguments(__doc__, 3, "audit,workers,export,etl,spark")
    ffwd, wanted = options.ffwd, options.only
    work = pathlib.Path(tempfile.mkdtemp(prefix="ffwd-cluster-"))
    try:
        if set(wanted) - {"spark"}:
            make(ffwd, options.chain, MADE)
            chain = Chain(ffwd, options.chain, work)
            row("blocks; MB of them", f"{chain.height + 1:,}; {chain.export(0, chain.height, 2).json()['bytes_in'] / 1e6:.1f}")
        if "audit" in wanted:
            audit(chain, options.rounds)
        if "workers" in wanted:
            workers(chain, options.rounds)
        if "export" in wanted:
            export(chain, options.rounds)
        if "etl" in wanted:
            etl(chain)
            blockparser(chain)
        if "spark" in wanted:
            spark(work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    finish()


if __name__ == "__main__":
    main()

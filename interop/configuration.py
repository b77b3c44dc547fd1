#!/usr/bin/env python3
"""Snippets of bitcoin.conf, settings.json and the command line, to ffwd and to bitcoind: what is taken, warned of, refused.

    BITCOIND_EXE=... interop/configuration.py target/release/ffwd [--only WORD] [--record]

The table is crates/ffwd/testdata/configuration.json, one row a line, with what each program did; `cargo test -p ffwd configuration` plays
it in ffwd without a bitcoind. --record writes what the programs do now into it (bitcoind's column only where BITCOIND_EXE names one).

What bitcoind refuses ffwd refuses, what bitcoind warns of ffwd warns of, what bitcoind takes ffwd takes, or names what it does not use.
A row that is otherwise says why in `differs`. Ends with 1 where a program does not do what the table has, or a row breaks that rule.

A row: name, conf (text of bitcoin.conf) or bytes (hexadecimal), settings (text of regtest/settings.json), files, dirs, line (options),
datadir (false: the command line names the file and no data directory). @ is the directory of the row.
bitcoind runs in a network namespace of its own where the machine allows it, else one at a time.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TABLE = pathlib.Path(__file__).resolve().parent.parent / "crates/ffwd/testdata/configuration.json"
NAMES = TABLE.with_name("bitcoind_options.txt")
# Seconds for bitcoind to start or to say why not.
LIMIT = 120
# What bitcoind says on every machine, or of this one.
OTHERS = re.compile(r"Reducing -maxconnections|is not safe to expose|less secure, because credentials|Failed to|Binding|disk space|Testnet|testnet3 is deprecated|tor: |rw_settings value _warning_", re.I)
UNUSUAL = re.compile(r"Invalid|Unable|Cannot|Option -rpc")


def lay_out(row, top):
    """Makes the row's files in a new directory."""
    top.mkdir(parents=True)
    (top / "home").mkdir()
    for name in row.get("dirs", []):
        (top / name).mkdir(parents=True, exist_ok=True)
    files = {name: text.encode() for name, text in row.get("files", {}).items()}
    if row.get("conf") is not None:
        files["bitcoin.conf"] = row["conf"].replace("@/", f"{top}/").encode()
    if "bytes" in row:
        files["bitcoin.conf"] = bytes.fromhex(row["bytes"])
    if "settings" in row:
        files["regtest/settings.json"] = row["settings"].encode()
    for name, data in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(data)


def options(row, top):
    where = f"-datadir={top}" if row.get("datadir", True) else f"-conf={top}/bitcoin.conf"
    return [where, *(word.replace("@/", f"{top}/") for word in row.get("line", []))]


def said(text, top):
    """Lines without the row's directory, times and what begins each."""
    out = []
    for line in text.replace(str(top), "@").splitlines():
        line = re.sub(r"^(\S+Z )?(\[(warning|error)\] )?((Error|Warning): )?", "", line).strip()
        if line and line not in out:
            out.append(line)
    return out


def of_ffwd(ffwd, row, top):
    env = os.environ | {"HOME": str(top / "home")}
    words = [ffwd, "sync", *options(row, top), "--check-configuration", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", env=env, timeout=60)
    if done.returncode != 0:
        return {"verdict": "refused", "says": said(done.stderr, top)}
    found = json.loads(done.stdout)
    warnings = [line for warning in found["warnings"] for line in said(warning, top)]
    return {"verdict": "warned" if warnings else "taken", "says": warnings, "dir": place(pathlib.Path(found["datadir"]), top)}


def place(directory, top):
    return str(directory).replace(str(top), "@")


def end(process, top):
    """Stops a bitcoind, also one that went into the background."""
    for file in top.rglob("bitcoind.pid"):
        try:
            os.kill(int(file.read_text()), signal.SIGTERM)
        except (OSError, ValueError):
            pass
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    until = time.time() + 60
    while list(top.rglob("bitcoind.pid")) and time.time() < until:
        time.sleep(0.05)


def of_bitcoind(bitcoind, row, top, isolated):
    env = os.environ | {"HOME": str(top / "home")}
    own = [f"-{name}=0" for name in ("dnsseed", "fixedseeds", "natpmp") if name not in (row.get("conf") or "")]
    words = [bitcoind, *options(row, top), *own, "-printtoconsole=0"]
    if isolated:
        words = ["unshare", "-n", "sh", "-c", 'ip link set lo up 2>/dev/null; exec "$@"', "sh", *words]
    error = open(top / "error", "wb")
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=error, env=env, cwd=top)
    until, started = time.time() + LIMIT, False
    logs = lambda: [file for file in top.rglob("debug.log")]
    log = lambda: "".join(file.read_text(errors="replace") for file in logs())
    while time.time() < until:
        started = started or "Done loading" in log()
        if started or process.poll() is not None:
            break
        time.sleep(0.05)
    code = process.poll()
    if code == 0 and "daemon" in str(row.get("conf")):
        while time.time() < until and "Done loading" not in log() and logs():
            time.sleep(0.05)
    end(process, top)
    errors, text = (top / "error").read_text(errors="replace"), log()
    if not started and code != 0:
        # Of a server that cannot start the reason is in the log alone.
        reasons = [line for line in text.splitlines() if re.search(r"\[(error|warning)\]", line) and UNUSUAL.search(line)]
        return {"verdict": "refused", "says": said(errors, top) + [line for line in said("\n".join(reasons), top) if line not in said(errors, top)]}
    lines = said("\n".join(line for line in (errors + text).splitlines() if re.search(r"Warning: |\[warning\]|^warning:|Section \[", line)), top)
    lines = [line for line in lines if not OTHERS.search(line)]
    found = {"verdict": "warned" if lines else "taken", "says": lines}
    directories = [file.parent for file in logs()]
    nets = ("regtest", "signet", "testnet3", "testnet4")
    if len(directories) == 1:
        found["dir"] = place(directories[0].parent if directories[0].name in nets else directories[0], top)
    return found


def broken(row):
    """Whether a row breaks the rule."""
    core, ffwd = row["core"]["verdict"], row["ffwd"]["verdict"]
    is_other_place = "dir" in row["core"] and "dir" in row["ffwd"] and row["core"]["dir"] != row["ffwd"]["dir"]
    return is_other_place or not (core == ffwd or (core, ffwd) == ("taken", "warned"))


def unknown(bitcoind):
    """Options of this bitcoind's help that ffwd's table does not have; it has those of a build with everything."""
    text = subprocess.run([bitcoind, "-help-debug"], capture_output=True, text=True, timeout=60).stdout
    known = {line for line in NAMES.read_text().splitlines() if not line.startswith("#")}
    return sorted(set(re.findall(r"^  -([a-z0-9-]+)", text, re.M)) - known)


def write(rows):
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    TABLE.write_text(f"[\n{lines}\n]\n")


def isolates():
    try:
        return subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0
    except OSError:
        return False


def play(row, top, ffwd, bitcoind, isolated):
    lay_out(row, top / "ffwd")
    got = {"ffwd": of_ffwd(ffwd, row, top / "ffwd")}
    if bitcoind:
        lay_out(row, top / "core")
        got["core"] = of_bitcoind(bitcoind, row, top / "core", isolated)
    shutil.rmtree(top, ignore_errors=True)
    return got


def main():
    read = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    read.add_argument("ffwd", type=pathlib.Path)
    read.add_argument("--only", default="", help="rows whose name has this word")
    read.add_argument("--record", action="store_true")
    given = read.parse_args()
    bitcoind, isolated, wrong = os.environ.get("BITCOIND_EXE"), isolates(), 0
    if not bitcoind:
        print("skipped: BITCOIND_EXE names no bitcoind, so its column of the table is taken as it is")
    elif missing := unknown(bitcoind):
        wrong += 1
        print(f"options of bitcoind that are not in {NAMES.name}: {missing}")
    rows = json.loads(TABLE.read_text())
    chosen = [row for row in rows if given.only in row["name"]]
    work = pathlib.Path(tempfile.mkdtemp(prefix="ffwd-configuration-"))
    try:
        with concurrent.futures.ThreadPoolExecutor(3 if isolated or not bitcoind else 1) as pool:
            jobs = [pool.submit(play, row, work / str(i), given.ffwd.resolve(), bitcoind, isolated) for i, row in enumerate(chosen)]
            for row, job in zip(chosen, jobs):
                for who, got in job.result().items():
                    if got != row.get(who) and not given.record:
                        wrong += 1
                        print(f"{row['name']}: {who} was {row.get(who)}\n    is {got}", flush=True)
                    row[who] = got if given.record else row.get(who, got)
                if "core" in row and broken(row) != ("differs" in row):
                    wrong += 1
                    print(f"{row['name']}: bitcoind {row['core']}\n    ffwd {row['ffwd']}\n    differs: {row.get('differs')}", flush=True)
        if given.record:
            write(rows)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{len(chosen)} rows, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The live page in a real Chromium, headless: it shows the height of a sync while that goes on, goes on by itself after a
restart of the server, fits a phone, tells a screen reader what matters, names no other host, and costs the server below a
hundredth of a processor.

    interop/page.py target/release/ffwd [DIR for pictures]

Without Chromium it says that it skips, and passes.
"""
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import chromium

SERVER_THREADS = ("ffwd-http", "ffwd-rpc", "ffwd-page")
HEIGHT = "Number(document.documentElement.dataset.height)"


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def check(what, holds, more=""):
    print("ok:" if holds else "FAILED:", what, more, flush=True)
    if not holds:
        sys.exit(1)


def ffwd(program, *arguments):
    """The last line of JSON that a command prints."""
    done = subprocess.run([program, *map(str, arguments), "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def start(program, datadir, at, peer, *more):
    arguments = ["sync", "--server", "--rpcport", at, "--datadir", datadir, "--chain", "regtest", "--connect", peer, "--par", 1, "--dbcache", 100, "--assumevalid", 0, *more]
    process = subprocess.Popen([program, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.time() + 60
    while time.time() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{at}/healthz", timeout=5).read()
            return process
        except OSError:
            time.sleep(0.1)
    check("the server answers", False, f"exit code {process.poll()}")


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def server_seconds(process):
    """Processor time of the server's threads."""
    ticks = 0
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        try:
            stat = (task / "stat").read_text()
        except OSError:
            continue
        name, rest = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
        if name.startswith(SERVER_THREADS):
            ticks += int(rest[11]) + int(rest[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def metric(at, name):
    text = urllib.request.urlopen(f"http://127.0.0.1:{at}/metrics", timeout=20).read().decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


def during_a_sync(program, pictures, datadir, made, peer, at):
    process = start(program, datadir, at, peer)
    browser = chromium.Chromium()
    try:
        browser.open(f"http://127.0.0.1:{at}/")
        check("the page shows a height", browser.wait(f"{HEIGHT} >= 0"))
        seen = []
        end = time.time() + 300
        while time.time() < end and (not seen or seen[-1][0] < made["height"]):
            low = metric(at, "ffwd_block_height")
            shown = browser.eval(HEIGHT)
            seen.append((shown, low))
            time.sleep(1)
        heights = [shown for shown, _ in seen]
        check("its height grows with the sync, to its end", heights == sorted(heights) and len(set(heights)) > 2 and heights[-1] == made["height"], f"{heights}")
        # A page is a second old at most, and what it shows another quarter.
        late = [(shown, low) for (shown, _), (_, low) in zip(seen[2:], seen)  if shown < low]
        check("what it shows is two seconds old at most", not late, f"{late}")
        check("it shows a peer and blocks", browser.eval("document.querySelectorAll('#peers tr').length") == 1 and browser.eval("document.querySelectorAll('#blocks tr').length") > 3)
        check("a screen reader hears what matters", "Height" in browser.eval("document.getElementById('spoken').textContent"))
        before, since = server_seconds(process), time.time()
        time.sleep(10)
        share = (server_seconds(process) - before) / (time.time() - since)
        check("the server takes below a hundredth of a processor with the page open", share < 0.01, f"{share * 100:.2f} %")
        tree = browser.call("Accessibility.getFullAXTree")["nodes"]
        roles = {node.get("role", {}).get("value") for node in tree}
        check("there are landmarks, headings and tables", {"main", "heading", "table", "progressbar"} <= roles, f"{sorted(r for r in roles if r)}")
        # The server goes and comes again: the page finds it by itself.
        stop(process)
        check("it says that the server is gone", browser.wait("document.getElementById('link').className == 'off'", 20))
        process = start(program, datadir, at, peer)
        check("it finds the server again", browser.wait("document.getElementById('link').className == ''", 30))
        check("with the right height", browser.wait(f"{HEIGHT} == {made['height']}", 30))
        for dark in (False, True):
            for width in (1280, 390):
                look = chromium.Chromium(width, 900, dark)
                try:
                    look.open(f"http://127.0.0.1:{at}/")
                    fits = look.wait(f"{HEIGHT} == {made['height']}") and look.eval("document.documentElement.scrollWidth <= innerWidth")
                    check(f"it fits {width} pixels, {'dark' if dark else 'light'}", fits)
                    if pictures:
                        time.sleep(2.5)
                        look.picture(str(pictures / f"page-{'dark' if dark else 'light'}-{width}.png"))
                finally:
                    look.close()
    finally:
        browser.close()
        stop(process)


def main():
    if not chromium.found():
        return print("skipped: no Chromium is installed")
    program = str(pathlib.Path(sys.argv[1]).resolve())
    pictures = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    home = tempfile.mkdtemp(prefix="ffwd-page-")
    server = None
    try:
        source, datadir = f"{home}/source", f"{home}/new"
        os.mkdir(datadir)
        made = ffwd(program, "lab", "chain", "--out", source, "--blocks", 160, "--seed", 21, "--utxos", 50000, "--tail", 5)
        ffwd(program, "reindex", "--datadir", source, "--chain", "regtest", "--assumevalid", made["bestblock"])
        at, rpc = port(), port()
        listen = [program, "sync", "--datadir", source, "--chain", "regtest", "--listen", f"127.0.0.1:{at}", "--connect", "0"]
        server = subprocess.Popen(listen, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(2)
        during_a_sync(program, pictures, datadir, made, f"127.0.0.1:{at}", rpc)
        print("all hold")
    finally:
        if server:
            stop(server)
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes the pictures of docs with a headless Chromium: the page of a sync in progress, and the beginning of a report of the lab.

    interop/pictures.py target/release/ffwd [DIR]

It writes page-light.png, page-dark.png, report-light.png and report-dark.png into DIR (default: docs). The program needs
`--features full`. Without Chromium it reports that, and writes nothing.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import chromium
import page

# Width and height in pixels: what README and docs show.
PAGE = (1180, 860)
REPORT = (1100, 1500)
PLAN = """
title = "One chain, two sizes of cache"
repeats = 2

[[chain]]
label = "150 full blocks"
make = ["--blocks", "150", "--seed", "1", "--utxos", "300000", "--tail", "2100"]

[[program]]
label = "ffwd"
kind = "ffwd"
path = "{program}"

[[settings]]
label = "cache 450"
dbcache_mib = 450
assumevalid = "tip"

[[settings]]
label = "cache 24"
dbcache_mib = 24
assumevalid = "tip"

[[work]]
kind = "rebuild"
"""


def shown(url, size, dark, ready):
    """A browser that shows URL."""
    browser = chromium.Chromium(*size, dark)
    browser.open(url)
    page.check(f"{url} is shown", browser.wait(ready, 60))
    return browser


def of_page(program, home, out):
    """The page, in light and dark, while one worker verifies every script."""
    source = f"{home}/source"
    made = page.ffwd(program, "lab", "chain", "--out", source, "--blocks", 40, "--seed", 21, "--utxos", 100000, "--tail", 5)
    page.ffwd(program, "reindex", "--datadir", source, "--chain", "regtest", "--assumevalid", made["bestblock"])
    peer, rpc = page.port(), page.port()
    listen = [program, "sync", "--datadir", source, "--chain", "regtest", "--listen", f"127.0.0.1:{peer}", "--connect", "0"]
    server = subprocess.Popen(listen, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    datadir = f"{home}/new"
    os.mkdir(datadir)
    syncing = page.start(program, datadir, rpc, f"127.0.0.1:{peer}")
    pages = []
    try:
        half = f"{page.HEIGHT} >= {made['height'] * 3 // 4}"
        pages = [(name, shown(f"http://127.0.0.1:{rpc}/", PAGE, name == "dark", f"{page.HEIGHT} >= 0")) for name in ("light", "dark")]
        for name, browser in pages:
            page.check("the sync goes on", browser.wait(half, 300))
            browser.picture(str(out / f"page-{name}.png"), whole=False)
    finally:
        for _, browser in pages:
            browser.close()
        page.stop(syncing)
        page.stop(server)


def of_report(program, home, out):
    """The report of a small plan, in light and dark."""
    plan = pathlib.Path(home) / "plan.toml"
    plan.write_text(PLAN.format(program=program))
    subprocess.run([program, "lab", "run", str(plan), "--out", f"{home}/report"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    report = pathlib.Path(home) / "report.html"
    subprocess.run([program, "lab", "plot", f"{home}/report", "--out", str(report)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name in ("light", "dark"):
        browser = shown(report.as_uri(), REPORT, name == "dark", "document.querySelectorAll('table').length > 1")
        browser.picture(str(out / f"report-{name}.png"), whole=False)
        browser.close()


def main():
    if not chromium.found():
        return print("skipped: no Chromium is installed")
    program = str(pathlib.Path(sys.argv[1]).resolve())
    docs = pathlib.Path(__file__).resolve().parent.parent / "docs"
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else docs
    home = tempfile.mkdtemp(prefix="ffwd-pictures-")
    try:
        of_report(program, home, out)
        of_page(program, home, out)
        print("page-light.png, page-dark.png, report-light.png and report-dark.png are written to", out)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()

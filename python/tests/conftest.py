"""What the tests need: Spark with a Java runtime, and for those of a real chain the program itself. They say what is missing."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install pyspark)")

FAKE = r'''#!/usr/bin/env python3
"""Stands for ffwd: says what the arguments were, and fails as files beside it tell it to."""
import json, os, pathlib, signal, sys
here = pathlib.Path("@HERE@")
args = sys.argv[1:]
value = lambda name: args[args.index(name) + 1] if name in args else None
what = args[1] if args[0] == "audit" else args[0]
def once(name):
    try:
        (here / name).unlink()
        return True
    except FileNotFoundError:
        return False
if what == "plan":
    n = int(value("--parts"))
    pathlib.Path(value("--out")).write_text("a plan")
    print(json.dumps({"height": 10 * n - 1, "bestblock": "b", "ranges": [[10 * i, 10 * i + 9, 5] for i in range(n)]}))
elif what == "part":
    salt = sys.stdin.read()
    assert pathlib.Path(value("--plan")).read_text() == "a plan"
    a, b = int(value("--from")), int(value("--to"))
    with open(here / "runs", "a") as f:
        f.write(f"{a}\n")
    if once(f"die{a}"):
        os.kill(os.getpid(), signal.SIGKILL)
    if once(f"fault{a}"):
        print(json.dumps({"ok": False, "from": a, "to": b, "kind": "fault", "why": "the disk is away"}))
        sys.exit(1)
    if (here / f"invalid{a}").exists():
        print(json.dumps({"ok": False, "from": a, "to": b, "kind": "invalid", "why": "bad-txns"}))
        sys.exit(1)
    print(json.dumps({"part": "blocks", "audit": salt[:4], "from": a, "to": b, "lie": once(f"lie{a}")}))
elif what == "coins":
    a, b = (value("--keys") or "0000-ffff").split("-")
    print(json.dumps({"part": "coins", "keys_from": int(a, 16), "keys_to": int(b, 16), "audit": sys.stdin.read()[:4]}))
elif what == "join":
    records = [json.loads(pathlib.Path(x).read_text()) for x in args[3:]]
    blocks = sorted(r["from"] for r in records if r["part"] == "blocks")
    print(json.dumps({"ok": True, "height": len(blocks) * 10 - 1, "bestblock": "b", "txouts": len(records) - len(blocks)}))
elif what == "export":
    a, b = int(value("--from")), int(value("--to"))
    assert pathlib.Path(value("--plan")).read_text() == "a plan"
    print(json.dumps({"from": a, "to": b, "blocks": b - a + 1, "transactions": 2, "inputs": 1, "outputs": 3, "files": 4, "bytes_in": 5, "bytes_out": 6}))
'''


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on two threads in which a task may fail three times."""
    if not shutil.which("java") and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java runtime: Spark cannot start")
    from pyspark.sql import SparkSession

    # Workers take the first python3 of the path otherwise, which has no fsspec.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a program that stands for ffwd, and files that tell it to fail."""
    path = tmp_path / f"ffwd-{tmp_path.name}"
    path.write_text(FAKE.replace("@HERE@", str(tmp_path)))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("FFWD", str(path))
    return tmp_path


@pytest.fixture(scope="session")
def ffwd() -> str:
    """The program itself."""
    found = os.environ.get("FFWD_PROGRAM") or shutil.which("ffwd")
    if not found:
        pytest.skip("there is no program ffwd: name it with $FFWD_PROGRAM")
    return found


@pytest.fixture(scope="session")
def chain(ffwd: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of regtest with a few thousand coins."""
    top = tmp_path_factory.mktemp("chain")
    made = [ffwd, "lab", "chain", "--out", str(top), "--blocks", "2", "--seed", "5", "--utxos", "2000", "--tail", "1"]
    subprocess.run(made, check=True, capture_output=True)
    subprocess.run([ffwd, "reindex", "--datadir", str(top), "--chain", "regtest", "--assumevalid", "0"], check=True, capture_output=True)
    return top


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, Any]]:
    """An object store of its own with an empty bucket: what fsspec is told of it."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    served = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    served.start()
    host, port = served.get_host_and_port()
    options = {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": f"http://{host}:{port}", "region_name": "us-east-1"}}
    import boto3

    client = {"aws_access_key_id": "k", "aws_secret_access_key": "s", **options["client_kwargs"]}
    boto3.client("s3", **client).create_bucket(Bucket="bucket")
    yield options
    served.stop()

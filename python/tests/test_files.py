"""Files of an object store, in pieces, and over the socket that ffwd reads from: beside a directory of the same files."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

from ffwd_spark import FfwdError, _files
from ffwd_spark._files import Store, filesystem, served, upload


@pytest.fixture
def memory() -> Any:
    """A file system in memory, empty."""
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]
    return fs


def test_files_are_read_in_pieces(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "PIECE_BYTES", 1000)
    rng = random.Random(5)
    bytes_ = rng.randbytes(123_457)
    memory.pipe("/chain/blocks/blk00000.dat", bytes_)
    store = Store(memory, "/chain")
    try:
        assert store.info("blocks") == (True, 0)
        assert store.info("blocks/blk00000.dat") == (False, len(bytes_))
        assert store.names("") == [(True, "blocks")]
        assert store.names("blocks") == [(False, "blk00000.dat")]
        for _ in range(300):
            start = rng.randrange(len(bytes_))
            count = rng.randrange(min(5000, len(bytes_) - start) + 1)
            assert store.read("blocks/blk00000.dat", start, count) == bytes_[start : start + count]
        assert len(store._pieces) <= _files.PIECES_MAX
        for start, count in ((-1, 1), (0, len(bytes_) + 1), (len(bytes_), 1)):
            with pytest.raises(ValueError):
                store.read("blocks/blk00000.dat", start, count)
        with pytest.raises(FileNotFoundError):
            store.info("nothing")
        with pytest.raises(ValueError):
            store.info("../other")
        # A file that was cut since is said, and asked for again.
        memory.pipe("/chain/blocks/blk00000.dat", bytes_[:100])
        store._pieces.clear()
        with pytest.raises(OSError, match="replaced or cut"):
            store.read("blocks/blk00000.dat", 50, 100)
        memory.pipe("/chain/blocks/blk00000.dat", bytes_)
        assert store.read("blocks/blk00000.dat", 50, 100) == bytes_[50:150]
    finally:
        store.close()


def test_a_store_is_audited_like_a_directory(memory: Any, ffwd: str, chain: Path, tmp_path: Path) -> None:
    memory.put(f"{chain}/regtest", "/there/regtest", recursive=True)
    salt = tmp_path / "salt"
    salt.write_text("5a" * 32)

    def run(*args: object) -> str:
        return subprocess.run([ffwd, *map(str, args), "--chain", "regtest"], check=True, capture_output=True, text=True).stdout

    local = ["--datadir", chain]
    with served("memory://there", {}) as (root, socket):
        there = ["--datadir", root, "--files", socket]
        plans = [json.loads(run("audit", "plan", "--parts", "2", "--json", *where)) for where in (local, there)]
        assert plans[0] == plans[1]
        (_, end, _), _ = plans[0]["ranges"]
        for what in (["part", "--from", "0", "--to", end], ["coins", "--keys", "0000-0fff"]):
            records = [run("audit", *what, "--salt", salt, *where) for where in (local, there)]
            assert records[0] == records[1]
        assert list(Path(root).iterdir()) == []
    gone = subprocess.run([ffwd, "audit", "plan", "--parts", "2", *there, "--chain", "regtest"], capture_output=True, text=True)
    assert gone.returncode == 1 and socket in gone.stderr


def test_files_are_put_into_a_store_once(memory: Any, tmp_path: Path) -> None:
    def made(name: str) -> None:
        path = tmp_path / "blocks" / "from_height=0001000" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)

    made("0001000-0001499.parquet")
    upload(str(tmp_path), "memory://out", {})
    assert not list(tmp_path.rglob("*.parquet"))
    made("0001000-0001499.parquet")
    made("0001500-0001999.parquet")
    upload(str(tmp_path), "memory://out", {})
    assert sorted(memory.find("/out")) == [f"/out/blocks/from_height=0001000/000{name}.parquet" for name in ("1000-0001499", "1500-0001999")]
    made("0001400-0001599.parquet")
    with pytest.raises(FfwdError, match="holds blocks of"):
        upload(str(tmp_path), "memory://out", {})


def test_a_store_of_an_unknown_kind_is_said() -> None:
    with pytest.raises(FfwdError, match="nostore"):
        filesystem("nostore://bucket/chain", {})

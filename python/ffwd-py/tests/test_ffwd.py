"""The module on a chain that bitcoind made: what it reads, what it does, what it refuses."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ffwd

CHAIN = Path(__file__).resolve().parents[3] / "crates/ffwd-engine/examples/chain/regtest_0_107.blk"
# What bitcoind says of the chain's UTXO set: gettxoutsetinfo.
BEST = "2539af599d8b5c64cde25f5f795c112d6dcd026b8d4b2a203080b721f324a26b"
HASH = "be8a56a52755a51d2a607ab1a23990223c5fa0cc4a9b8a814817039410fc35b9"
SPENDING = "1b1bb88eae14d4000d8322b163eb9076e6829e86578269965d8c16b950d6584b"
SPENT = "647ebf620ba234357707177d3def8e3a8dac4372ffb7b791f8b28fb3433be47a"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory of regtest with block files alone."""
    blocks = tmp_path / "regtest/blocks"
    blocks.mkdir(parents=True)
    shutil.copy(CHAIN, blocks / "blk00000.dat")
    return tmp_path


@pytest.fixture
def held(folder: Path) -> ffwd.DataDir:
    """The same with index, undo files and UTXO set."""
    opened = ffwd.DataDir.open(folder, "regtest")
    opened.reindex()
    return opened


def rows(table: Any) -> list[dict[str, Any]]:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    found: list[dict[str, Any]] = pyarrow.table(table).to_pylist()
    return found


def test_reindex_gives_the_set_that_core_has(folder: Path) -> None:
    opened = ffwd.DataDir.open(str(folder), "regtest", threads=2)
    assert (opened.path, opened.network) == (str(folder), "regtest")
    events: list[ffwd.Event] = []
    report = opened.reindex(on_event=events.append, verify_all_scripts=True, cache_bytes=16 << 20, indexes=["txindex"])
    assert (report.ended, report.reason, report.height, report.best_block) == ("complete", None, 107, BEST)
    assert (report.height_start, report.blocks, report.blocks_invalid) == (0, 107, 0)
    assert report.transactions >= 109 and report.bytes > 20_000 and report.seconds > 0
    last = [event for event in events if event.kind == "progress"][-1]
    assert (last.height, last.height_end) == (107, 107)
    assert last.bytes is not None and last.bytes > 20_000 and last.text and "progress" in repr(last)
    coins = opened.coins()
    assert (coins.hash_serialized_3, coins.height, coins.best_block) == (HASH, 107, BEST)
    assert (folder / "regtest/indexes/txindex").is_dir()


def test_coins_are_counted_and_found(held: ffwd.DataDir) -> None:
    coins = held.coins()
    info = coins.info()
    assert (info["txouts"], info["transactions"], info["bogosize"], info["total_amount"]) == (111, 107, 5846, 534_989_990_000)
    assert len(coins.muhash) == 64 and coins.muhash != coins.hash_serialized_3
    coin = coins.get(SPENT, 3)
    assert coin is not None and (coin["value"], coin["type"], coin["height"]) == (700_000_000, "witness_v1_taproot", 105)
    assert coins.get(SPENT, 1) is None
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        coins.get("x", 0)
    found = rows(coins)
    assert len(found) == 111
    assert sum(row["value"] for row in found) == info["total_amount"]
    (anchor,) = [row for row in found if row["type"] == "anchor"]
    assert (anchor["transaction_hash"].hex(), anchor["index"], anchor["script_hex"]) == (SPENT, 7, bytes.fromhex("51024e73"))


def test_blocks_are_arrow(held: ffwd.DataDir) -> None:
    for table in (held.blocks(0, 10), held.coins()):
        assert hasattr(table, "__arrow_c_stream__")
        assert "arrow_array_stream" in repr(table.__arrow_c_stream__())
        assert "arrow_schema" in repr(table.__arrow_c_schema__())
    assert "transaction_count" in repr(held.blocks(0, 10))
    table = held.blocks(0, 10)
    # Each reader gets all rows.
    for _ in range(2):
        assert [row["number"] for row in rows(table)] == list(range(10))
    blocks = rows(held.blocks())
    assert (len(blocks), blocks[107]["hash"].hex(), blocks[106]["transaction_count"]) == (108, BEST, 2)
    assert rows(held.blocks(5, 5)) == []


def test_inputs_have_what_they_spend(held: ffwd.DataDir) -> None:
    (spending,) = [tx for tx in rows(held.transactions(106, 107)) if not tx["is_coinbase"]]
    assert (spending["hash"].hex(), spending["fee"], spending["input_count"]) == (SPENDING, 10_000_000, 3)
    assert spending["input_value"] - spending["output_value"] == spending["fee"]
    inputs = rows(held.inputs(106))
    assert [(row["type"], row["value"], row["spent_block_number"]) for row in inputs] == [
        ("scripthash", 900_000_000, 105),
        ("witness_v0_scripthash", 800_000_000, 105),
        ("nonstandard", 5_000_000_000, 2),
    ]
    assert inputs[0]["spent_transaction_hash"].hex() == SPENT
    outputs = rows(held.outputs(105, 106))
    assert {row["type"] for row in outputs} >= {"pubkeyhash", "witness_v1_taproot", "multisig", "nulldata", "anchor"}


def test_pandas_reads_blocks(held: ffwd.DataDir) -> None:
    pandas = pytest.importorskip("pandas", minversion="3", reason="pandas 3 is not installed")
    frame = pandas.DataFrame.from_arrow(held.blocks(0, 100))
    assert len(frame) == 100 and frame["size"].sum() > 10_000 and str(frame["timestamp"].dtype).startswith("datetime64")


def test_verify_checks_the_last_blocks(held: ffwd.DataDir) -> None:
    report = held.verify()
    assert (report.blocks, report.level, report.height, report.best_block) == (6, 3, 107, BEST)
    report = held.verify(level=4, blocks=None, verify_all_scripts=True)
    assert (report.blocks, report.transactions) == (107, 109)


def test_errors_say_what_kind_they_are(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(ffwd.Error, match="none") as raised:
        ffwd.DataDir.open(empty / "none", "regtest")
    assert (raised.value.kind, raised.value.path, raised.value.errno) == ("missing", str(empty / "none"), None)
    with pytest.raises(ValueError, match="no network is called"):
        ffwd.DataDir.open(empty, "mainnet")  # type: ignore[arg-type]
    calls: list[Callable[[ffwd.DataDir], object]] = [ffwd.DataDir.coins, ffwd.DataDir.blocks, ffwd.DataDir.reindex]
    for call in calls:
        with pytest.raises(ffwd.Error) as raised:
            call(ffwd.DataDir.open(empty, "regtest"))
        assert raised.value.kind == "missing"
    (empty / "regtest").mkdir()
    os.symlink("blocks", empty / "regtest/blocks")
    with pytest.raises(ffwd.Error) as raised:
        ffwd.DataDir.open(empty, "regtest").reindex()
    assert raised.value.errno == errno.ELOOP
    opened = ffwd.DataDir.open(folder, "regtest")
    opened.reindex()
    with pytest.raises(ffwd.Error, match="ends at height 107"):
        opened.blocks(0, 1000)
    for options in ({"colour": 1}, {"stop_at_height": "x"}, {"indexes": 3}):
        with pytest.raises(TypeError, match=next(iter(options))):
            opened.reindex(**options)
    with pytest.raises(ValueError, match="no index is called"):
        opened.reindex(indexes=["tx"])  # type: ignore[list-item]
    with pytest.raises(OverflowError):
        opened.blocks(-1, 5)


def test_a_damaged_block_is_an_error_of_the_stream(held: ffwd.DataDir) -> None:
    path = Path(held.path) / "regtest/blocks/blk00000.dat"
    with open(path, "r+b") as file:
        file.seek(12_000)
        file.write(b"\xff" * 40)
    with pytest.raises(Exception, match="ffwd repair"):
        rows(held.blocks())


def test_what_a_callback_raises_stops_the_job(folder: Path) -> None:
    opened = ffwd.DataDir.open(folder, "regtest")

    def refuse(event: ffwd.Event) -> None:
        raise LookupError(event.kind)

    with pytest.raises(LookupError):
        opened.reindex(on_event=refuse)
    assert opened.reindex().height == 107


def test_an_interrupt_stops_a_job(held: ffwd.DataDir) -> None:
    assert threading.current_thread() is threading.main_thread()

    def interrupt(event: ffwd.Event) -> None:
        if event.kind == "ready":
            signal.raise_signal(signal.SIGINT)

    # A process that a shell starts in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            held.sync(connect=[], follow=True, on_event=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert held.coins().hash_serialized_3 == HASH
    with pytest.raises(ffwd.Error, match="without peers"):
        held.sync(connect=[])


def test_a_sync_refuses_what_is_no_peer(tmp_path: Path) -> None:
    empty = ffwd.DataDir.open(tmp_path, "regtest")
    with pytest.raises(ffwd.Error, match="no peer listens on port 0"):
        empty.sync(connect=["host:0"])
    with pytest.raises(ffwd.Error, match="minimum of 550 MiB"):
        empty.sync(add_nodes=["127.0.0.1"], dns_seeds=False, prune_to=1)


def test_scripts_are_verified(held: ffwd.DataDir) -> None:
    tx = bytes.fromhex(
        "01000000000101db6b1b20aa0fd7b23880be2ecbd4a98130974cf4748fb66092ac4d3ceb1a5477010000001716001479091972186c449eb1ded22b78e40d009bdf0089feffffff"
        "02b8b4eb0b000000001976a914a457b684d7f0d539a46a45bbc043f35b59d0d96388ac0008af2f000000001976a914fd270b1ee6abcaea97fea7ad0402e8bd8ad6d77c88ac"
        "02473044022047ac8e878352d3ebbde1c94ce3a10d057c24175747116f8288e5d794d12d482f0220217f36a485cae903c713331d877c1f64677e3622ad4010726870540656fe9d"
        "cb012103ad1d8e89212f0b92c74d23bb710c00662ad1470198ac48c43f7d6f93a2a2687392040000"
    )
    script = bytes.fromhex("a9144733f37cf4db86fbc2efed2500b4f4e49f31202387")
    ffwd.verify_script(tx, 0, [(1_000_000_000, script)])
    ffwd.verify_script(tx, 0, [(1_000_000_000, script)], flags="P2SH,WITNESS")
    with pytest.raises(ffwd.ScriptError, match="false/empty") as raised:
        ffwd.verify_script(tx, 0, [(1, script)])
    assert raised.value.name == "EVAL_FALSE"
    for arguments in ((tx[:-1], 0, [(1, script)]), (tx, 1, [(1, script)]), (tx, 0, [])):
        with pytest.raises(ffwd.ScriptError) as raised:
            ffwd.verify_script(*arguments)
        assert raised.value.name is None
    with pytest.raises(ffwd.ScriptError, match="names no flags"):
        ffwd.verify_script(tx, 0, [(1, script)], "STRICT")
    assert ffwd.script_type(script) == "scripthash"
    assert ffwd.script_type(b"") == "nonstandard"

"""What Spark does with tasks that fail, run twice, or find something; and a chain audited and exported for real."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ffwd_spark
from ffwd_spark import FfwdError, Range
from ffwd_spark._export import whole_thousands
from ffwd_spark._plan import local_path, source_of



def runs(fake: Path) -> list[int]:
    """Parts that were begun, by height."""
    return sorted(map(int, (fake / "runs").read_text().split()))


def test_a_good_audit_joins_all_parts(spark: Any, fake: Path) -> None:
    seen: list[tuple[int, int]] = []
    verdict = ffwd_spark.audit(spark, "/data", 7, chain="regtest", hash="muhash", progress=lambda a, b: seen.append((a, b)))
    assert (verdict.ok, verdict.height, verdict.txouts) == (True, 69, 4)
    assert runs(fake) == [0, 10, 20, 30, 40, 50, 60]
    assert seen[-1] == (11, 11)


def test_ranges_may_be_given(spark: Any, fake: Path) -> None:
    assert ffwd_spark.audit(spark, "file:///data", [(10, 19), (0, 9)], hash="hash_serialized_3").txouts == 1
    assert runs(fake) == [0, 10]


@pytest.mark.parametrize("accident", ["die20", "fault20"])
def test_a_worker_that_dies_or_fails_is_run_again(spark: Any, fake: Path, accident: str) -> None:
    (fake / accident).touch()
    assert ffwd_spark.audit(spark, "/data", 4).height == 39
    assert runs(fake) == [0, 10, 20, 20, 30]


def test_what_is_wrong_with_the_chain_is_a_verdict_and_not_tried_again(spark: Any, fake: Path) -> None:
    (fake / "invalid10").touch()
    (fake / "invalid30").touch()
    verdict = ffwd_spark.audit(spark, "/data", 4)
    assert (verdict.ok, verdict.ranges) == (False, (Range(10, 19), Range(30, 39)))
    assert "blocks 10 to 19: bad-txns" in verdict.why
    assert runs(fake) == [0, 10, 20, 30]


def test_copies_of_a_part_must_agree(spark: Any, fake: Path) -> None:
    assert ffwd_spark.audit(spark, "/data", 2, copies=2).height == 19
    assert runs(fake) == [0, 0, 10, 10]
    (fake / "lie10").touch()
    with pytest.raises(FfwdError, match="two workers disagree"):
        ffwd_spark.audit(spark, "/data", 2, copies=2)


def test_an_export_sums_its_tasks(spark: Any, fake: Path) -> None:
    report = ffwd_spark.export(spark, "/data", fake / "out", [(0, 999), (1000, 1499)], tables=["blocks"], chain="regtest")
    assert (report.blocks, report.outputs, report.files) == (1500, 6, 8)
    with pytest.raises(FfwdError, match="list of names"):
        ffwd_spark.export(spark, "/data", fake / "out", 1, tables="blocks")


def test_ranges_of_an_export_end_where_directories_do() -> None:
    cuts = [Range(0, 400), Range(401, 2500), Range(2501, 2600), Range(2601, 5000)]
    assert whole_thousands(cuts) == [Range(0, 1999), Range(2000, 5000)]
    assert whole_thousands([Range(1500, 1700), Range(1701, 3100)]) == [Range(1500, 3100)]
    assert whole_thousands([Range(7, 7)]) == [Range(7, 7)]


def test_a_source_is_a_path_or_a_url() -> None:
    assert [local_path(text) for text in ("/a b", "file:///a%20b", "rel", "s3://b/c")] == ["/a b", "/a b", "rel", None]
    assert [source_of(text, "main", (), None).storage for text in ("/a", "memory://a")] == [None, {}]
    with pytest.raises(FfwdError, match="another machine"):
        local_path("file://elsewhere/chain")


def test_no_program_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ffwd_spark._binary import local_binary

    monkeypatch.delenv("FFWD", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FfwdError, match="no program ffwd"):
        local_binary(None)
    with pytest.raises(FfwdError, match="is no program"):
        local_binary(tmp_path)


def test_a_chain_is_audited_and_exported(spark: Any, ffwd: str, chain: Path, tmp_path: Path) -> None:
    said = subprocess.run([ffwd, "coins", "info", "--datadir", chain, "--chain", "regtest", "--hash", "muhash", "--json"], check=True, capture_output=True, text=True)
    want = json.loads(said.stdout)
    verdict = ffwd_spark.audit(spark, chain, 5, chain="regtest", hash="muhash", binary=ffwd)
    assert (verdict.ok, verdict.why) == (True, "")
    assert (verdict.muhash, verdict.bestblock, verdict.height, verdict.txouts) == (want["muhash"], want["bestblock"], want["height"], want["txouts"])
    report = ffwd_spark.export(spark, chain, tmp_path / "tables", 3, chain="regtest", binary=ffwd)
    assert report.blocks == want["height"] + 1
    again = ffwd_spark.export(spark, chain, tmp_path / "tables", 3, chain="regtest", binary=ffwd)
    assert again == report
    tables = {name: spark.read.parquet(f"{tmp_path}/tables/{name}") for name in ("blocks", "transactions", "inputs", "outputs")}
    assert [tables[name].count() for name in tables] == [report.blocks, report.transactions, report.inputs, report.outputs]
    made, spent = (tables[name].agg({"value": "sum"}).first()[0] for name in ("outputs", "inputs"))
    assert made > spent > 0


def test_blocks_are_a_dataframe(spark: Any, chain: Path) -> None:
    pytest.importorskip("ffwd", reason="the module ffwd is not installed (pip install ./python/ffwd-py)")
    blocks = ffwd_spark.table(spark, chain, "blocks", 3, chain="regtest").orderBy("number").collect()
    assert [row["number"] for row in blocks] == list(range(len(blocks)))
    assert len(blocks[-1]["hash"]) == 32 and blocks[-1]["timestamp"].year >= 2009
    inputs = ffwd_spark.table(spark, chain, "inputs", [(0, len(blocks) - 1)], chain="regtest")
    outputs = ffwd_spark.table(spark, chain, "outputs", 4, chain="regtest")
    made, spent = (frame.agg({"value": "sum"}).first()[0] for frame in (outputs, inputs))
    assert made > spent > 0 and inputs.filter("length(spent_transaction_hash) = 32").count() == inputs.count()
    few = ffwd_spark.table(spark, chain, "transactions", 2, chain="regtest", first=1, last=2)
    assert {row["block_number"] for row in few.collect()} == {1, 2}
    for wrong in ({"name": "coins"}, {"ranges": 0}, {"first": 5, "last": 4}):
        with pytest.raises(FfwdError):
            ffwd_spark.table(spark, chain, chain="regtest", **wrong)
    with pytest.raises(FfwdError, match="object stores"):
        ffwd_spark.table(spark, "s3://bucket/chain")


def test_a_chain_in_an_object_store_is_audited_and_exported(spark: Any, ffwd: str, chain: Path, s3: dict[str, Any]) -> None:
    import fsspec

    store = fsspec.filesystem("s3", **s3)
    store.put(f"{chain}/regtest", "bucket/chain/regtest", recursive=True)
    want = ffwd_spark.audit(spark, chain, 3, chain="regtest", hash="muhash", binary=ffwd)
    found = ffwd_spark.audit(spark, "s3://bucket/chain", 3, chain="regtest", hash="muhash", coin_parts=2, binary=ffwd, storage_options=s3)
    assert (found.ok, found.why) == (True, "")
    assert (found.muhash, found.bestblock, found.txouts) == (want.muhash, want.bestblock, want.txouts)
    for _ in range(2):
        report = ffwd_spark.export(spark, "s3://bucket/chain", "s3://bucket/tables", 3, chain="regtest", binary=ffwd, storage_options=s3)
    assert report.blocks == found.height + 1
    import pyarrow.parquet as pq

    store.invalidate_cache()
    names = [name for name in store.find("bucket/tables") if "/outputs/" in name]
    assert sum(pq.read_table(store.open(name)).num_rows for name in names) == report.outputs
    with pytest.raises(Exception, match="holds blocks of"):
        ffwd_spark.export(spark, "s3://bucket/chain", "s3://bucket/tables", [(5, 17)], chain="regtest", binary=ffwd, storage_options=s3)
    with pytest.raises(FfwdError, match="nothing"):
        ffwd_spark.audit(spark, "s3://bucket/elsewhere", 3, chain="regtest", binary=ffwd, storage_options=s3)

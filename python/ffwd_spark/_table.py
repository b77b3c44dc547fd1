"""Blocks of a chain as a DataFrame: workers read them with the Python module ``ffwd``, and no file is written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from ._binary import FfwdError
from ._plan import local_path

try:
    import ffwd
except ImportError:  # Audits and exports need the program alone.
    ffwd = None  # type: ignore[assignment]

#: What a table may be of.
Table = Literal["blocks", "transactions", "inputs", "outputs"]
Chain = Literal["main", "test", "testnet4", "signet", "regtest"]


def table(
    spark: SparkSession,
    source: str | os.PathLike[str],
    name: Table = "blocks",
    ranges: int | Iterable[tuple[int, int]] = 64,
    *,
    chain: Chain = "main",
    first: int = 0,
    last: int | None = None,
) -> DataFrame:
    """Blocks, transactions, inputs with what they spend, or outputs, as a DataFrame that is read when it is used.

    ``source`` is a data directory at a path that every worker sees; no program may be at work in it. ``ranges`` is a number
    of ranges of heights, or the ranges, first and last block included: a task reads one. Every worker's Python needs the
    module ``ffwd`` (``pip install ./python/ffwd-py``), pyarrow and pandas.
    """
    if ffwd is None:
        raise FfwdError("tables need the Python module ffwd: pip install ./python/ffwd-py, on every worker too")
    from pyspark.sql.pandas.types import from_arrow_schema

    path = local_path(source)
    if path is None:
        raise FfwdError(f"{os.fspath(source)}: tables are read from a path that every worker sees; export reads object stores")
    if isinstance(ranges, int):
        end = ffwd.DataDir.open(path, chain).coins().height if last is None else last
        cuts = _even(first, end, ranges)
    else:
        cuts = sorted((int(a), int(b)) for a, b in ranges)
    frame = spark.createDataFrame([(at, *cut) for at, cut in enumerate(cuts)], "at int, first long, last long")
    # One task a range: their order is that of the first column.
    tasks = frame.repartitionByRange(max(1, len(cuts)), "at")
    schema = _schema(path, chain, name)
    return tasks.mapInArrow(_reader(path, chain, name, schema), from_arrow_schema(schema))


def _even(first: int, last: int, count: int) -> list[tuple[int, int]]:
    """``count`` ranges of about as many blocks each."""
    if count < 1:
        raise FfwdError(f"ranges={count}: wanted one or more")
    blocks = last - first + 1
    if blocks < 1:
        raise FfwdError(f"blocks {first} to {last}: there is none")
    count = min(count, blocks)
    ends = [first + blocks * part // count for part in range(count + 1)]
    return [(ends[part], ends[part + 1] - 1) for part in range(count)]


def _rows(path: str, chain: Chain, name: Table, start: int, stop: int) -> Any:
    opened = ffwd.DataDir.open(path, chain)
    read = {"blocks": opened.blocks, "transactions": opened.transactions, "inputs": opened.inputs, "outputs": opened.outputs}
    if name not in read:
        raise FfwdError(f"no table is called {name!r}: {', '.join(read)}")
    return read[name](start, stop)


def _schema(path: str, chain: Chain, name: Table) -> Any:
    """The columns as Spark knows them: bytes of any length, times in microseconds."""
    import pyarrow

    def known(field: Any) -> Any:
        if pyarrow.types.is_fixed_size_binary(field.type):
            return field.with_type(pyarrow.binary())
        if pyarrow.types.is_timestamp(field.type):
            return field.with_type(pyarrow.timestamp("us", field.type.tz))
        return field

    return pyarrow.schema([known(field) for field in pyarrow.schema(_rows(path, chain, name, 0, 0))])


def _reader(path: str, chain: Chain, name: Table, schema: Any) -> Any:
    """What a task does: it is given its ranges, and gives rows with the columns of ``schema``."""

    # Workers have no ffwd_spark: what they are given is pickled whole, and names nothing of it.
    def read(batches: Iterator[Any]) -> Iterator[Any]:
        import ffwd
        import pyarrow

        opened = ffwd.DataDir.open(path, chain)
        for cut in (row for batch in batches for row in batch.to_pylist()):
            rows = getattr(opened, name)(cut["first"], cut["last"] + 1)
            for batch in pyarrow.RecordBatchReader.from_stream(rows):
                columns = [column.cast(field.type) for column, field in zip(batch.columns, schema)]
                yield pyarrow.RecordBatch.from_arrays(columns, names=schema.names)

    return read

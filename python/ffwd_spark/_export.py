"""A chain exported to Parquet: ranges of whole thousands of blocks as tasks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from ._binary import FfwdError, checked, local_binary, ship, ship_package, shipped
from ._plan import Range, directory, options, ranges_of
from ._progress import Progress, told

#: Blocks of a directory of a table: ranges end where these do, so that none is two tasks'.
PARTITION_BLOCKS = 1000


@dataclass(frozen=True)
class ExportReport:
    """Rows and bytes of an export."""

    blocks: int
    transactions: int
    inputs: int
    outputs: int
    files: int
    bytes_in: int
    bytes_out: int


def export(
    spark: SparkSession,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    ranges: int | Iterable[tuple[int, int]] = 64,
    *,
    chain: str = "main",
    first: int = 0,
    last: int | None = None,
    tables: Iterable[str] = (),
    columns: Iterable[str] = (),
    nested: bool = False,
    binary: str | os.PathLike[str] | None = None,
    args: Iterable[str] = (),
    progress: Progress | None = None,
) -> ExportReport:
    """Exports blocks, transactions, inputs and outputs to Parquet files in ``target``, a directory a table.

    ``source`` and ``target`` are directories at paths that every worker sees. ``ranges`` is a number of ranges, cut by
    bytes and then to whole thousands of blocks, or the ranges. The rest is as ``ffwd help export`` has it.
    """
    program = local_binary(binary)
    common = options(directory(source, "a source"), chain, args)
    out = os.path.abspath(directory(target, "a target"))
    cuts = ranges_of(program, common, ranges, first, last)
    if isinstance(ranges, int):
        cuts = whole_thousands(cuts)
    chosen = [*_list("--tables", tables), *_list("--columns", columns), *(["--nested"] if nested else [])]
    context = spark.sparkContext
    ship_package(context)
    name = ship(context, program)

    def work(some: Iterable[Range]) -> Iterable[dict[str, Any]]:
        for cut in some:
            place = ("--from", cut.first, "--to", cut.last, "--out", out)
            yield checked(shipped(name), "export", *place, *chosen, *common)

    with told(context, f"ffwd export of {len(cuts)} ranges", len(cuts), progress):
        done = context.parallelize(cuts, len(cuts)).mapPartitions(work).collect()
    names = ExportReport.__dataclass_fields__
    return ExportReport(**{name: sum(int(one[name]) for one in done) for name in names})


def _list(option: str, names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise FfwdError(f"{option}: wanted a list of names, not the text {names!r}")
    joined = ",".join(names)
    return [option, joined] if joined else []


def whole_thousands(cuts: list[Range]) -> list[Range]:
    """The same blocks, cut where a directory of files begins: fewer ranges where those are short."""
    starts = {cut.first - cut.first % PARTITION_BLOCKS for cut in cuts[1:]}
    first, last = cuts[0].first, cuts[-1].last
    firsts = [first, *sorted(start for start in starts if start > first)]
    return [Range(a, b - 1) for a, b in zip(firsts, [*firsts[1:], last + 1])]

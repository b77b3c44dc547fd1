"""A chain exported to Parquet: ranges of whole thousands of blocks as tasks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from ._binary import FfwdError, checked, local_binary, ship, ship_package, shipped, shipped_file
from ._files import upload
from ._plan import Range, Source, local_path, planned, source_of
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
    storage_options: Mapping[str, Any] | None = None,
    binary: str | os.PathLike[str] | None = None,
    args: Iterable[str] = (),
    progress: Progress | None = None,
) -> ExportReport:
    """Exports blocks, transactions, inputs and outputs to Parquet files in ``target``, a directory a table.

    ``source`` and ``target`` are directories at paths that every worker sees, or URLs that fsspec reads and writes, with
    ``storage_options`` for them. For a URL a task writes its files to a directory of its own first. ``ranges`` is a number
    of ranges, cut by bytes and then to whole thousands of blocks, or the ranges. The rest is as ``ffwd help export`` has it.
    """
    program = local_binary(binary)
    place = source_of(source, chain, args, storage_options)
    out = local_path(target)
    to = (os.fspath(target) if out is None else os.path.abspath(out), None if out is not None else dict(storage_options or {}))
    chosen = (*_list("--tables", tables), *_list("--columns", columns), *(["--nested"] if nested else []))
    context = spark.sparkContext
    ship_package(context)
    name = ship(context, program)
    with planned(context, program, place, ranges, first, last) as (cuts, plan):
        if isinstance(ranges, int):
            cuts = whole_thousands(cuts)

        def work(some: Iterable[Range]) -> Iterable[dict[str, Any]]:
            for cut in some:
                yield _task(name, plan, place, cut, chosen, to)

        with told(context, f"ffwd export of {len(cuts)} ranges", len(cuts), progress):
            done = context.parallelize(cuts, len(cuts)).mapPartitions(work).collect()
    names = ExportReport.__dataclass_fields__
    return ExportReport(**{name: sum(int(one[name]) for one in done) for name in names})


def _task(
    name: str, plan: str, source: Source, cut: Range, chosen: tuple[str, ...], target: tuple[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
    """One range, on a worker."""
    place, storage = target
    with source.options() as options, tempfile.TemporaryDirectory(prefix="ffwd-export-") as top:
        out = place if storage is None else top
        ends = ("--from", cut.first, "--to", cut.last, "--plan", shipped_file(plan), "--out", out, "--force")
        found = checked(shipped(name), "export", *ends, *chosen, *options)
        if storage is not None:
            upload(top, place, storage)
        return found


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

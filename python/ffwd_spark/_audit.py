"""The whole chain audited: parts as tasks, their records joined to one verdict."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ._binary import FfwdError, local_binary, run, ship, ship_package, shipped, shipped_file
from ._plan import Range, Source, planned, source_of
from ._progress import Progress, told

#: Parts of the UTXO set for MuHash.
COIN_PARTS = 4
#: The same where its tables come from an object store: a task holds those of its part in memory.
STORE_COIN_PARTS = 64


@dataclass(frozen=True)
class Finding:
    """Why a part has no record: what is wrong with a range. Another try finds the same."""

    first: int
    last: int
    why: str

    def __str__(self) -> str:
        return f"blocks {self.first} to {self.last}: {self.why}"


@dataclass(frozen=True)
class Verdict:
    """What an audit says. Where ``ok`` is false, ``why`` names the ranges that are meant."""

    ok: bool
    why: str = ""
    chain: str = ""
    height: int = -1
    bestblock: str = ""
    chainwork: str = ""
    transactions: int = 0
    inputs: int = 0
    outputs: int = 0
    fees: int = 0
    txouts: int = 0
    muhash: str | None = None
    hash_serialized_3: str | None = None
    ranges: tuple[Range, ...] = field(default=(), compare=False)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class _Task:
    """One run of the program: which part it is, and what it is told."""

    what: tuple[str, ...]
    place: Range | None


def audit(
    spark: SparkSession,
    source: str | os.PathLike[str],
    ranges: int | Iterable[tuple[int, int]] = 64,
    *,
    chain: str = "main",
    hash: str | None = None,
    binary: str | os.PathLike[str] | None = None,
    salt: str | None = None,
    copies: int = 1,
    coin_parts: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    args: Iterable[str] = (),
    progress: Progress | None = None,
) -> Verdict:
    """Audits the chain of a data directory, all scripts run.

    ``source`` is a data directory: at a path that every worker sees, or a URL that fsspec reads, such as ``s3://bucket/bitcoin``,
    with ``storage_options`` for it; no program may write to it meanwhile. ``ranges`` is a number of ranges, cut by bytes, or
    the ranges. ``hash`` is ``muhash`` or ``hash_serialized_3``: of the UTXO set.
    ``salt`` is the audit's secret, 64 hexadecimal digits: a new one by default, and told to the workers alone.
    ``coin_parts`` is the number of parts of the UTXO set, a few by default, more from an object store.
    With ``copies`` each part runs that number of times, and all its records must be the same: for workers that are not trusted.
    ``args`` are more options of ffwd, ``progress`` is called with the number of tasks done and their count.
    """
    program = local_binary(binary)
    place = source_of(source, chain, args, storage_options)
    secret = salt or secrets.token_hex(32)
    context = spark.sparkContext
    ship_package(context)
    name = ship(context, program)
    with planned(context, program, place, ranges) as (cuts, plan):
        coins = _coin_tasks(hash, coin_parts or (COIN_PARTS if place.storage is None else STORE_COIN_PARTS))
        tasks = [task for task in [*coins, *(_block_task(cut) for cut in cuts)] for _ in range(copies)]

        def work(some: Iterable[_Task]) -> Iterable[list[dict[str, Any]]]:
            for task in some:
                yield [_part(name, plan, task, place, secret)]

        with told(context, f"ffwd audit of {len(cuts)} ranges", len(tasks), progress):
            found = context.parallelize(tasks, len(tasks)).mapPartitions(work).treeReduce(lambda a, b: a + b)
    findings = [Finding(one["from"], one["to"], one["why"]) for one in found if one.get("ok") is False]
    if findings:
        findings = sorted(set(findings), key=lambda one: (one.first, one.last))
        why = "; ".join(map(str, findings))
        return Verdict(False, why, chain, ranges=tuple(Range(one.first, one.last) for one in findings), findings=tuple(findings))
    return _join(program, _agreed([one["record"] for one in found], copies))


def _block_task(cut: Range) -> _Task:
    return _Task(("part", "--from", str(cut.first), "--to", str(cut.last)), cut)


def _coin_tasks(hash: str | None, parts: int) -> list[_Task]:
    """The UTXO set: one task for a hash in order, else a few by keys."""
    if hash == "hash_serialized_3":
        return [_Task(("coins", "--hash", hash), None)]
    more = ("--hash", hash) if hash else ()
    ends = [0x10000 * n // parts for n in range(parts + 1)]
    return [_Task(("coins", "--keys", f"{a:04x}-{b - 1:04x}", *more), None) for a, b in zip(ends, ends[1:])]


def _part(name: str, plan: str, task: _Task, source: Source, secret: str) -> dict[str, Any]:
    """One part, on a worker: its record, or what was found. What another try may mend is raised."""
    of_plan = ("--plan", shipped_file(plan)) if task.place is not None else ()
    with source.options() as options:
        code, found, said = run(shipped(name), "audit", *task.what, *of_plan, "--salt", "-", *options, stdin=secret)
    if code == 0 and found is not None:
        return {"record": found}
    if found is not None and found.get("kind") == "invalid":
        return found
    if task.place is None and code == 1 and found is None:
        # What is wrong with the coins is no range's.
        return {"ok": False, "from": -1, "to": -1, "why": said}
    raise FfwdError(said or f"ffwd ended with {code} and said nothing")


def _agreed(records: list[dict[str, Any]], copies: int) -> list[dict[str, Any]]:
    """Each part once; all its copies must be equal."""
    parts: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        place = tuple(record.get(key) for key in ("part", "from", "to", "keys_from", "keys_to"))
        if parts.setdefault(place, record) != record:
            raise FfwdError(f"two workers disagree about {record['part']} {place[1:]}")
    if len(parts) * copies != len(records):
        raise FfwdError(f"{len(records)} records of {len(parts)} parts, wanted {copies} of each")
    return list(parts.values())


def _join(program: Path, records: list[dict[str, Any]]) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="ffwd-audit-") as top:
        paths = []
        for at, record in enumerate(records):
            paths.append(Path(top) / f"part{at}")
            paths[-1].write_text(json.dumps(record, separators=(",", ":")))
        code, found, said = run(program, "audit", "join", "--json", *paths)
    if found is None:
        raise FfwdError(said or f"ffwd ended with {code} and said nothing")
    if found.get("ok") is not True:
        return Verdict(False, str(found.get("why")), ranges=tuple(Range(a, b) for a, b in found.get("ranges", [])))
    known = {name: found[name] for name in Verdict.__dataclass_fields__ if name in found and name != "ranges"}
    return Verdict(**known)

"""Where the chain is cut, and what every command on it is told."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from pyspark import SparkContext

from ._binary import FfwdError, checked, ship
from ._files import served


class Range(NamedTuple):
    """Blocks from one height to another, both included."""

    first: int
    last: int


@dataclass(frozen=True)
class Source:
    """A data directory, and what every command on it is told: a path that workers see, or a URL that fsspec reads."""

    place: str
    common: tuple[str, ...]
    storage: Mapping[str, Any] | None = None

    @contextmanager
    def options(self) -> Iterator[list[str]]:
        """The options of a command, which runs inside."""
        if self.storage is None:
            yield ["--datadir", self.place, *self.common]
            return
        with served(self.place, self.storage) as (root, files):
            yield ["--datadir", root, "--files", files, *self.common]


def local_path(place: str | os.PathLike[str]) -> str | None:
    """The path that a path or a file: URL names; None for another URL."""
    text = os.fspath(place)
    parts = urlsplit(text)
    if parts.scheme != "file":
        return None if "://" in text else text
    if parts.netloc not in ("", "localhost"):
        raise FfwdError(f"{text}: a file: URL of another machine")
    return unquote(parts.path)


def source_of(place: str | os.PathLike[str], chain: str, more: Iterable[str], storage: Mapping[str, Any] | None) -> Source:
    """The source that a user named."""
    common = ("--chain", chain, *more, "--json")
    path = local_path(place)
    return Source(path, common) if path is not None else Source(os.fspath(place), common, dict(storage or {}))


@contextmanager
def planned(
    context: SparkContext, program: Path, source: Source, ranges: int | Iterable[tuple[int, int]], first: int = 0, last: int | None = None
) -> Iterator[tuple[list[Range], str]]:
    """The ranges that were given, or as many as were asked for, of about as many bytes each; and the name by which workers
    find the plan, of which each task reads its part in place of the block index."""
    given = None if isinstance(ranges, int) else sorted(Range(int(a), int(b)) for a, b in ranges)
    parts = ranges if isinstance(ranges, int) else 1
    if parts < 1:
        raise FfwdError(f"ranges={ranges}: wanted one or more")
    end = [] if last is None else ["--to", str(last)]
    with tempfile.TemporaryDirectory(prefix="ffwd-plan-") as top:
        path = Path(top) / f"ffwd-plan-{uuid4()}"
        with source.options() as options:
            plan = checked(program, "audit", "plan", "--parts", parts, "--from", first, *end, "--out", path, *options)
        cuts = given or [Range(int(a), int(b)) for a, b, _ in plan["ranges"]]
        yield cuts, ship(context, path)

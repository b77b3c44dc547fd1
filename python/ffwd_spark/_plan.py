"""Where the chain is cut, and what every command on it is told."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ._binary import FfwdError, checked


class Range(NamedTuple):
    """Blocks from one height to another, both included."""

    first: int
    last: int


def directory(source: str | os.PathLike[str], what: str) -> str:
    """A path that workers open: a directory, or a file: URL of one."""
    text = os.fspath(source)
    parts = urlsplit(text)
    if parts.scheme in ("", "file") and parts.netloc in ("", "localhost"):
        return unquote(parts.path) if parts.scheme else text
    raise FfwdError(f"{text}: {what} is a path that every worker sees; mount an object store to use one (docs/cluster.md)")


def options(source: str, chain: str, more: Iterable[str]) -> list[str]:
    """What every command on a data directory is told."""
    return ["--datadir", source, "--chain", chain, *more, "--json"]


def ranges_of(program: Path, common: list[str], ranges: int | Iterable[tuple[int, int]], first: int = 0, last: int | None = None) -> list[Range]:
    """The ranges that were given, or as many as were asked for, of about as many bytes each."""
    if not isinstance(ranges, int):
        return sorted(Range(int(a), int(b)) for a, b in ranges)
    if ranges < 1:
        raise FfwdError(f"ranges={ranges}: wanted one or more")
    end = [] if last is None else ["--to", str(last)]
    plan = checked(program, "audit", "plan", "--parts", ranges, "--from", first, *end, *common)
    return [Range(int(a), int(b)) for a, b, _ in plan["ranges"]]

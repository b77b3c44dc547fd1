"""The program: found on the driver, shipped to the workers, run there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext, SparkFiles

# Applications that have this package: Spark takes a file of one name once.
_shipped: set[str] = set()


class FfwdError(RuntimeError):
    """The program could not be run, or a run of it failed. A task that raises it is tried again by Spark."""


def local_binary(binary: str | os.PathLike[str] | None) -> Path:
    """The program on this machine: the path given, ``$FFWD``, or ``ffwd`` of the path."""
    given = binary or os.environ.get("FFWD") or shutil.which("ffwd")
    if not given:
        raise FfwdError("no program ffwd: name it with binary=, $FFWD or on the PATH")
    path = Path(given).resolve()
    if not path.is_file():
        raise FfwdError(f"{path} is no program")
    return path


def ship(context: SparkContext, path: Path) -> str:
    """Gives the program to all workers; says by which name they find it."""
    context.addFile(str(path))
    return path.name


def shipped_file(name: str) -> Path:
    """What was given to all workers, on one of them."""
    return Path(SparkFiles.get(name))


def shipped(name: str) -> Path:
    """The program on a worker."""
    path = shipped_file(name)
    if not os.access(path, os.X_OK):
        path.chmod(0o755)
    return path


def run(program: Path, *args: object, stdin: str | None = None) -> tuple[int, dict[str, Any] | None, str]:
    """Runs the program: its exit code, the JSON object it printed, and the end of what it said besides.

    A run that a signal ended, or that printed nothing and did not say why, is a failure of the machine: FfwdError.
    """
    argv = [str(program), *map(str, args)]
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    except OSError as why:
        raise FfwdError(f"{program}: {why}") from why
    if done.returncode < 0:
        raise FfwdError(f"{program} was ended by signal {-done.returncode}")
    lines = done.stdout.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        found = None
    said = done.stderr.strip()[-2000:]
    if done.returncode == 2:
        raise FfwdError(f"wrong use of {program}: {said}")
    return done.returncode, found if isinstance(found, dict) else None, said


def checked(program: Path, *args: object, stdin: str | None = None) -> dict[str, Any]:
    """The same where nothing but success will do."""
    code, found, said = run(program, *args, stdin=stdin)
    if code != 0 or found is None:
        raise FfwdError(said or f"{program} ended with {code} and said nothing")
    return found


def ship_package(context: SparkContext) -> None:
    """Gives this package to all workers, whose Python need not have it: not even that of this machine's, which may be another."""
    application = str(context.applicationId)
    if application in _shipped:
        return
    package = Path(__file__).resolve().parent
    top = tempfile.mkdtemp(prefix="ffwd-spark-")
    archive = shutil.make_archive(os.path.join(top, package.name), "zip", package.parent, package.name)
    context.addPyFile(archive)
    _shipped.add(application)

"""Reads, rebuilds, verifies and downloads the data directories of Bitcoin Core."""

from ._ffwd import (
    ArrowTable,
    Coins,
    DataDir,
    Error,
    Event,
    JobReport,
    ScriptError,
    VerifyReport,
    script_type,
    verify_script,
)

__all__ = [
    "ArrowTable",
    "Coins",
    "DataDir",
    "Error",
    "Event",
    "JobReport",
    "ScriptError",
    "VerifyReport",
    "script_type",
    "verify_script",
]

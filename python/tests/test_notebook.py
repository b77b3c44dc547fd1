"""The notebook as a script, on an export of a made chain: each question has an answer."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

for package in ("marimo", "duckdb", "altair", "pyarrow"):
    pytest.importorskip(package, reason=f"{package} is not installed")

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "questions.py"


def test_three_questions_are_answered(ffwd: str, chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "tables"
    made = [ffwd, "export", "--datadir", str(chain), "--chain", "regtest", "--out", str(out)]
    subprocess.run(made, check=True, capture_output=True)
    monkeypatch.setenv("FFWD_EXPORT", str(out))
    monkeypatch.setattr(sys, "argv", [str(NOTEBOOK)])
    app = runpy.run_path(str(NOTEBOOK), run_name="notebook")["app"]
    _, found = app.run()
    fees, types, ages = (found[name].to_pylist() for name in ("fees_by_day", "types_over_time", "ages_of_spent"))
    assert sum(row["fees"] for row in fees) > 0
    assert {"pubkeyhash", "witness_v0_keyhash"} <= {row["type"] for row in types}
    assert sum(row["coins"] for row in ages) > 1000
    assert all(row["youngest"] + 1 >= 2 ** row["power"] for row in ages)

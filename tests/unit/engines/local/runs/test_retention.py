from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.runs.retention import FinishedRun, expired, removal_text
from pumice.engines.local.runs.run_record import RunRecord
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.state.settings import Retention

NOW = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


def finished(number: int, days: float, name: str = "a", size: int = 1, *, completed: bool = True) -> FinishedRun:
    record: Any = RunRecord(
        uid=f"{name}{number}", namespace="d", name=name, number=number, host="", boot="", created=NOW, job={}
    )
    moment = NOW - dt.timedelta(days=days)
    return FinishedRun(StoredRun(Path(), record), ("d", name), number, moment, completed, size)


@pytest.mark.parametrize(
    ("retention", "gone"),
    [
        pytest.param(Retention(), [], id="nothing"),
        pytest.param(Retention(keep_days=5), ["a:1"], id="age"),
        pytest.param(Retention(keep_per_name=1), ["a:1", "a:3"], id="number"),
        pytest.param(Retention(max_size=3), ["a:1"], id="size"),
        pytest.param(Retention(max_size=2), ["a:1", "b:1"], id="size: completed ones first"),
    ],
)
def test_which_runs_are_removed(retention: Retention, gone: list[str]) -> None:
    runs = [finished(1, 9), finished(2, 4, completed=False), finished(3, 1), finished(1, 2, "b")]
    assert [each.run.ref for each in expired(runs, retention, NOW)] == gone


def test_the_line_that_says_so() -> None:
    assert removal_text(["a:1"]) == "removed 1 old run: a:1; [runs] in config.toml says how many are kept"
    assert removal_text(list("abcde")).startswith("removed 5 old runs: a, b, c and 2 more; ")

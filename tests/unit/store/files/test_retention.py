from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pumice.store.files.retention import FinishedRun, expired, expired_runs, finished_runs, removal_text
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.files.state_directory import host_name
from pumice.store.run_record import RunRecord, RunStatus
from pumice.store.settings import Retention

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


def test_the_runs_of_a_namespace_with_the_sizes_that_their_processes_did_not_note(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    for namespace, note in (("d", 7), ("d", 0), ("e", 0)):
        directory = store.reserve(namespace, "a")
        record = finished(int(directory.name), 0).run.record
        record = msgspec.structs.replace(
            record, namespace=namespace, uid=f"{namespace}{directory.name}", host=host_name()
        )
        owned = store.create(directory, record)
        (directory / "log").write_bytes(bytes(5000))
        owned.run.write_status(RunStatus(phase="Failed", finished=NOW, size=note))
        owned.lock.release()
    sizes = {each.run.ref: each.size for each in finished_runs(store, "d")}
    assert sizes["a:1"] == 7
    assert sizes["a:2"] > 5000
    assert len(finished_runs(store)) == 3
    assert [each.run.ref for each in expired_runs(store, Retention(keep_days=0), NOW + dt.timedelta(1), "e")] == ["a:1"]


def test_the_line_that_says_so() -> None:
    assert removal_text(["a:1"]) == "removed 1 old run: a:1; [runs] in config.toml says how many are kept"
    assert removal_text(list("abcde")).startswith("removed 5 old runs: a, b, c and 2 more; ")

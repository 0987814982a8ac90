"""The status that readers derive from the journal of a recorded run is the one that its processes wrote."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pumice.store.files.run_store import RunStore
from pumice.store.run_record import RunStatus
from tests.golden.store_archive import unpacked

# What is not in the journal: how the queue explains that a run waits, and how large its files are.
_BESIDE = frozenset({"held", "note", "size"})
_RUNS = 50
_MOMENT = dt.timedelta(seconds=0.1)  # between an entry and the time that its writer noted


def _differences(stored: RunStatus, derived: RunStatus) -> dict[str, tuple[object, object]]:
    pairs = {name: (getattr(stored, name), getattr(derived, name)) for name in stored.__struct_fields__}
    return {name: pair for name, pair in pairs.items() if not _is_same(name, *pair)}


def _is_same(name: str, one: object, other: object) -> bool:
    if isinstance(one, dt.datetime) and isinstance(other, dt.datetime):
        return abs(one - other) < _MOMENT
    return one == other or name in _BESIDE


def test_the_journal_says_what_the_status_says(tmp_path: Path) -> None:
    with unpacked(tmp_path):
        runs = [run for run in RunStore(tmp_path).all_runs() if run.has_our_format]
        found = {run.ref: _differences(run.status(), run.history().status) for run in runs}
    assert {ref: each for ref, each in found.items() if each} == {}
    assert len(found) >= _RUNS

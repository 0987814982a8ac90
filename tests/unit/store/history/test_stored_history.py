"""The history of a run in files."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pumice.store.history.stored_history import StoredHistory
from pumice.store.journal import Entry
from tests.unit.store.history.test_run_history import RECORD


def test_samples_that_cannot_be_read_keep_no_run_from_recovery(tmp_path: Path) -> None:
    (tmp_path / "samples.bin").mkdir()
    history = StoredHistory(RECORD, directory=tmp_path)
    for number, kind in enumerate(("Started", "Lost"), start=1):
        history.add(Entry(number, RECORD.created, 0.0, kind, msgspec.Raw(b"{}")))
    assert history.losses == [RECORD.created]

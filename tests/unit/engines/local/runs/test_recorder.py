"""When the status of a run is written: at once, or after a pause."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec

from pumice.engines.local.runs import Recorder
from pumice.model.job import Job, JobState, JobStatus
from pumice.store.events import PhaseChanged, RunPlanned, Tick
from pumice.store.history.stored_history import StoredHistory
from pumice.store.journal import Journal, SequenceNumbers
from pumice.store.run_record import RunRecord, RunStatus

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
RECORD = RunRecord(uid="u", namespace="default", name="job", number=1, host="", boot="", created=NOON, job={})


def test_a_change_is_written_when_time_passes(tmp_path: Path) -> None:
    clock = [0.0]
    journal = Journal(tmp_path, SequenceNumbers(), lambda: NOON, lambda: clock[0])
    journal.open()
    recorder = Recorder(journal, StoredHistory(RECORD, directory=tmp_path), lambda: clock[0])

    def stored() -> str:
        return msgspec.json.decode((tmp_path / "status.json").read_bytes(), type=RunStatus).phase

    recorder(RunPlanned(Job(), "host"))
    recorder(PhaseChanged(Job(), JobStatus(state=JobState(phase="Running")), 1))
    assert stored() == "Pending"
    clock[0] = 1.0
    recorder(Tick())
    assert stored() == "Running"
    journal.close()

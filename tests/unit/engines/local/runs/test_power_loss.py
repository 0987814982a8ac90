"""Power loss: the writes of a submit, a start and a run are recorded, and those after the last sync dropped or torn."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.engines.local.runs import Recorder, append, catch_up
from pumice.engines.local.service import queued_runs
from pumice.model.job import Job, JobState, JobStatus
from pumice.store.events import PhaseChanged, RequestAccepted, RunPlanned, StatusWritten
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.files.state_directory import host_name
from pumice.store.history.entries import Started
from pumice.store.history.stored_history import StoredHistory, read_history
from pumice.store.journal import Journal, SequenceNumbers
from pumice.store.run_end import RunEnded, Stop
from pumice.store.run_record import DETACHED, GangPods, RunRecord
from tests.conftest import SOAK
from tests.unit.engines.local.runs.recorded_disk import Operation, RecordedDisk, replay

UID = "00000001-0000-0000-0000-000000000000"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
RECORD = RunRecord(
    uid=UID,
    namespace="default",
    name="job",
    number=0,
    host=host_name(),
    boot="",
    created=NOON,
    job={},
    mode=DETACHED,
    gang=[GangPods(task="w", count=1)],
)


def story(disk: RecordedDisk) -> None:
    """Submit a run, start it, spend two retries, accept a stop, end."""
    store = RunStore(disk.top / "state")
    run = queued_runs.submit(store, RECORD)
    disk.done("submitted")
    append(run, Started(()))
    disk.done("started")
    journal = Journal(run.directory, SequenceNumbers(), lambda: NOON, lambda: 0.0)
    journal.open()
    recorder = Recorder(journal, run.history(), iter(range(1000)).__next__)
    for retries in (0, 1, 2):
        recorder(StatusWritten(JobStatus(state=JobState(phase="Running"), retry_count=retries)))
        disk.done(f"retries {retries}" if retries else "")
    recorder(RequestAccepted(Stop(143, "Stopped")))
    disk.done("accepted")
    recorder(RunEnded(Job(), stop=Stop(143, "Stopped")))
    disk.done("ended")
    journal.close()
    store.finish(run)


def check(state: Path, promises: set[str]) -> None:
    """The store opens, and what was promised holds."""
    store = RunStore(state)
    runs = list(store.all_runs())
    store.active_runs()
    if "submitted" not in promises:
        return
    (run,) = runs
    assert run.record.uid == UID
    assert run.status().arrival == 1
    if "ended" not in promises:
        assert [each.record.uid for each in store.active_runs()] == [UID]
    if "started" in promises:
        assert run.status().started is not None
    history = run.history()
    for retries in (1, 2):
        if f"retries {retries}" in promises:
            assert history.job_status(history.job).retry_count >= retries
    if "accepted" in promises:
        assert history.stop is not None or history.outcome is not None
    if "ended" in promises:
        ended = catch_up(run)
        assert (ended.exit_code, ended.stopped, ended.finished is not None) == (143, True, True)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedDisk:
    found = RecordedDisk(tmp_path / "disk")
    found.top.mkdir()
    with found.recording(monkeypatch):
        story(found)
    return found


def test_what_is_recorded_is_what_is_there(disk: RecordedDisk, tmp_path: Path) -> None:
    replay([each for each in disk.operations if each.kind not in ("sync", "done")], tmp_path / "replayed")
    for path in disk.top.rglob("*"):
        again = tmp_path / "replayed" / path.relative_to(disk.top)
        assert again.is_symlink() == path.is_symlink()
        assert not path.is_file() or again.read_bytes() == path.read_bytes(), path


def test_promises_hold_wherever_the_power_fails(
    disk: RecordedDisk, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    draw, count = random.Random(14), 0
    shares = (0.0, 1.0, *(0.5 for _ in range(20 if SOAK else 2)))
    for end in range(len(disk.operations) + 1):
        for share in shares:
            count += 1
            where = tmp_path / "after"
            replay(disk.survivors(end, draw, share), where)
            try:
                check(where / "state", disk.promises(end))
            except Exception as error:
                raise AssertionError(f"after {end} of {len(disk.operations)}: {disk.operations[:end][-3:]}") from error
            shutil.rmtree(where)
    record_property("power failures", count)


def test_promises_hold_if_the_last_record_is_torn_at_any_byte(disk: RecordedDisk, tmp_path: Path) -> None:
    writes = [number for number, each in enumerate(disk.operations) if each.kind == "write"]
    for number in writes if SOAK else writes[-8:]:
        each = disk.operations[number]
        offset, data = each.details
        before = [one for one in disk.operations[:number] if one.kind not in ("sync", "done")]
        for size in range(0, len(data), 1 if SOAK else 7):
            where = tmp_path / "after"
            replay([*before, Operation("write", each.nodes, (offset, data[:size]))], where)
            check(where / "state", disk.promises(number))
            shutil.rmtree(where)


def test_the_journal_says_at_every_prefix_what_the_status_said(tmp_path: Path) -> None:
    """Another process that reads so much of the journal goes on with the status that was the newest then."""
    run = StoredRun(tmp_path, RECORD)
    journal = Journal(tmp_path, SequenceNumbers(), lambda: NOON, lambda: 0.0)
    journal.open()
    recorder = Recorder(journal, StoredHistory(RECORD, directory=tmp_path), lambda: 0.0)
    live: list[JobStatus] = []
    job = Job()
    recorder(RunPlanned(job, "host"))
    begin = (run.directory / "journal.jsonl").stat().st_size
    for number in range(30):
        status = JobStatus(
            state=JobState(phase=("Pending", "Running")[number % 2]), retry_count=number // 4, running=number
        )
        recorder(StatusWritten(status))
        recorder(PhaseChanged(job, status, 1))
        live.append(status)
    journal.close()
    content = (run.directory / "journal.jsonl").read_bytes()
    for end in range(begin, len(content), 11):
        (run.directory / "journal.jsonl").write_bytes(content[:end])
        history = read_history(RECORD, run.directory)
        lines = content[:end].count(b"\n") - 1
        written, announced = (lines + 1) // 2, lines // 2
        assert history.job_status(job).running == (live[written - 1].running if written else 0)
        assert history.status.phase == (live[announced - 1].state.phase if announced else "Pending")

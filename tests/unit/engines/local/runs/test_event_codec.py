"""What the next process of a run reads in its journal."""

from __future__ import annotations

from pumice.engines.local.events import PhaseChanged, PodChanged, RunEvent, StatusWritten
from pumice.engines.local.runs.event_codec import EventEncoder, status_to_continue
from pumice.engines.local.runs.journal import Entry
from pumice.model.status import JobState, JobStatus
from pumice.reconcile.ledger import read_ledger
from tests.builders import a_job, a_task
from tests.unit.reconcile.values import NOW, a_pod, ended

JOB = a_job(a_task("worker", 3))


def entries(*events: RunEvent) -> list[Entry]:
    encoder = EventEncoder()
    found = [entry for event in events for entry in encoder.encode(event)]
    return [Entry(number, NOW, 0.0, kind, data) for number, (kind, data) in enumerate(found, start=1)]


def test_pods_that_succeeded_while_a_status_was_decided_are_remembered() -> None:
    first = StatusWritten(JobStatus(state=JobState(phase="Pending")))
    running = JobStatus(state=JobState(phase="Running"))
    found = entries(
        PodChanged(ended("worker-2")),  # the next status was decided after it, and voided it
        first,
        PodChanged(a_pod("worker-0")),
        PodChanged(ended("worker-1")),
        StatusWritten(running),
        PodChanged(ended("worker-0")),
        PhaseChanged(JOB, running, 1),
    )
    status = status_to_continue(found, JOB)
    assert status.state.phase == "Running"
    assert read_ledger(status).succeeded == {"worker": frozenset({0, 1})}


def test_run_without_a_status_begins() -> None:
    assert status_to_continue([], JOB) == JobStatus()

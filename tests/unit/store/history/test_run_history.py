"""What the next process of a run reads in its journal."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest
from msgspec.structs import replace

from pumice.client.history_values import attempts
from pumice.model.job import JobState, JobStatus
from pumice.reconcile.ledger import Ledger, Restart, RestartKind, read_ledger, write_ledger
from pumice.store.events import PhaseChanged, PodChanged, RequestAccepted, RunEvent, StatusWritten
from pumice.store.history.entries import EventEncoder
from pumice.store.history.event_log import RUN_MARK
from pumice.store.history.run_history import RunHistory
from pumice.store.journal import Entry
from pumice.store.run_record import RunRecord
from tests.builders import a_job, a_task
from tests.unit.reconcile.values import NOW, a_pod, ended

JOB = a_job(a_task("worker", 3))
RECORD = RunRecord(uid="u", namespace="default", name="job", number=1, host="", boot="", created=NOW, job={})


def history(*events: RunEvent) -> RunHistory:
    encoder, folded = EventEncoder(), RunHistory(RECORD)
    for number, (kind, data) in enumerate((entry for event in events for entry in encoder.encode(event)), start=1):
        folded.add(Entry(number, NOW, 0.0, kind, msgspec.Raw(msgspec.json.encode(data))))
    return folded


def test_pods_that_succeeded_while_a_status_was_decided_are_remembered() -> None:
    first = StatusWritten(JobStatus(state=JobState(phase="Pending")))
    running = JobStatus(state=JobState(phase="Running"))
    found = history(
        PodChanged(ended("worker-2")),  # the next status was decided after it, and voided it
        first,
        PodChanged(a_pod("worker-0")),
        PodChanged(ended("worker-1")),
        StatusWritten(running),
        PodChanged(ended("worker-0")),
        PhaseChanged(JOB, running, 1),
    )
    status = found.job_status(JOB)
    assert status.state.phase == "Running"
    assert read_ledger(status).succeeded == {"worker": frozenset({0, 1})}


def test_run_without_a_status_begins() -> None:
    assert history().job_status(JOB) == JobStatus()


def test_the_job_has_the_numbers_of_pods_that_its_user_asked_for() -> None:
    """Before the next phase, with which its spec is stored."""
    running = replace(JOB, status=JobStatus(state=JobState(phase="Running")))
    found = history(PhaseChanged(running, running.status, 1), RequestAccepted(replicas={"worker": 5}))
    assert (found.job.total_replicas, found.job.status) == (5, running.status)


def fold(*entries: tuple[str, object]) -> RunHistory:
    folded = RunHistory(RECORD)
    for number, (kind, data) in enumerate(entries, start=1):
        time = NOW + dt.timedelta(seconds=number)
        folded.add(Entry(number, time, 0.0, kind, msgspec.Raw(msgspec.json.encode(data))))
    return folded


def test_a_run_that_was_killed_while_it_was_suspended_waits_after_its_resume() -> None:
    """Its last process had accepted the suspension, and recorded no end."""
    killed: tuple[tuple[str, object], ...] = (("Started", {}), ("RequestAccepted", {"stop": {"reason": "Suspended"}}))
    assert fold(*killed).status.outcome == "Stopping"
    resumed = fold(*killed, ("Resumed", {}), ("Queued", {"arrival": 2}))
    assert (resumed.status.outcome, resumed.stop) == ("Waiting", None)
    assert [each.end is not None for each in resumed.active] == [True]


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(("NotStarted", {"message": "no"}), id="an error of its process"),
        pytest.param(("NoRoom", {"message": "no"}), id="it waited too long"),
        pytest.param(("Held", {"suspended": True}), id="suspended while it waited"),
    ],
)
def test_nothing_of_a_run_stays_live_after_its_end(last: tuple[str, object]) -> None:
    published = ("PortPublished", {"pod": "w-0", "port": 80, "address": "127.0.0.1:8080"})
    history = fold(("Started", {"gpus": ["0"]}), published, ("RequestAccepted", {"stop": {}}), last)
    assert history.stop is None
    assert history.seconds_active(NOW + dt.timedelta(days=1)) == pytest.approx(3)
    if last[0] == "NotStarted":
        assert (history.status.published, history.status.stopping) == ((), False)
    if last[0] == "Held":
        assert (history.status.started, history.status.gpus) == (None, ())


def test_a_damaged_status_does_not_hide_the_one_before() -> None:
    good = ("StatusWritten", {"status": {"state": {"phase": "Running"}, "retryCount": 2}})
    history = fold(good, ("StatusWritten", {"status": 5}))
    assert history.job_status(JOB).retry_count == 2


def test_a_damaged_entry_counts_and_is_passed_over() -> None:
    history = fold(("Queued", {"arrival": 1}), ("PodChanged", {"pod": 5}))
    assert (history.damaged, history.seq, history.status.seq, history.status.arrival) == (1, 2, 2, 1)


def _restarting(restart: Restart) -> PhaseChanged:
    status = JobStatus(
        state=JobState(phase="Restarting"), retry_count=1, controlled_resources=write_ledger(Ledger(restart=restart))
    )
    return PhaseChanged(JOB, status, 2)


@pytest.mark.parametrize(
    ("restart", "kept"),
    [
        pytest.param(Restart(RestartKind.ALL), [], id="of the whole job"),
        pytest.param(Restart(RestartKind.UNSUCCESSFUL), ["worker-1"], id="resumed"),
        pytest.param(
            Restart(RestartKind.TARGETS, 1, {"worker": frozenset({1})}), ["worker-0", "worker-2"], id="of one pod"
        ),
    ],
)
def test_pods_that_a_restart_does_not_replace_still_count(restart: Restart, kept: list[str]) -> None:
    pods = [a_pod("worker-0"), ended("worker-1"), a_pod("worker-2")]
    assert list(history(*map(PodChanged, pods), _restarting(restart)).pods) == kept


def test_a_pod_that_was_asked_to_end_has_not_succeeded() -> None:
    asked = replace(ended("worker-1"), deleted_at=NOW)
    assert history(PodChanged(ended("worker-0")), PodChanged(asked)).status.pods.succeeded == 1


def test_restarts_that_cost_no_retry_are_attempts_of_the_verdict() -> None:
    """After an eviction: `attempt 2 of 4`, where `maxRetry` is 3."""
    pod = replace(ended("worker-0", code=1), retry=1)
    status = JobStatus(state=JobState(phase="Running"), retry_count=1)
    status = replace(status, controlled_resources=write_ledger(Ledger(generation=1)))
    verdict = history(PhaseChanged(JOB, status, 2), PodChanged(pod)).verdict(2)
    assert verdict is not None
    assert (verdict.attempt, verdict.max_attempts) == (2, 4)


def test_a_run_that_was_suspended_resumed_and_lost_has_no_negative_times() -> None:
    """TOOK counts the seconds for which it had its resources, and is the same of the run and of its attempts."""
    phase = ("PhaseChanged", {"job": {}, "status": {"state": {"phase": "Running"}}, "attempt": 1})
    suspended = ("RunEnded", {"job": {"status": {"state": {"phase": "Aborted"}}}, "stop": {"reason": "Suspended"}})
    run = fold(
        *(("Queued", {"arrival": 1}), ("Started", {}), phase, suspended, ("Resumed", {}), ("Queued", {"arrival": 2})),
        *(("Started", {}), phase, ("Lost", {}), ("Started", {}), phase),
        ("RunEnded", {"job": {"status": {"state": {"phase": "Completed"}}}}),
    )
    assert run.damaged == 0
    assert [(piece.end or piece.start) - piece.start for piece in run.active] == [dt.timedelta(seconds=2)] * 3
    (attempt,) = attempts(run)
    assert attempt.end is not None
    assert run.seconds_active(attempt.end, attempt.begin) == run.status.seconds_active(NOW) == 6
    assert run.waited == 2 + 2 + 1
    assert run.seconds_active(attempt.begin, attempt.end) == 0, "a part that ends before it begins is empty"


def test_a_restart_by_a_person_is_a_mark_between_the_lines_of_logs() -> None:
    def entered(phase: str, reason: str = "") -> tuple[str, object]:
        state = {"phase": phase, "reason": reason, "message": "RestartJob was requested by Command restartjob-b2cf63ec"}
        return ("PhaseChanged", {"job": {}, "status": {"state": state}, "attempt": 1})

    run = fold(("Started", {}), entered("Running"), entered("Restarting", "Command"), entered("Pending"))
    assert [mark.text for mark in run.events.marks if mark.kind == RUN_MARK] == ["restarted by you"]

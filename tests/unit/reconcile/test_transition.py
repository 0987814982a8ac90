from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pumice.model.job import JobCondition, JobState, JobStatus, Metadata
from pumice.model.snapshot import Command, ObservedPod
from pumice.model.vocabulary import SUSPENDED, Action, Event, Phase
from pumice.reconcile.ledger import Ledger, Restart, RestartKind
from pumice.reconcile.phases import move_for
from pumice.reconcile.requested_action import Request
from pumice.reconcile.state import State
from pumice.reconcile.transition import (
    LONGEST_MESSAGE,
    apply_transition,
    carry_out,
    choose_transition,
    enter_phase,
    record_phase,
    running_duration,
)
from tests.unit.reconcile.values import NOW, a_match, a_pod, a_snapshot, a_state, later

KNOWN = Ledger(
    spent=1,
    seen={"worker": frozenset((0, 1))},
    succeeded={"worker": frozenset((1,))},
    evicted={"worker-0": NOW, "worker-1": NOW},
    noticed={"JobUpdated": NOW},
    unknown_since=NOW,
)


def move(
    request: Request, *pods: ObservedPod, phase: str = "Running", ledger: Ledger = KNOWN
) -> tuple[int, int, Ledger]:
    """Version and retryCount, both 4 before, and the ledger."""
    state = a_state(*pods, phase=phase, version=4, retry_count=4, ledger=ledger)
    status, after = carry_out(state, ledger, move_for(Phase(phase), request.action), request)
    return status.version, status.retry_count, after


def request_for(action: Action, *events: tuple[Event, str]) -> Request:
    return Request(action, tuple(a_match(action, event, name) for event, name in events))


@pytest.mark.parametrize(
    ("asked", "phase", "is_sorted_again"),
    [
        pytest.param(None, "Running", False, id="nothing happens"),
        pytest.param(None, "Restarting", True, id="the next phase"),
        pytest.param(Request(Action.RESTART_JOB), "Running", True, id="a request"),
        pytest.param(Request(Action.RESTART_JOB), "Restarting", True, id="a request that changes no phase"),
    ],
)
def test_pods_are_sorted_again_only_when_the_job_moves(
    asked: Request | None, phase: str, is_sorted_again: bool
) -> None:
    state = a_state(a_pod("worker-0"), a_pod("worker-1"), phase=phase, group=None)
    after = apply_transition(state, choose_transition(state, asked, (), NOW), (), NOW)
    assert (after.pods is not state.pods) is is_sorted_again
    assert after.pods == State.of(after.snapshot, after.ledger).pods


def test_a_restart_of_the_job_voids_everything() -> None:
    version, retries, ledger = move(request_for(Action.RESTART_JOB, (Event.POD_FAILED, "worker-0")))
    assert (version, retries) == (5, 5)
    expected = Ledger(spent=2, void=5, restart=Restart(RestartKind.ALL), restarts_by_task={"worker": 1})
    assert ledger == expected


@pytest.mark.parametrize(
    ("events", "spent", "by_task"),
    [
        pytest.param(((Event.POD_EVICTED, "worker-0"),), 1, {}, id="an eviction is free"),
        pytest.param(((Event.JOB_UPDATED, ""),), 1, {}, id="an update is free"),
        pytest.param(((Event.UNKNOWN, ""),), 2, {}, id="no task is to blame"),
        pytest.param(
            ((Event.POD_FAILED, "worker-0"), (Event.POD_FAILED, "worker-1")), 2, {"worker": 1}, id="one restart for two"
        ),
        pytest.param(
            ((Event.POD_FAILED, "worker-0"), (Event.POD_EVICTED, "master-0")),
            2,
            {"worker": 1, "master": 1},
            id="a failure and an eviction",
        ),
    ],
)
def test_what_counts_against_max_retry(
    events: tuple[tuple[Event, str], ...], spent: int, by_task: dict[str, int]
) -> None:
    _, retries, ledger = move(request_for(Action.RESTART_JOB, *events))
    assert (retries, ledger.spent, ledger.restarts_by_task) == (5, spent, by_task)


def test_a_command_is_recorded_and_costs_no_retry() -> None:
    request = Request(Action.RESTART_JOB, command=Command(action="RestartJob", metadata=Metadata(uid="c")))
    version, retries, ledger = move(request)
    assert (version, retries, ledger.spent, set(ledger.obeyed)) == (5, 4, 1, {"c"})


def test_a_command_without_effect_is_recorded_too() -> None:
    request = Request(Action.SYNC_JOB, command=Command(action="Nonsense", metadata=Metadata(uid="c")))
    assert move(request) == (4, 4, replace(KNOWN, obeyed=frozenset("c")))


def test_a_restart_that_grows_is_not_charged_again() -> None:
    request = request_for(Action.RESTART_JOB, (Event.POD_FAILED, "worker-0"))
    version, retries, ledger = move(request, phase="Restarting")
    assert (version, retries, ledger.spent) == (5, 4, 1)


@pytest.mark.parametrize(
    ("asked", "phase", "restart", "suspended"),
    [
        pytest.param(Request(Action.ABORT_JOB), "Running", None, False, id="abort"),
        pytest.param(Request(Action.ABORT_JOB, reason=SUSPENDED), "Running", None, True, id="suspend"),
        pytest.param(Request(Action.RESUME_JOB), "Aborted", Restart(RestartKind.UNSUCCESSFUL), False, id="resume"),
        pytest.param(Request(Action.COMPLETE_JOB), "Running", None, False, id="complete"),
    ],
)
def test_only_a_restart_voids_successes(asked: Request, phase: str, restart: Restart | None, suspended: bool) -> None:
    version, retries, ledger = move(asked, phase=phase)
    assert (version, retries) == (5, 4)
    assert ledger == Ledger(spent=1, succeeded=KNOWN.succeeded, restart=restart, suspended=suspended)


def test_a_targeted_restart_forgets_only_its_targets() -> None:
    version, retries, ledger = move(request_for(Action.RESTART_POD, (Event.POD_FAILED, "worker-1")))
    assert (version, retries, ledger.spent) == (4, 5, 2)
    assert ledger.restart == Restart(RestartKind.TARGETS, 5, {"worker": frozenset((1,))})
    assert (ledger.seen, ledger.succeeded) == ({"worker": frozenset((0,))}, {"worker": frozenset()})
    assert ledger.evicted == {"worker-0": NOW}


@pytest.mark.parametrize(
    ("pod", "targets"),
    [
        pytest.param(a_pod("worker-0", version=4, retry=3), {0, 1}, id="a target of the restart before exists"),
        pytest.param(a_pod("worker-0", version=4, retry=4), {1}, id="its new pod is no target"),
    ],
)
def test_a_second_targeted_restart(pod: ObservedPod, targets: set[int]) -> None:
    before = Ledger(restart=Restart(RestartKind.TARGETS, 4, {"worker": frozenset((0,))}))
    _, _, ledger = move(request_for(Action.RESTART_POD, (Event.POD_FAILED, "worker-1")), pod, ledger=before)
    assert ledger.restart is not None
    assert ledger.restart.targets == {"worker": targets}


def test_a_phase_that_is_kept_keeps_its_time() -> None:
    status = JobStatus(state=JobState(phase="Running", last_transition_time="then"))
    after = enter_phase(status, Phase.RUNNING, "Why", "because", NOW)
    assert after.state == JobState(phase="Running", reason="Why", message="because", last_transition_time="then")
    assert after.conditions == []


def test_a_phase_that_is_entered_again_is_the_newest_condition() -> None:
    before = [JobCondition(status="Pending", last_transition_time="1"), JobCondition(status="Running")]
    status = JobStatus(state=JobState(phase="Running"), conditions=before)
    after = enter_phase(status, Phase.PENDING, "", "", NOW)
    assert after.state == JobState(phase="Pending", last_transition_time="2030-01-02T03:04:05Z")
    pending = JobCondition(status="Pending", last_transition_time="2030-01-02T03:04:05Z")
    assert after.conditions == [before[1], pending]


@pytest.mark.parametrize(
    ("phase", "before", "expected"),
    [
        pytest.param(Phase.RUNNING, Ledger(), Ledger(first_running=NOW), id="the first run"),
        pytest.param(Phase.RUNNING, Ledger(first_running=later(-9)), Ledger(first_running=later(-9)), id="not again"),
        pytest.param(Phase.PENDING, Ledger(), Ledger(), id="no run yet"),
        pytest.param(Phase.ABORTED, KNOWN, Ledger(spent=1, succeeded=KNOWN.succeeded), id="winding down"),
    ],
)
def test_what_the_ledger_records_of_a_phase(phase: Phase, before: Ledger, expected: Ledger) -> None:
    assert record_phase(before, phase, NOW) == expected


@pytest.mark.parametrize(
    ("phase", "ran", "expected"),
    [
        pytest.param("Completed", -330, "1m25s", id="from the first run to the end"),
        pytest.param("Completed", 0, "0s", id="a clock that went back"),
        pytest.param("Completed", None, None, id="it never ran"),
        pytest.param("Running", -330, None, id="not over"),
    ],
)
def test_how_long_a_job_took(phase: str, ran: float | None, expected: str | None) -> None:
    # The phase was entered at 03:00:00, NOW is 245 seconds later.
    fields: dict[str, Any] = {"phase": phase}
    ledger = Ledger(first_running=None if ran is None else later(ran))
    assert running_duration(a_snapshot(**fields).job.status, ledger) == expected


def test_a_message_that_is_too_long_to_be_stored_is_cut() -> None:
    after = enter_phase(JobStatus(), Phase.PENDING, "FailedCreate", "x" * 10**6, NOW)
    assert len(after.state.message) == LONGEST_MESSAGE
    assert after.state.message.endswith("x...")

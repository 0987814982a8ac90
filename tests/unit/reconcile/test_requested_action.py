from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Metadata, PartitionPolicy
from pumice.model.snapshot import Command, CommandTarget
from pumice.model.vocabulary import Action, Event
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.phases import DEADLINE
from pumice.reconcile.policies import Match
from pumice.reconcile.requested_action import Request, choose_request, stale_commands, unhandled
from tests.builders import UID, a_job, a_task
from tests.unit.reconcile.values import NOW, a_match, a_state, a_two_worker_job, ended, later

FAILED = a_match(Action.RESTART_JOB, Event.POD_FAILED, "worker-0")
LIMITED = a_two_worker_job(active_deadline_seconds=60)
OVERDUE = Ledger(first_running=later(-60))


def a_command(action: str, name: str = "c", at: str = "2030-01-01T00:00:00Z", uid: str = "", **target: Any) -> Command:
    metadata = Metadata(name=name, uid=uid or f"uid-{name}", creation_timestamp=at)
    return Command(action=action, metadata=metadata, target=CommandTarget(**target) if target else None)


def chosen(matched: tuple[Match, ...] = (), **fields: Any) -> str:
    request = choose_request(a_state(**fields), matched, NOW)
    return str(request.action) if request is not None else ""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"matched": (FAILED,)}, "RestartJob", id="a policy"),
        pytest.param({"matched": (FAILED,), "commands": (a_command("AbortJob"),)}, "AbortJob", id="a Command first"),
        pytest.param(
            {"job": a_two_worker_job(suspend=True), "commands": (a_command("TerminateJob"),)},
            "AbortJob",
            id="the spec before a Command",
        ),
        pytest.param(
            {"job": a_two_worker_job(active_deadline_seconds=60, suspend=True), "ledger": OVERDUE},
            DEADLINE,
            id="the deadline before all",
        ),
    ],
)
def test_the_order_of_requests(fields: dict[str, Any], expected: str) -> None:
    assert chosen(**fields) == expected


@pytest.mark.parametrize(
    ("phase", "ran", "expected"),
    [
        ("Running", -60, DEADLINE),
        ("Restarting", -61, DEADLINE),
        ("Running", -59, ""),
        ("Aborted", -99, ""),
        ("Completed", -99, ""),
    ],
)
def test_a_deadline(phase: str, ran: float, expected: str) -> None:
    assert chosen(job=LIMITED, phase=phase, ledger=Ledger(first_running=later(ran))) == expected


def test_no_deadline_before_the_first_running() -> None:
    assert chosen(job=LIMITED) == ""


@pytest.mark.parametrize(
    ("suspend", "suspended", "phase", "expected"),
    [
        (True, False, "Pending", "AbortJob"),
        (True, False, "Restarting", "AbortJob"),
        (True, True, "Aborted", ""),
        (False, True, "Aborted", "ResumeJob"),
        (None, True, "Aborting", "ResumeJob"),
        (False, False, "Aborted", ""),
        (False, True, "Running", ""),
        (True, False, "Completing", ""),
    ],
)
def test_suspension_by_the_spec(suspend: bool | None, suspended: bool, phase: str, expected: str) -> None:
    job = a_two_worker_job(suspend=suspend)
    assert chosen(job=job, phase=phase, ledger=Ledger(suspended=suspended)) == expected


@pytest.mark.parametrize(
    ("command", "suspend", "expected"),
    [
        pytest.param(a_command("RestartJob"), None, "RestartJob", id="an action"),
        pytest.param(a_command("RestartPod"), None, "SyncJob", id="no pod can be named"),
        pytest.param(a_command("Nonsense"), None, "SyncJob", id="an unknown action"),
        pytest.param(a_command("ResumeJob"), True, "SyncJob", id="the spec still says suspend"),
        pytest.param(a_command("ResumeJob"), None, "ResumeJob", id="resume"),
        pytest.param(a_command("AbortJob", uid="done"), None, "", id="obeyed already"),
        pytest.param(a_command("AbortJob", name="x", kind="Job"), None, "AbortJob", id="a target without uid"),
    ],
)
def test_a_command(command: Command, suspend: bool | None, expected: str) -> None:
    job = a_two_worker_job(suspend=suspend)
    ledger = Ledger(obeyed=frozenset(("done",)))
    assert chosen(job=job, phase="Aborted", commands=(command,), ledger=ledger) == expected


@pytest.mark.parametrize(
    ("uid", "expected"), [pytest.param(UID, "AbortJob", id="this job"), pytest.param("other", "", id="an earlier one")]
)
def test_a_command_for_a_uid(uid: str, expected: str) -> None:
    command = a_command("AbortJob", name="c", kind="Job")
    command = Command(action="AbortJob", metadata=command.metadata, target=CommandTarget(uid=uid))
    assert chosen(commands=(command,)) == expected
    assert (stale_commands(a_state(commands=(command,))) == [command]) is (expected == "")


def test_the_oldest_command_is_obeyed_first() -> None:
    first, second = (
        a_command("AbortJob", "z", "2030-01-01T00:00:00Z"),
        a_command("RestartJob", "a", "2030-01-01T00:00:01Z"),
    )
    request = choose_request(a_state(commands=(second, first)), (), NOW)
    assert request is not None
    assert request.command == first


def test_matches_that_request_the_same_action_are_handled_together() -> None:
    other = a_match(Action.ABORT_JOB, Event.POD_EVICTED, "worker-1")
    more = a_match(Action.RESTART_JOB, Event.TASK_FAILED, "worker-1")
    request = choose_request(a_state(), (FAILED, other, more), NOW)
    assert request == Request(Action.RESTART_JOB, (FAILED, more))
    assert unhandled((FAILED, other, more), request) == [other]
    assert unhandled((FAILED,), None) == [FAILED]


@pytest.mark.parametrize(
    ("match", "phase", "expected"),
    [
        pytest.param(a_match(Action.ABORT_JOB, Event.POD_FAILED, "worker-0", due=1), "Running", "", id="not due"),
        pytest.param(a_match(Action.RESUME_JOB, Event.POD_FAILED, "worker-0"), "Running", "", id="has no effect"),
        pytest.param(a_match(Action.ABORT_JOB, Event.POD_FAILED, "worker-0"), "Restarting", "AbortJob", id="due"),
    ],
)
def test_when_a_policy_acts(match: Match, phase: str, expected: str) -> None:
    assert chosen((match,), phase=phase) == expected


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((Event.POD_EVICTED,), False),
        ((Event.JOB_UPDATED,), False),
        ((Event.POD_FAILED,), True),
        ((Event.POD_EVICTED, Event.POD_FAILED), True),
        ((), False),
    ],
)
def test_what_costs_a_retry(events: tuple[Event, ...], expected: bool) -> None:
    found = tuple(a_match(Action.RESTART_JOB, event, "worker-0") for event in events)
    assert Request(Action.RESTART_JOB, found).costs_a_retry is expected


def test_a_kubelet_s_eviction_costs_a_retry() -> None:
    match = a_match(Action.RESTART_JOB, Event.POD_EVICTED, "worker-0", pod=ended("worker-0", 137, reason="Evicted"))
    assert Request(Action.RESTART_JOB, (match,)).costs_a_retry


PARTS = PartitionPolicy(total_partitions=3, partition_size=2)


@pytest.mark.parametrize(
    ("action", "names", "expected"),
    [
        pytest.param(Action.RESTART_POD, ("worker-3",), {"worker": {3}}, id="the pod"),
        pytest.param(Action.RESTART_POD, ("worker-3", "master-0"), {"worker": {3}, "master": {0}}, id="two pods"),
        pytest.param(Action.RESTART_TASK, ("worker-3",), {"worker": {0, 1, 2, 3, 4}}, id="its task"),
        pytest.param(Action.RESTART_PARTITION, ("worker-3",), {"worker": {2, 3}}, id="its partition"),
        pytest.param(Action.RESTART_PARTITION, ("worker-4",), {"worker": {4}}, id="a partition that is cut short"),
        pytest.param(Action.RESTART_PARTITION, ("master-0",), {"master": {0}}, id="a task without partitions"),
        pytest.param(Action.RESTART_POD, ("",), {}, id="no pod is named"),
        pytest.param(Action.RESTART_POD, ("gone-1",), {}, id="no such task"),
    ],
)
def test_the_targets_of_an_action(action: Action, names: tuple[str, ...], expected: dict[str, set[int]]) -> None:
    job = a_job(a_task("master"), a_task("worker", 5, partition_policy=PARTS))
    found = tuple(a_match(action, Event.POD_FAILED, name) for name in names)
    assert Request(action, found).targets(job) == expected

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from pumice.model.command import Command, CommandTarget
from pumice.model.job import Metadata, PartitionPolicy
from pumice.model.vocabulary import Action, Event
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.phases import DEADLINE
from pumice.reconcile.policies import Match
from pumice.reconcile.requested_action import Order, choose, left_open, stale_commands, wake_up
from tests.builders import UID, a_job, a_task
from tests.unit.reconcile.values import NOW, a_match, a_snapshot, a_two_worker_job, later

FAILED = a_match(Action.RESTART_JOB, Event.POD_FAILED, "worker-0")
LIMITED = a_two_worker_job(active_deadline_seconds=60)
OVERDUE = Ledger(first_running=later(-60))


def a_command(action: str, name: str = "c", at: str = "2030-01-01T00:00:00Z", uid: str = "", **target: Any) -> Command:
    metadata = Metadata(name=name, uid=uid or f"uid-{name}", creation_timestamp=at)
    return Command(action=action, metadata=metadata, target=CommandTarget(**target) if target else None)


def chosen(found: tuple[Match, ...] = (), ledger: Ledger | None = None, **fields: Any) -> str:
    order = choose(a_snapshot(**fields), ledger or Ledger(), found, NOW)
    return str(order.action) if order is not None else ""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"found": (FAILED,)}, "RestartJob", id="a policy"),
        pytest.param({"found": (FAILED,), "commands": (a_command("AbortJob"),)}, "AbortJob", id="a Command first"),
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
def test_the_first_that_has_something_to_say(fields: dict[str, Any], expected: str) -> None:
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


def test_no_deadline_before_the_first_run() -> None:
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
        pytest.param(a_command("Nonsense"), None, "SyncJob", id="nobody's action"),
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
    snapshot = a_snapshot(commands=(command,))
    assert chosen(commands=(command,)) == expected
    assert (stale_commands(snapshot, Ledger()) == [command]) is (expected == "")


def test_the_oldest_command_is_obeyed_first() -> None:
    first, second = (
        a_command("AbortJob", "z", "2030-01-01T00:00:00Z"),
        a_command("RestartJob", "a", "2030-01-01T00:00:01Z"),
    )
    order = choose(a_snapshot(commands=(second, first)), Ledger(), (), NOW)
    assert order is not None
    assert order.command == first


def test_a_policy_acts_for_all_that_ask_for_the_same() -> None:
    other = a_match(Action.ABORT_JOB, Event.POD_EVICTED, "worker-1")
    more = a_match(Action.RESTART_JOB, Event.TASK_FAILED, "worker-1")
    order = choose(a_snapshot(), Ledger(), (FAILED, other, more), NOW)
    assert order == Order(Action.RESTART_JOB, (FAILED, more))
    assert left_open((FAILED, other, more), order) == [other]
    assert left_open((FAILED,), None) == [FAILED]


@pytest.mark.parametrize(
    ("match", "phase", "expected"),
    [
        pytest.param(a_match(Action.ABORT_JOB, Event.POD_FAILED, "worker-0", due=1), "Running", "", id="not due"),
        pytest.param(a_match(Action.RESUME_JOB, Event.POD_FAILED, "worker-0"), "Running", "", id="means nothing"),
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
    assert Order(Action.RESTART_JOB, found).costs_a_retry is expected


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
        pytest.param(Action.RESTART_POD, ("",), {}, id="nobody is named"),
        pytest.param(Action.RESTART_POD, ("gone-1",), {}, id="no such task"),
    ],
)
def test_whom_a_targeted_action_means(action: Action, names: tuple[str, ...], expected: dict[str, set[int]]) -> None:
    job = a_job(a_task("master"), a_task("worker", 5, partition_policy=PARTS))
    found = tuple(a_match(action, Event.POD_FAILED, name) for name in names)
    assert Order(action, found).targets(job) == expected


@pytest.mark.parametrize(
    ("dues", "ran", "expected"),
    [
        pytest.param((), None, None, id="nothing"),
        pytest.param((-1, 0), None, None, id="due already"),
        pytest.param((30, 10), None, 10, id="the first"),
        pytest.param((30,), -50, 10, id="the deadline"),
        pytest.param((), -70, None, id="past the deadline"),
    ],
)
def test_when_to_look_again(dues: tuple[float, ...], ran: float | None, expected: float | None) -> None:
    found = [a_match(Action.ABORT_JOB, Event.POD_FAILED, "worker-0", due) for due in dues]
    ledger = Ledger(first_running=None if ran is None else later(ran))
    wanted: dt.datetime | None = None if expected is None else later(expected)
    assert wake_up(LIMITED, ledger, found, NOW) == wanted

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pumice.model.job import Metadata
from pumice.model.snapshot import Command, ObservedGroup, ObservedPod
from pumice.model.vocabulary import Action, Event
from pumice.reconcile.ledger import Ledger, Restart, RestartKind
from pumice.reconcile.ledger_update import record_successes, update_ledger
from pumice.reconcile.policies import Match
from tests.unit.reconcile.values import NOW, a_match, a_pod, a_state, a_two_worker_job, ended, later

ZERO, ONE, BOTH = frozenset((0,)), frozenset((1,)), frozenset((0, 1))
TARGET_ZERO = Restart(RestartKind.TARGETS, 1, {"worker": ZERO})


@pytest.mark.parametrize(
    ("pods", "ledger", "expected"),
    [
        pytest.param((a_pod("worker-0"),), Ledger(), {}, id="none"),
        pytest.param((a_pod("worker-0", "Succeeded"),), Ledger(), {"worker": ZERO}, id="one"),
        pytest.param((), Ledger(succeeded={"worker": ONE}), {"worker": ONE}, id="known before"),
        pytest.param(
            (a_pod("worker-0", "Succeeded"),), Ledger(succeeded={"worker": ONE}), {"worker": BOTH}, id="one more"
        ),
        pytest.param((a_pod("worker-0", "Succeeded", deleted_at=NOW),), Ledger(), {}, id="being deleted"),
        pytest.param((a_pod("worker-0", "Succeeded", version=1),), Ledger(void=2), {}, id="voided by a restart"),
        pytest.param((a_pod("worker-0", "Succeeded"),), Ledger(restart=TARGET_ZERO), {}, id="a restart target"),
        pytest.param((a_pod("worker-2", "Succeeded"),), Ledger(), {}, id="no such slot"),
        pytest.param((), Ledger(succeeded={"worker": frozenset((5,)), "gone": ONE}), {}, id="scaled down"),
    ],
)
def test_successes_are_recorded(
    pods: tuple[ObservedPod, ...], ledger: Ledger, expected: dict[str, frozenset[int]]
) -> None:
    assert record_successes(ledger, a_two_worker_job(), pods).succeeded == expected


def updated(*pods: ObservedPod, unhandled: tuple[Match, ...] = (), **fields: Any) -> Ledger:
    return update_ledger(a_state(*pods, **fields), unhandled, NOW)


@pytest.mark.parametrize(
    ("pod", "seen", "expected"),
    [
        pytest.param(a_pod("worker-0"), {}, {"worker": ZERO}, id="exists"),
        pytest.param(a_pod("worker-0", "Failed"), {}, {"worker": ZERO}, id="exists and failed"),
        pytest.param(a_pod("worker-0", version=-1), {"worker": ZERO}, {}, id="of an earlier run"),
        pytest.param(a_pod("worker-0", deleted_at=NOW), {"worker": ZERO}, {"worker": ZERO}, id="being deleted"),
        pytest.param(a_pod("worker-0", deleted_at=NOW), {}, {}, id="first seen while being deleted: by us"),
        pytest.param(a_pod("worker-0", "Failed", deleted_at=NOW), {"worker": ZERO}, {}, id="reported as evicted"),
        pytest.param(a_pod("worker-0"), {"worker": BOTH}, {"worker": ZERO}, id="a pod that is gone is dropped"),
    ],
)
def test_which_pods_are_recorded(pod: ObservedPod, seen: dict[str, Any], expected: dict[str, Any]) -> None:
    assert updated(pod, ledger=Ledger(seen=seen)).seen == expected


EVICTED = a_match(Action.ABORT_JOB, Event.POD_EVICTED, "worker-0", due=20, since=-10)


@pytest.mark.parametrize(
    ("pods", "ledger", "unhandled", "expected"),
    [
        pytest.param((), Ledger(), (EVICTED,), {"worker-0": later(-10)}, id="starts to wait"),
        pytest.param((), Ledger(evicted={"worker-0": later(-10)}), (), {"worker-0": later(-10)}, id="still waits"),
        pytest.param((a_pod("worker-0"),), Ledger(evicted={"worker-0": later(-10)}), (), {}, id="the new pod runs"),
        pytest.param(
            (a_pod("worker-0", "Pending"),),
            Ledger(evicted={"worker-0": later(-10)}),
            (EVICTED,),
            {"worker-0": later(-10)},
            id="the new pod is pending",
        ),
        pytest.param(
            (ended("worker-0", 137, reason="Evicted"),),
            Ledger(),
            (replace(EVICTED, occurrence=replace(EVICTED.occurrence, pod=ended("worker-0", 137, reason="Evicted"))),),
            {},
            id="a pod that its kubelet evicted is still there to tell",
        ),
        pytest.param((), Ledger(evicted={"worker-7": NOW}), (), {}, id="scaled down"),
        pytest.param((), Ledger(), (a_match(Action.ABORT_JOB, Event.UNKNOWN),), {}, id="another event"),
    ],
)
def test_evictions_that_wait_for_their_policy(
    pods: tuple[ObservedPod, ...], ledger: Ledger, unhandled: tuple[Match, ...], expected: dict[str, Any]
) -> None:
    assert updated(*pods, ledger=ledger, unhandled=unhandled).evicted == expected


def test_an_event_without_a_timestamp_is_recorded_until_a_policy_acts() -> None:
    waits = a_match(Action.ABORT_JOB, Event.TASK_FAILED, "worker-0", since=-3, noticed_as="TaskFailed/worker")
    assert updated(unhandled=(waits,)).noticed == {"TaskFailed/worker": later(-3)}
    assert updated(ledger=Ledger(noticed={"TaskFailed/worker": NOW})).noticed == {}


@pytest.mark.parametrize(
    ("phase", "before", "expected"),
    [
        ("Unknown", None, NOW),
        ("Unknown", later(-3), later(-3)),
        ("Running", later(-3), None),
    ],
)
def test_since_when_the_pod_group_is_unknown(phase: str, before: Any, expected: Any) -> None:
    assert updated(ledger=Ledger(unknown_since=before), group=ObservedGroup({}, phase)).unknown_since == expected


@pytest.mark.parametrize(
    ("unhandled", "expected"),
    [
        pytest.param((), 2, id="handled"),
        pytest.param((a_match(Action.ABORT_JOB, Event.JOB_UPDATED, noticed_as="JobUpdated"),), 1, id="unhandled"),
    ],
)
def test_an_update_is_acted_upon_once(unhandled: tuple[Match, ...], expected: int) -> None:
    job = a_two_worker_job(metadata={"generation": 2})
    assert updated(ledger=Ledger(generation=1), unhandled=unhandled, job=job).generation == expected


@pytest.mark.parametrize(
    ("phase", "restart", "pods", "expected"),
    [
        pytest.param("Restarting", Restart(RestartKind.ALL), (), True, id="under way"),
        pytest.param("Pending", Restart(RestartKind.ALL), (), False, id="all are gone"),
        pytest.param("Pending", Restart(RestartKind.ALL), (a_pod("worker-0"),), True, id="an old pod exists"),
        pytest.param("Pending", Restart(RestartKind.ALL), (a_pod("worker-0", version=1),), False, id="only new pods"),
        pytest.param("Pending", TARGET_ZERO, (a_pod("worker-0", version=1),), True, id="a target exists"),
        pytest.param("Pending", TARGET_ZERO, (a_pod("worker-0", version=1, retry=1),), False, id="the new pod"),
        pytest.param("Pending", None, (a_pod("worker-0"),), False, id="no restart"),
    ],
)
def test_when_a_restart_is_over(
    phase: str, restart: Restart | None, pods: tuple[ObservedPod, ...], expected: bool
) -> None:
    ledger = updated(*pods, ledger=Ledger(restart=restart), phase=phase, version=1)
    assert ledger.restart == (restart if expected else None)


def test_what_was_kept_through_a_suspension_does_not_hold_a_restart_up() -> None:
    ledger = Ledger(restart=Restart(RestartKind.UNSUCCESSFUL), succeeded={"worker": ZERO})
    assert updated(a_pod("worker-0", "Succeeded"), ledger=ledger, phase="Pending", version=1).restart is None


def test_commands_are_remembered_while_they_are_there() -> None:
    there = Command(metadata=Metadata(name="a", uid="a"))
    assert updated(ledger=Ledger(obeyed=frozenset("ab")), commands=(there,)).obeyed == {"a"}


@pytest.mark.parametrize(
    ("suspend", "phase", "before", "expected"),
    [
        (True, "Aborted", False, True),
        (True, "Aborting", False, True),
        (True, "Running", False, False),
        (None, "Aborted", False, False),
        (None, "Aborted", True, True),
    ],
)
def test_a_job_that_was_aborted_is_also_suspended_by_its_spec(
    suspend: bool | None, phase: str, before: bool, expected: bool
) -> None:
    job = a_two_worker_job(suspend=suspend)
    assert updated(ledger=Ledger(suspended=before), job=job, phase=phase).suspended is expected

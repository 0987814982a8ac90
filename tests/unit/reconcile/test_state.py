from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import JobStatus
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.reconcile.ledger import Ledger, Restart, RestartKind
from pumice.reconcile.state import is_exhausted
from tests.builders import a_job, a_task
from tests.unit.reconcile.values import NOW, a_pod, a_state

TARGETS = Ledger(restart=Restart(RestartKind.TARGETS, 1, {"worker": frozenset((0,))}))
ALL = Ledger(restart=Restart(RestartKind.ALL))
RESUMED = Ledger(restart=Restart(RestartKind.UNSUCCESSFUL), succeeded={"worker": frozenset((1,))})


@pytest.mark.parametrize(
    ("pod", "ledger", "bucket"),
    [
        pytest.param(a_pod("worker-1", version=1), Ledger(), "current", id="of this run"),
        pytest.param(a_pod("worker-1", version=1, deleted_at=NOW), Ledger(), "current", id="being deleted"),
        pytest.param(a_pod("worker-1", version=0), Ledger(), "", id="of an earlier run"),
        pytest.param(a_pod("worker-2", version=1), Ledger(), "", id="scaled down"),
        pytest.param(a_pod("other-0", version=1), Ledger(), "", id="no such task"),
        pytest.param(a_pod("worker-0", version=1), TARGETS, "replaced", id="a target"),
        pytest.param(a_pod("worker-1", version=1), TARGETS, "current", id="no target: another index"),
        pytest.param(a_pod("worker-0", version=1, retry=1), TARGETS, "current", id="no target: created by the restart"),
        pytest.param(a_pod("master-0", version=1), TARGETS, "", id="no target: another task"),
        pytest.param(a_pod("worker-0", version=0), ALL, "replaced", id="restart of the job"),
        pytest.param(a_pod("worker-0", version=1), ALL, "current", id="created by the restart of the job"),
        pytest.param(a_pod("worker-1", "Succeeded", version=0), RESUMED, "", id="a success that resuming keeps"),
    ],
)
def test_which_run_a_pod_belongs_to(pod: ObservedPod, ledger: Ledger, bucket: str) -> None:
    state = a_state(pod, version=1, ledger=ledger)
    assert (pod in state.pods.current, pod in state.pods.replaced) == (bucket == "current", bucket == "replaced")
    assert state.previous_run == ([pod] if bucket == "replaced" and ledger is not TARGETS else [])
    assert state.pods.indexes[pod.task] == {pod.index}


@pytest.mark.parametrize(
    ("phase", "ledger", "expected"),
    [
        ("Pending", Ledger(), True),
        ("Running", Ledger(), True),
        ("Restarting", TARGETS, True),
        ("Restarting", ALL, False),
        ("Restarting", Ledger(), False),
        ("Aborted", TARGETS, False),
        ("Completed", Ledger(), False),
    ],
)
def test_when_the_group_is_kept(phase: str, ledger: Ledger, expected: bool) -> None:
    assert a_state(phase=phase, ledger=ledger).keeps_group is expected


OLD: dict[str, Any] = {"version": 0}
NEW: dict[str, Any] = {"version": 1}


@pytest.mark.parametrize(
    ("phase", "pod", "ledger", "expected"),
    [
        pytest.param("Running", a_pod(**NEW), Ledger(), False, id="in its slot"),
        pytest.param("Running", a_pod("worker-5", **NEW), Ledger(), True, id="scaled down"),
        pytest.param("Running", a_pod("worker-5", deleted_at=NOW, **NEW), Ledger(), False, id="deleted already"),
        pytest.param("Running", a_pod(**OLD), Ledger(), True, id="of an earlier run"),
        pytest.param("Running", a_pod("worker-1", "Succeeded", **OLD), RESUMED, False, id="succeeded before"),
        pytest.param("Running", a_pod("worker-1", "Failed", **OLD), RESUMED, True, id="failed before"),
        pytest.param("Pending", a_pod(**NEW), TARGETS, True, id="target"),
        pytest.param("Restarting", a_pod(**NEW), TARGETS, True, id="target while restarting"),
        pytest.param("Restarting", a_pod("worker-1", **NEW), TARGETS, False, id="no target"),
        pytest.param("Restarting", a_pod("worker-1", "Succeeded", **OLD), ALL, True, id="success voided"),
        pytest.param("Restarting", a_pod("worker-1", "Succeeded", **OLD), RESUMED, False, id="success kept"),
        pytest.param("Restarting", a_pod("worker-0", "Running", **OLD), RESUMED, True, id="resumed"),
        pytest.param("Restarting", a_pod("worker-0", "Failed", **OLD), Ledger(spent=2), True, id="a retry is left"),
        pytest.param("Restarting", a_pod("worker-0", "Failed", **OLD), Ledger(spent=3), False, id="kept to look at"),
        pytest.param("Restarting", a_pod("worker-0", **OLD), Ledger(spent=3), True, id="alive on the last attempt"),
        pytest.param("Aborting", a_pod("worker-0", "Running", **OLD), Ledger(), True, id="winding down"),
        pytest.param("Aborting", a_pod("worker-0", "Failed", **OLD), Ledger(), False, id="finished pods stay"),
        pytest.param("Aborting", a_pod("worker-0", has_ended=True, **OLD), Ledger(), False, id="about to finish"),
        pytest.param("Completed", a_pod("worker-0", "Pending", **NEW), Ledger(), True, id="alive after the end"),
    ],
)
def test_which_pods_are_deleted(phase: str, pod: ObservedPod, ledger: Ledger, expected: bool) -> None:
    pods = a_state(pod, phase=phase, version=1, ledger=ledger).pods
    assert (pod in pods.outdated) is expected
    assert pods.counts.terminating == (expected or pod.is_deleting)


@pytest.mark.parametrize(
    ("phase", "spent", "expected"),
    [
        pytest.param("Running", 3, False, id="running"),
        pytest.param("Restarting", 2, False, id="a retry is left"),
        pytest.param("Restarting", 3, True, id="the last attempt"),
        pytest.param("Completing", 0, True, id="winding down"),
        pytest.param("Failed", 0, True, id="over"),
    ],
)
def test_when_finished_pods_are_kept(phase: str, spent: int, expected: bool) -> None:
    assert a_state(phase=phase, ledger=Ledger(spent=spent)).keeps_finished is expected


def test_each_phase_has_its_count() -> None:
    phases = ("Pending", "Running", "Running", "Succeeded", "Failed", "Unknown")
    pods = [a_pod(f"worker-{index}", phase) for index, phase in enumerate(phases)]
    counts = a_state(*pods, job=a_job(a_task("worker", 6))).pods.counts
    numbers = (counts.pending, counts.running, counts.succeeded, counts.failed, counts.unknown, counts.terminating)
    assert numbers == (1, 2, 1, 1, 1, 0)
    assert counts.alive == 4
    assert counts.of_task("worker", PodPhase.RUNNING) == 2
    assert counts.of_task("other", PodPhase.RUNNING) == 0


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param((), id="both pods are gone"),
        pytest.param((a_pod("worker-0", "Succeeded"),), id="one exists"),
        pytest.param((a_pod("worker-0", "Succeeded"), a_pod("worker-1", "Succeeded")), id="both exist"),
        pytest.param((a_pod("worker-0", "Succeeded", deleted_at=NOW),), id="one is being deleted"),
    ],
)
def test_a_recorded_success_counts_once(pods: tuple[ObservedPod, ...]) -> None:
    ledger = Ledger(succeeded={"worker": frozenset((0, 1))})
    assert a_state(*pods, ledger=ledger).pods.counts.succeeded == 2


def test_tasks_and_phases_are_sorted() -> None:
    pods = (a_pod("worker-0", "Running"), a_pod("ps-0", "Pending"), a_pod("worker-1", "Failed"))
    states = a_state(*pods, job=a_job(a_task("worker", 2), a_task("ps"))).pods.counts.task_states()
    assert [(task, list(state.phase.items())) for task, state in states.items()] == [
        ("ps", [("Pending", 1)]),
        ("worker", [("Failed", 1), ("Running", 1)]),
    ]


@pytest.mark.parametrize(
    ("spent", "by_task", "expected"),
    [
        pytest.param(2, {}, False, id="one is left"),
        pytest.param(3, {}, True, id="maxRetry"),
        pytest.param(0, {"a": 1}, False, id="as many as maxRestarts"),
        pytest.param(0, {"a": 2}, True, id="more than maxRestarts"),
        pytest.param(0, {"b": 2}, False, id="a task without limit"),
    ],
)
def test_when_the_retries_are_exhausted(spent: int, by_task: dict[str, int], expected: bool) -> None:
    job = a_job(a_task("a", max_restarts=1), a_task("b"), max_retry=3)
    assert is_exhausted(job, Ledger(spent=spent, restarts_by_task=by_task)) is expected


def test_another_status_keeps_the_pods() -> None:
    state = a_state(a_pod())
    status = JobStatus(state=state.job.status.state, running=1)
    assert state.with_status(status).job.status == status
    assert state.with_status(status).pods is state.pods

from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import JobState
from pumice.model.snapshot import ObservedPod, Waiting
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.waiting_pods import Wait, is_same_cause, lost_node, moments_of_pods, waiting_pod
from tests.builders import a_job, a_task
from tests.unit.reconcile.values import NOW, a_pod, a_state, ended, later

JOB = a_job(a_task("worker", 3), a_task("master"))
PULL, BACK_OFF = Waiting("ErrImagePull", "403"), Waiting("ImagePullBackOff", 'Back-off pulling image "x:1"')
CRASHES = Waiting("CrashLoopBackOff", "back-off 10s restarting failed container")
UNSCHEDULABLE = Waiting("Unschedulable", "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.")


def found(*pods: ObservedPod, known: str = "", reported: tuple[str, str] = ("", "")) -> tuple[str, str, str] | None:
    """Reason, message and pod of what is reported; `known` is the pod that was reported before."""
    state = a_state(*pods, job=JOB, ledger=Ledger(waiting=f"uid-{known}" if known else ""))
    wait = waiting_pod(state, JobState(reason=reported[0], message=reported[1]), NOW)
    return None if wait is None else (wait.reason, wait.message, wait.uid.removeprefix("uid-"))


def waits(name: str, waiting: Waiting = BACK_OFF, **fields: Any) -> ObservedPod:
    return a_pod(name, "Pending", waiting=waiting, **fields)


FIRST = ("ImagePullBackOff", 'worker-1 waits: ImagePullBackOff: Back-off pulling image "x:1"', "worker-1")


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param((), None, id="no pods"),
        pytest.param((a_pod("worker-0"), a_pod("worker-1", "Pending")), None, id="none waits"),
        pytest.param((waits("worker-2", CRASHES), a_pod("worker-0"), waits("worker-1")), FIRST, id="the first index"),
        pytest.param((waits("master-0", CRASHES), waits("worker-1")), FIRST, id="in the order of the tasks"),
        pytest.param((waits("worker-0", deleted_at=later(5)), waits("worker-1")), FIRST, id="not one that goes"),
        pytest.param((ended("worker-0", 1, waiting=CRASHES), waits("worker-1")), FIRST, id="not one that is over"),
        pytest.param((waits("worker-1", version=-1),), None, id="not one of an earlier run"),
        pytest.param(
            (waits("worker-1", UNSCHEDULABLE),),
            (
                "Unschedulable",
                (
                    "worker-1 waits: Unschedulable: 0/3 nodes are available: pod has unbound immediate "
                    "PersistentVolumeClaims"
                ),
                "worker-1",
            ),
            id="the words of a scheduler",
        ),
        pytest.param(
            (waits("worker-1", Waiting("It's odd", "\x1b[2J\n" + "x" * 5000)),),
            ("PodPending", "worker-1 waits: It's odd: \\x1b[2J " + "x" * 982 + "...", "worker-1"),
            id="hostile words",
        ),
    ],
)
def test_the_first_pod_that_waits(pods: tuple[ObservedPod, ...], expected: tuple[str, str, str] | None) -> None:
    assert found(*pods) == expected


LOOP = ("CrashLoopBackOff", "worker-1 waits: CrashLoopBackOff: back-off 10s")
KEPT = (*LOOP, "worker-1")
PULLED = ("ImagePullBackOff", "worker-1 waits: ImagePullBackOff: before")


@pytest.mark.parametrize(
    ("pod", "reported", "expected"),
    [
        pytest.param(
            a_pod("worker-1", restarts=1, changed_at=later(-9)), LOOP, KEPT, id="ready, for 9 s: crashes soon"
        ),
        pytest.param(a_pod("worker-1", restarts=1, changed_at=later(-10)), LOOP, None, id="it has run for 10 s"),
        pytest.param(a_pod("worker-1", restarts=1, changed_at=later(3600)), LOOP, None, id="the clock of its node"),
        pytest.param(a_pod("worker-1", ready=False, changed_at=later(-9)), LOOP, KEPT, id="not ready yet"),
        pytest.param(a_pod("worker-1", "Pending"), LOOP, KEPT, id="not started yet"),
        pytest.param(a_pod("worker-1", changed_at=later(-1)), PULLED, None, id="ready, without a restart"),
        pytest.param(ended("worker-1", restarts=1), LOOP, None, id="over"),
        pytest.param(a_pod("worker-1", "Pending"), ("Unschedulable", "no room"), None, id="scheduled"),
        pytest.param(a_pod("worker-1", "Pending"), ("NodeLost", "n1"), None, id="its node is back"),
        pytest.param(waits("worker-1", PULL), PULLED, (*PULLED, "worker-1"), id="the second of two reasons stays"),
        pytest.param(waits("worker-1"), ("ErrImagePull", "403"), FIRST, id="the second of two reasons comes"),
        pytest.param(
            waits("worker-1", CRASHES),
            LOOP,
            (LOOP[0], "worker-1 waits: CrashLoopBackOff: back-off 10s restarting failed container", "worker-1"),
            id="in new words",
        ),
    ],
)
def test_what_was_reported_stays_until_the_pod_has_settled(
    pod: ObservedPod, reported: tuple[str, str], expected: tuple[str, str, str] | None
) -> None:
    assert found(pod, known="worker-1", reported=reported) == expected


def test_the_reported_pod_comes_before_others_and_they_after_it() -> None:
    known = a_pod("worker-1", restarts=1, changed_at=later(-5))
    assert found(waits("worker-0"), known, known="worker-1", reported=LOOP) == KEPT
    settled = a_pod("worker-1", restarts=1, changed_at=later(-15))
    other = found(waits("worker-0"), settled, known="worker-1", reported=LOOP)
    assert other is not None
    assert other[2] == "worker-0"


HINT = "; delete the Node, or taint it with node.kubernetes.io/out-of-service, if it does not come back"


@pytest.mark.parametrize(
    ("pods", "phase", "expected"),
    [
        pytest.param((a_pod(),), "Running", None, id="all is well"),
        pytest.param((a_pod(node="n1", deleted_at=later(-14)),), "Running", None, id="a kubelet may be late"),
        pytest.param(
            (a_pod("worker-1", node="n1", deleted_at=later(-15)), a_pod("worker-0", node="n1", deleted_at=later(-20))),
            "Running",
            ("node n1 does not answer: nothing is known of worker-0, worker-1", "uid-worker-0"),
            id="pods that should be gone",
        ),
        pytest.param(
            (a_pod("worker-1", "Unknown", node="n2", is_unreachable=True), a_pod(node="n1", is_unreachable=True)),
            "Pending",
            ("nodes n1, n2 do not answer: nothing is known of worker-0, worker-1", "uid-worker-0"),
            id="two nodes",
        ),
        pytest.param((a_pod(node="n1", version=-1, deleted_at=later(-15)),), "Restarting", "", id="an earlier run"),
        pytest.param((a_pod(deleted_at=later(-15)),), "Running", None, id="no node"),
        pytest.param((ended("worker-0", 1, node="n1", deleted_at=later(-15)),), "Running", None, id="over"),
        pytest.param((a_pod(node="n1", deleted_at=later(-15)),), "Completed", None, id="the job is over"),
    ],
)
def test_a_node_that_does_not_answer(pods: tuple[ObservedPod, ...], phase: str, expected: Any) -> None:
    if expected == "":
        expected = ("node n1 does not answer: nothing is known of worker-0", "uid-worker-0")
    wanted = None if expected is None else Wait("NodeLost", expected[0] + HINT, expected[1])
    assert lost_node(a_state(*pods, phase=phase, job=JOB), NOW) == wanted


@pytest.mark.parametrize(
    ("reason", "other", "expected"),
    [
        ("ErrImagePull", "ImagePullBackOff", True),
        ("ImagePullBackOff", "ErrImagePull", True),
        ("RunContainerError", "CrashLoopBackOff", True),
        ("CreateContainerError", "CrashLoopBackOff", True),
        ("ErrImagePull", "CrashLoopBackOff", False),
        ("Unschedulable", "", False),
    ],
)
def test_reasons_that_alternate(reason: str, other: str, expected: bool) -> None:
    assert is_same_cause(reason, other) is expected


def test_when_to_look_again() -> None:
    pods = (
        a_pod("worker-0", node="n1", deleted_at=later(5)),
        a_pod("worker-1", restarts=1, changed_at=later(-4)),
        a_pod("worker-2", restarts=1, changed_at=later(-4)),
        a_pod("master-0", deleted_at=later(5)),
    )
    state = a_state(*pods, job=JOB, ledger=Ledger(waiting="uid-worker-1"))
    assert list(moments_of_pods(state)) == [later(20), later(6)]

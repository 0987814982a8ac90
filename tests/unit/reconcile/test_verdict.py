from __future__ import annotations

import pytest

from pumice.model.snapshot import ContainerEnd, ObservedPod
from pumice.reconcile.verdict import Verdict, how_it_ended, verdict
from tests.unit.reconcile.values import a_pod, ended


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param((), None, id="no pod"),
        pytest.param((a_pod(), ended("worker-1")), None, id="none failed"),
        pytest.param(
            (ended("worker-0", 3),), ("PodFailed", "worker-0 failed first: exit code 3", "worker-0"), id="one"
        ),
        pytest.param(
            (ended("worker-1", 1, -5), ended("worker-0", 137, -9, why="OOMKilled")),
            ("OOMKilled", "worker-0 failed first: signal 9 (SIGKILL), OOMKilled; 1 other followed", "worker-0"),
            id="the earlier one is the cause",
        ),
        pytest.param(
            (ended("worker-2", 1), ended("worker-0", 1), a_pod("worker-1", "Failed")),
            ("PodFailed", "worker-0 failed first: exit code 1; 2 others followed", "worker-0"),
            id="by index where times are equal, unknown times last",
        ),
        pytest.param(
            (a_pod("worker-0", "Failed", reason="Evicted"),),
            ("Evicted", "worker-0 failed first: Evicted", "worker-0"),
            id="evicted by its node",
        ),
        pytest.param(
            (
                ended(
                    "worker-0",
                    137,
                    reason="Evicted",
                    message='Usage of EmptyDir volume "s" exceeds the limit "1Mi". ',
                ),
                ended("worker-1", 143, -5),
            ),
            (
                "Evicted",
                (
                    'worker-0 failed first: Evicted: Usage of EmptyDir volume "s" exceeds the limit "1Mi"; '
                    "signal 9 (SIGKILL); 1 other followed"
                ),
                "worker-0",
            ),
            id="a kubelet that evicts says why, then the signal",
        ),
        pytest.param(
            (ended("worker-0", 137, reason="DeadlineExceeded", message="Pod was active on the node\ntoo long"),),
            (
                "DeadlineExceeded",
                "worker-0 failed first: DeadlineExceeded: Pod was active on the node too long; signal 9 (SIGKILL)",
                "worker-0",
            ),
            id="the deadline of a pod",
        ),
        *(
            pytest.param(
                (a_pod("worker-0", "Failed", reason=reason, message="in its words"),),
                (reason, f"worker-0 failed first: {reason}: in its words", "worker-0"),
                id=reason,
            )
            for reason in (
                *("Preempting", "Preempted", "NodeLost", "NodeShutdown", "Terminated"),
                *("OutOfcpu", "OutOfmemory", "UnexpectedAdmissionError", "NodeAffinity"),
            )
        ),
        pytest.param(
            (ended("worker-0", 128, reason="image", why="image"),),
            ("PodFailed", "worker-0 failed first: exit code 128, image", "worker-0"),
            id="the reason of both is given once; one that is no word for programs is no reason",
        ),
        pytest.param(
            (ended("worker-0", 1, message="killed"),),
            ("PodFailed", "worker-0 failed first: killed; exit code 1", "worker-0"),
            id="a message without a reason",
        ),
        pytest.param(
            (ended("worker-0", 1, reason="R" * 65),),
            ("PodFailed", f"worker-0 failed first: {'R' * 65}; exit code 1", "worker-0"),
            id="a reason that is too long",
        ),
        *(
            pytest.param(
                (
                    a_pod(
                        "worker-0", "Failed", ends=(ContainerEnd("c", 128, reason, last_line='exec: "x": not found'),)
                    ),
                ),
                (
                    "PodFailed",
                    f'worker-0 failed first: exit code 128, {reason} in container c: exec: "x": not found',
                    "worker-0",
                ),
                id=f"why it never ran: {reason}",
            )
            for reason in ("StartError", "ContainerCannotRun")
        ),
        pytest.param(
            (a_pod("worker-0", "Failed", ends=(ContainerEnd("worker", 1, "Error", last_line="secret"),)),),
            ("PodFailed", "worker-0 failed first: exit code 1", "worker-0"),
            id="what a program wrote is not the cause",
        ),
        pytest.param(
            (a_pod("worker-0", "Failed"),),
            ("PodFailed", "worker-0 failed first: for an unknown reason", "worker-0"),
            id="nothing is known",
        ),
        pytest.param(
            (a_pod("worker-0", "Failed", ends=(ContainerEnd("side", 2),)),),
            ("PodFailed", "worker-0 failed first: exit code 2 in container side", "worker-0"),
            id="which container, if it is not called as its task",
        ),
    ],
)
def test_the_first_failure(pods: tuple[ObservedPod, ...], expected: tuple[str, str, str] | None) -> None:
    assert verdict(pods) == (Verdict(*expected) if expected is not None else None)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        pytest.param(ContainerEnd("c", 1), "exit code 1", id="a code"),
        pytest.param(ContainerEnd("c", 1, "Error"), "exit code 1", id="a reason that says nothing"),
        pytest.param(ContainerEnd("c", 1, "ContainerCannotRun"), "exit code 1, ContainerCannotRun", id="a reason"),
        pytest.param(ContainerEnd("c", 143), "signal 15 (SIGTERM)", id="a signal by its code"),
        pytest.param(ContainerEnd("c", 255, signal=11), "signal 11 (SIGSEGV)", id="a signal by its number"),
        pytest.param(ContainerEnd("c", 255), "exit code 255", id="a code that is no signal"),
        pytest.param(ContainerEnd("c", 128), "exit code 128", id="signal 0 is none"),
    ],
)
def test_how_a_container_ended(end: ContainerEnd, expected: str) -> None:
    assert how_it_ended(end) == expected

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pumice.diagnosis.pod_ends import failure_reason, how_it_ended, how_it_failed, one_line
from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, ObservedPod
from tests.builders import a_job, a_task
from tests.unit.reconcile.values import a_pod, ended


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param((), None, id="no pod"),
        pytest.param((a_pod(), ended("worker-1")), None, id="none failed"),
        pytest.param((ended("worker-0", 3),), ("PodFailed", "worker-0 failed first: exit code 3"), id="one"),
        pytest.param(
            (ended("worker-1", 1, -5), ended("worker-0", 137, -9, why="OOMKilled")),
            ("OOMKilled", "worker-0 failed first: signal 9 (SIGKILL), OOMKilled; 1 other followed"),
            id="the earlier one is the cause",
        ),
        pytest.param(
            (ended("worker-2", 1), ended("worker-0", 1), a_pod("worker-1", "Failed")),
            ("PodFailed", "worker-0 failed first: exit code 1; 2 others followed"),
            id="by index where times are equal, unknown times last",
        ),
        pytest.param(
            (a_pod("worker-0", "Failed", reason="Evicted"),),
            ("Evicted", "worker-0 failed first: Evicted"),
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
            ),
            id="a kubelet that evicts says why, then the signal",
        ),
        pytest.param(
            (ended("worker-0", 137, reason="DeadlineExceeded", message="Pod was active on the node\ntoo long"),),
            (
                "DeadlineExceeded",
                "worker-0 failed first: DeadlineExceeded: Pod was active on the node too long; signal 9 (SIGKILL)",
            ),
            id="the deadline of a pod",
        ),
        *(
            pytest.param(
                (a_pod("worker-0", "Failed", reason=reason, message="in its words"),),
                (reason, f"worker-0 failed first: {reason}: in its words"),
                id=reason,
            )
            for reason in (
                *("Preempting", "Preempted", "NodeLost", "NodeShutdown", "Terminated"),
                *("OutOfcpu", "OutOfmemory", "UnexpectedAdmissionError", "NodeAffinity"),
            )
        ),
        pytest.param(
            (ended("worker-0", 128, reason="image", why="image"),),
            ("PodFailed", "worker-0 failed first: exit code 128, image"),
            id="the reason of both is given once; one that is no word for programs is no reason",
        ),
        pytest.param(
            (ended("worker-0", 1, message="killed"),),
            ("PodFailed", "worker-0 failed first: killed; exit code 1"),
            id="a message without a reason",
        ),
        pytest.param(
            (ended("worker-0", 1, reason="R" * 65),),
            ("PodFailed", f"worker-0 failed first: {'R' * 65}; exit code 1"),
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
                ),
                id=f"why it never ran: {reason}",
            )
            for reason in ("StartError", "ContainerCannotRun")
        ),
        pytest.param(
            (a_pod("worker-0", "Failed", ends=(ContainerEnd("worker", 1, "Error", last_line="secret"),)),),
            ("PodFailed", "worker-0 failed first: exit code 1"),
            id="what a program wrote is not the cause",
        ),
        pytest.param(
            (a_pod("worker-0", "Failed"),),
            ("PodFailed", "worker-0 failed first: for an unknown reason"),
            id="nothing is known",
        ),
        pytest.param(
            (a_pod("worker-0", "Failed", ends=(ContainerEnd("side", 2),)),),
            ("PodFailed", "worker-0 failed first: exit code 2 in container side"),
            id="which container, if it is not called as its task",
        ),
    ],
)
def test_the_first_failure(pods: tuple[ObservedPod, ...], expected: tuple[str, str] | None) -> None:
    found = failure_reason(Job(), pods)
    assert (None if found is None else (found.reason, found.message)) == expected


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


def test_a_pod_that_left_its_peers_is_named_before_the_first_that_failed() -> None:
    line = "ConnectionResetError: Connection reset by peer"
    left, lost = ended("worker-0", 0, -9), ended("worker-1", 1, -8)
    lost = replace(lost, ends=tuple(replace(end, last_line=line) for end in lost.ends))
    job = a_job(a_task("worker", 2))
    found = failure_reason(job, (left, lost))
    assert found is not None
    assert found.cause == "worker-0 ended first, with exit code 0; then worker-1 failed: exit code 1"
    assert not found.more


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        pytest.param(a_pod("worker-0", "Failed"), "for an unknown reason", id="nothing is known"),
        pytest.param(a_pod("worker-0", "Failed", reason="Evicted", message="x"), "Evicted: x", id="the pod"),
        pytest.param(a_pod(ends=(ContainerEnd("side", 2),)), "exit code 2 in container side", id="another container"),
        pytest.param(
            a_pod(ends=(ContainerEnd("main", 127, "StartError", last_line="a\nb"),)),
            "exit code 127, StartError: a; b",
            id="explained",
        ),
    ],
)
def test_how_a_pod_failed(pod: ObservedPod, text: str) -> None:
    assert how_it_failed(pod, "main") == text


def test_a_line_without_colours_and_not_too_long() -> None:
    assert one_line("\x1b[31mred\x1b[0m\n\n  two ") == "red; two"
    assert one_line("x" * 5000).endswith("xxx...")
    assert len(one_line("x" * 5000)) == 300

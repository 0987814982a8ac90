"""Why a pod waits, runs or has ended."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from pumice.diagnosis.pod_waits import dependency, last_lines, why_pod
from pumice.model.job import DependsOn, TaskSpec
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase, Waiting

NOON = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
FAILED = (ContainerEnd("main", 3),)


def _pod(phase: PodPhase, **more: Any) -> ObservedPod:
    return ObservedPod("train-w-0", "1", "w", 0, 0, 0, phase, NOON, **more)


@pytest.mark.parametrize(
    ("pod", "code", "message"),
    [
        pytest.param(
            _pod(PodPhase.SUCCEEDED, deleted_at=NOON), "Stopped", "it was asked to end: exit code 0", id="end"
        ),
        pytest.param(
            _pod(PodPhase.FAILED, deleted_at=NOON, ends=FAILED), "Stopped", "it was asked to end: ", id="asked"
        ),
        pytest.param(_pod(PodPhase.FAILED, ends=FAILED), "Failed", "exit code 3", id="failed"),
        pytest.param(_pod(PodPhase.SUCCEEDED), "Completed", "it succeeded", id="succeeded"),
        pytest.param(_pod(PodPhase.RUNNING), "Running", "it runs", id="runs"),
        pytest.param(_pod(PodPhase.RUNNING, restarts=2), "Running", "it runs, after 2 restarts", id="restarts"),
        pytest.param(_pod(PodPhase.PENDING), "Starting", "its containers are being started", id="starts"),
        pytest.param(_pod(PodPhase.PENDING, waiting=Waiting("ErrImagePull")), "Image", "ErrImagePull", id="image"),
    ],
)
def test_the_reason(pod: ObservedPod, code: str, message: str) -> None:
    why = why_pod("train/w-0", pod)
    assert (why.code, why.message.startswith(message)) == (code, True)


def test_the_command_has_the_flags() -> None:
    assert last_lines("train", "--on prod").command == "pumice logs train --on prod --tail 30"


def test_a_dependency() -> None:
    assert dependency(TaskSpec()) == ""
    assert dependency(TaskSpec(depends_on=DependsOn(name=["a", "b"]))) == "waits for a, b"

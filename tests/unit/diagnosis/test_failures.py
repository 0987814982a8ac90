"""Which pods count as failed, and in which order."""

from __future__ import annotations

import datetime as dt

import pytest
from msgspec.structs import replace

from pumice.diagnosis.failures import Failure, Failures, first_to_blame, left_early
from pumice.model.job import Job, JobSpec, LifecyclePolicy, TaskSpec
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def _end(second: float, code: int = 1, line: str = "", **fields: object) -> ContainerEnd:
    end = ContainerEnd("w", code, finished_at=START + dt.timedelta(seconds=second), last_line=line)
    return replace(end, **fields)


def _failed(index: int, end: ContainerEnd, *, version: int = 0, uid: str = "") -> ObservedPod:
    return ObservedPod(f"j-w-{index}", uid or f"u{index}", "w", index, version, 1, PodPhase.FAILED, START, ends=(end,))


def _failures(*pods: ObservedPod) -> Failures:
    failures = Failures()
    for pod in pods:
        failures.record(pod)
    return failures


def _names(failures: Failures) -> list[str]:
    return [failure.pod.short_name for failure in failures.in_order()]


def test_pods_that_were_asked_to_end_did_not_fail() -> None:
    ended = replace(_failed(0, _end(1, 143)), deleted_at=START)
    assert _names(_failures(ended)) == []
    # A pod that failed by itself stays a failure when it is removed later.
    assert _names(_failures(_failed(0, _end(1)), ended)) == ["w-0"]


def test_the_failure_of_a_replaced_pod_does_not_count() -> None:
    failed = _failed(0, _end(1))
    again = replace(failed, uid="another", phase=PodPhase.RUNNING, ends=())
    assert _names(_failures(failed, _failed(1, _end(2)), again)) == ["w-1"]
    assert _names(_failures(failed, _failed(1, _end(2), version=1))) == ["w-1"]


def test_a_restart_counts_as_soon_as_it_is_announced() -> None:
    waiting = replace(_failed(0, _end(1, 3)), phase=PodPhase.RUNNING)
    failures = _failures(waiting)
    assert failures.restarted() == ()
    failures.record_restart(waiting)
    failures.record(replace(waiting, restarts=0))
    assert [failure.pod.restarts for failure in failures.restarted()] == [1]
    failures.record(replace(waiting, restarts=1))
    failures.record_restart(replace(waiting, restarts=1))
    assert [failure.pod.restarts for failure in failures.restarted()] == [2]


def test_a_restarted_pod_counts_where_no_pod_failed() -> None:
    again = replace(_failed(0, _end(1, 3)), phase=PodPhase.RUNNING, restarts=2)
    assert _names(_failures(again)) == ["w-0"]
    assert _names(_failures(again, _failed(1, _end(2)))) == ["w-1"]
    assert _names(_failures(again, replace(again, phase=PodPhase.SUCCEEDED))) == []
    assert _names(_failures(replace(again, restarts=0))) == []
    assert _names(_failures(again, _failed(1, _end(2), version=1))) == ["w-1"]


GLOO_CLOSED = "RuntimeError: [pair.cc:561] Connection closed by peer [10.0.0.1]:1. This is typically caused by a crash"


@pytest.mark.parametrize(
    ("ends", "index"),
    [
        pytest.param([_end(1, line="ValueError: x"), _end(2, line=GLOO_CLOSED)], 0, id="in the order of time"),
        pytest.param([_end(1, line=GLOO_CLOSED), None, _end(2, line="ValueError: x")], 2, id="its cause took longer"),
        pytest.param([_end(1, line=GLOO_CLOSED), _end(90, line="ValueError: x")], 0, id="long after it"),
        pytest.param([_end(1, line=GLOO_CLOSED), _end(2, line=GLOO_CLOSED)], 0, id="all followed"),
        pytest.param([_end(1, 143, signal=15), _end(2, 137, signal=9)], 1, id="SIGTERM by a launcher"),
        pytest.param([None, _end(2, line=GLOO_CLOSED)], 0, id="the pod failed, and no container"),
        pytest.param([_end(1, line=GLOO_CLOSED, finished_at=None)], 0, id="at an unknown time"),
    ],
)
def test_who_is_to_blame(ends: list[ContainerEnd | None], index: int) -> None:
    assert first_to_blame(ends) == index


def _done(index: int, second: float | None, **fields: object) -> ObservedPod:
    end = _end(0, 0) if second is None else _end(second, 0)
    ends = () if second is None else (end,)
    return replace(_failed(index, end), phase=PodPhase.SUCCEEDED, ends=ends, **fields)


def _lost(*ends: ContainerEnd) -> list[Failure]:
    return [Failure(_failed(5 + index, end), end) for index, end in enumerate(ends)]


PEER = _end(10, line=GLOO_CLOSED)
GANG = Job(spec=JobSpec(min_available=3, tasks=[TaskSpec(name="w", replicas=3)]))
NO_GANG = Job(spec=JobSpec(min_available=1, tasks=[TaskSpec(name="w", replicas=3)]))
COMPLETES = [LifecyclePolicy(event="TaskCompleted", action="CompleteJob")]


@pytest.mark.parametrize(
    ("ends", "succeeded", "name"),
    [
        pytest.param([PEER], [_done(0, 9), _done(2, 8)], "w-0", id="the last that left"),
        pytest.param([PEER], [_done(0, 9), _done(1, 8)], "w-1", id="the peer of that address"),
        pytest.param(
            [_end(10, line="lost connection with j-w-2: Broken pipe")],
            [_done(0, 9), _done(2, 8)],
            "w-2",
            id="of that name",
        ),
        pytest.param([PEER, _end(11, 143, signal=15)], [_done(0, 9)], "w-0", id="another was told to end"),
        pytest.param([_end(100, line=GLOO_CLOSED)], [_done(0, 9)], "", id="long before"),
        pytest.param([PEER], [_done(0, 11)], "", id="after the failure"),
        pytest.param([PEER], [_done(0, 9, retry=0)], "", id="of another attempt"),
        pytest.param([PEER], [_done(0, None)], "", id="at an unknown time"),
        pytest.param([PEER, _end(11, line="ValueError: x")], [_done(0, 9)], "", id="one failed alone"),
        pytest.param([_end(10, 143, signal=15)], [_done(0, 9)], "", id="only told to end"),
        pytest.param([_end(10, line=GLOO_CLOSED, finished_at=None)], [_done(0, 9)], "", id="failed at an unknown time"),
        pytest.param([], [_done(0, 9)], "", id="nothing failed"),
        pytest.param([PEER], [], "", id="nothing left"),
    ],
)
def test_who_left_early(ends: list[ContainerEnd], succeeded: list[ObservedPod], name: str) -> None:
    found = left_early(GANG, _lost(*ends), succeeded, {"w-1": "10.0.0.1", "w-0": "10.0.0.10"})
    assert ("" if found is None else found.short_name) == name


def test_pods_that_do_not_start_together_lose_other_peers() -> None:
    """Such as the server of a download. Only a peer that the last line names is to blame."""
    assert left_early(NO_GANG, _lost(PEER), [_done(0, 9)], {}) is None
    named = left_early(NO_GANG, _lost(PEER), [_done(1, 9)], {"w-1": "10.0.0.1"})
    assert named is not None


def test_a_pod_that_ended_before_the_others_began_was_no_peer() -> None:
    """As in dependsOn."""
    later = [replace(each, pod=replace(each.pod, created_at=START + dt.timedelta(seconds=9.5))) for each in _lost(PEER)]
    assert left_early(GANG, later, [_done(0, 9)], {}) is None


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(JobSpec(policies=COMPLETES), id="of the job"),
        pytest.param(JobSpec(policies=[LifecyclePolicy(event="*", action="CompleteJob")]), id="of any event"),
        pytest.param(JobSpec(tasks=[TaskSpec(name="w", policies=COMPLETES)]), id="of the task"),
    ],
)
def test_a_pod_whose_end_completes_the_job_did_not_leave_early(spec: JobSpec) -> None:
    assert left_early(Job(spec=spec), _lost(PEER), [_done(0, 9)], {}) is None


def test_pods_that_were_done_count_until_the_next_attempt() -> None:
    failures = _failures(_done(0, 1), _failed(1, _end(2)))
    assert [pod.short_name for pod in failures.succeeded()] == ["w-0"]
    failures.record(_failed(1, _end(3), version=1))
    assert failures.succeeded() == ()


def test_an_older_observation_of_a_restart_does_not_count() -> None:
    running = replace(_failed(0, _end(1, 3)), phase=PodPhase.RUNNING, restarts=2)
    failures = _failures(running, replace(running, restarts=1))
    assert [failure.pod.restarts for failure in failures.restarted()] == [2]

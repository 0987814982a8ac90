"""What policies make of a failure, in words."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from pumice.diagnosis.verdict import ActedPolicy
from pumice.model.findings import SPEC
from pumice.model.job import Job, JobSpec, JobStatus, LifecyclePolicy, TaskSpec
from pumice.model.problem import NOWHERE, Position
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.reconcile.consequences import acted_policy, acted_text, what_ends_restarts, what_follows
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.ledger import Ledger, write_ledger

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
FAILED = ObservedPod("j-w-0", "u", "w", 0, 0, 1, PodPhase.FAILED, START, ends=(ContainerEnd("w", 5),))


def _job(max_retry: int = 3, spent: int = 0, **policy: Any) -> Job:
    """A job that was restarted twice; `spent` of its retries are used up."""
    policies = [LifecyclePolicy(**policy)] if policy else []
    status = JobStatus(retry_count=2, controlled_resources=write_ledger(Ledger(spent=spent)))
    spec = JobSpec(max_retry=max_retry, tasks=[TaskSpec(name="w", replicas=2)], policies=policies)
    return Job(spec=spec, status=status)


def _event(event: str, pod: str = "w-0") -> JobEvent:
    return JobEvent("ExecuteAction", "", pod=pod, policy=SPEC / "policies" / 0, event=event, action="AbortJob")


def test_the_policy_of_an_event() -> None:
    path = "spec.policies[0]"
    there = ActedPolicy(event="PodFailed", action="AbortJob", path=path, where="job.yaml:7", line=7)
    assert acted_policy(_event("PodFailed"), Position("job.yaml", 7)) == there
    unknown = ActedPolicy(event="PodFailed", action="AbortJob", path=path, where="")
    assert acted_policy(_event("PodFailed"), NOWHERE) == unknown


@pytest.mark.parametrize(
    ("event", "text"),
    [
        pytest.param(_event("TaskCompleted"), "w-0 succeeded: TaskCompleted -> AbortJob (policies[0])", id="done"),
        pytest.param(_event("PodFailed"), "w-0 failed: PodFailed -> AbortJob (policies[0])", id="failed"),
        pytest.param(_event("PodEvicted"), "w-0 PodEvicted -> AbortJob (policies[0])", id="evicted"),
        pytest.param(_event("Unknown", ""), "Unknown -> AbortJob (policies[0])", id="of no pod"),
    ],
)
def test_what_a_policy_did(event: JobEvent, text: str) -> None:
    assert acted_text(event, NOWHERE) == text


@pytest.mark.parametrize(
    ("job", "left", "text"),
    [
        pytest.param(_job(), 1, "no policy acts on PodFailed, the job goes on with 1 of 2", id="the job goes on"),
        pytest.param(_job(), 0, "no policy acts on PodFailed, no other pod is left", id="the last pod"),
        pytest.param(_job(exit_code=5, action="TerminateJob"), 1, "PodFailed -> TerminateJob", id="of the exit code"),
        pytest.param(
            _job(event="PodFailed", action="RestartJob", timeout="30s"), 1, "PodFailed -> RestartJob in 30s", id="later"
        ),
        pytest.param(
            _job(2, spent=1, event="*", action="RestartJob"),
            1,
            "PodFailed -> RestartJob, but no attempt is left of 3 (maxRetry 2)",
            id="no attempt is left, after one that cost no retry",
        ),
        pytest.param(
            _job(2, event="*", action="RestartJob"), 1, "PodFailed -> RestartJob", id="restarts that cost no retry"
        ),
    ],
)
def test_what_follows_from_a_failure(job: Job, left: int, text: str) -> None:
    assert what_follows(job, FAILED, left) == text


def test_a_pod_that_failed_without_a_container() -> None:
    pod = ObservedPod("j-w-0", "u", "w", 0, 0, 0, PodPhase.FAILED, START)
    assert what_follows(_job(event="PodFailed", action="AbortJob"), pod, 1) == "PodFailed -> AbortJob"


@pytest.mark.parametrize(
    ("policies", "hint"),
    [
        pytest.param([], True, id="none"),
        pytest.param([LifecyclePolicy(event="PodFailed", action="AbortJob")], True, id="another"),
        pytest.param([LifecyclePolicy(event="TaskFailed", action="AbortJob")], False, id="the one"),
        pytest.param([LifecyclePolicy(events=["*"], action="AbortJob")], False, id="any"),
    ],
)
def test_the_policy_that_would_end_restarts(policies: list[LifecyclePolicy], hint: bool) -> None:
    job = Job(spec=JobSpec(policies=policies, tasks=[TaskSpec(name="a", max_retry=3)]))
    wanted = (
        "a policy {event: TaskFailed, action: TerminateJob} of task a would end the job after 3 restarts (its maxRetry)"
    )
    assert what_ends_restarts(job, "a") == (wanted if hint else "")

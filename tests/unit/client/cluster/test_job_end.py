"""Which policy ended a Job on a cluster, as far as its phase and its pods show it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from msgspec.structs import replace

from pumice.client.cluster.job_end import job_end
from pumice.client.cluster.job_facts import ClusterPod, JobEventFact, JobFacts
from pumice.diagnosis.outcome import is_asked
from pumice.model.job import JobState, JobStatus, LifecyclePolicy
from tests.builders import a_job, a_task
from tests.unit.reconcile.values import ended

NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
FAILED = ended("worker-0", 3)
TERMINATE = LifecyclePolicy(event="PodFailed", action="TerminateJob")
ABORT = LifecyclePolicy(event="PodEvicted", action="AbortJob")
RESTART = LifecyclePolicy(event="PodFailed", action="RestartJob")
GAVE_UP = JobEventFact(NOW, "1234", "ExecuteAction", "Job failed for retry limit reached", is_warning=False)


def facts(phase: str, *policies: LifecyclePolicy, reason: str = "", retries: int = 0, **more: Any) -> JobFacts:
    job = a_job(a_task("worker", 2), policies=list(policies), max_retry=3)
    status = JobStatus(state=JobState(phase=phase, reason=reason), retry_count=retries)
    return JobFacts({}, replace(job, status=status), **more)


def seen(pod: Any) -> ClusterPod:
    return ClusterPod(pod, "default")


@pytest.mark.parametrize(
    ("found", "policy"),
    [
        pytest.param(
            facts("Terminated", TERMINATE, pods=[seen(FAILED)]), "PodFailed -> TerminateJob (policies[0])", id="failure"
        ),
        pytest.param(facts("Aborted", TERMINATE, ABORT), "PodEvicted -> AbortJob (policies[1])", id="the only one"),
        pytest.param(facts("Aborted", ABORT, ABORT), None, id="one of two"),
        pytest.param(facts("Terminated", ABORT, pods=[seen(FAILED)]), None, id="no policy"),
        pytest.param(
            facts("Failed", RESTART, retries=3, pods=[seen(FAILED)]),
            "PodFailed -> RestartJob (policies[0])",
            id="the last attempt",
        ),
        pytest.param(facts("Failed", RESTART, retries=3), None, id="the last attempt, without its pods"),
        pytest.param(
            facts("Failed", RESTART, reason="DeadlineExceeded", retries=3, pods=[seen(FAILED)]), None, id="the deadline"
        ),
        pytest.param(facts("Failed", RESTART, pods=[seen(FAILED)]), None, id="attempts are left"),
        pytest.param(facts("Terminated", TERMINATE, reason="Command"), None, id="a person"),
    ],
)
def test_the_verdict_names_the_policy(found: JobFacts, policy: str | None) -> None:
    end = job_end(found, found.job)
    assert end is not None
    assert end.verdict is not None
    assert (None if end.verdict.policy is None else str(end.verdict.policy)) == policy


@pytest.mark.parametrize(
    ("found", "message"),
    [
        pytest.param(facts("Aborted", ABORT), "PodEvicted -> AbortJob (policies[0])", id="policy"),
        pytest.param(facts("Terminated", events=[GAVE_UP]), "Job failed for retry limit reached", id="gave up"),
        pytest.param(facts("Terminated"), "no pod failed", id="nothing is known"),
    ],
)
def test_without_a_failed_pod_it_says_what_ended_the_job(found: JobFacts, message: str) -> None:
    end = job_end(found, found.job)
    assert end is not None
    assert end.verdict is not None
    assert end.verdict.message == f"{found.job.name} failed: {message}"


def test_a_timeout_that_a_client_kept_is_no_request_of_a_person() -> None:
    said = "train ran longer than its timeout of 2s and was stopped"
    issued = replace(GAVE_UP, reason="CommandIssued", message="Start to execute command TerminateJob")
    found = facts("Terminated", events=[issued])
    manifest = {"metadata": {"annotations": {"pumice/timed-out": said}}}
    end = job_end(replace(found, manifest=manifest), found.job)
    assert end is not None
    assert end.stop is not None
    assert end.verdict is not None
    assert (end.exit_code, is_asked(end.stop.reason), end.verdict.message) == (124, False, said)

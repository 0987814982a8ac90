from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Job, LifecyclePolicy
from pumice.model.vocabulary import Event
from pumice.reconcile.occurrences import Occurrence
from pumice.reconcile.policies import all_policies, has_pending_failure, match_policies
from tests.builders import a_job, a_task
from tests.unit.reconcile.values import NOW, a_policy, ended, happened, later

FAILED = happened(Event.POD_FAILED, "worker-0", exit_code=3)
# What a kubelet does to a pod on a node that runs out of memory or disk.
EVICTED = happened(Event.POD_FAILED, "worker-0", exit_code=3, pod=ended("worker-0", 3, reason="Evicted"))


def job_with(*policies: LifecyclePolicy, of_task: tuple[LifecyclePolicy, ...] = ()) -> Job:
    return a_job(a_task("master"), a_task("worker", policies=list(of_task)), policies=list(policies))


def chosen(job: Job, occurrence: Occurrence) -> str:
    return next((f"{match.path} {match.action}" for match in match_policies(job, [occurrence])), "")


RESTART = a_policy("RestartJob", "PodFailed")
ABORT = a_policy("AbortJob", "PodFailed")
ON_THREE = a_policy("TerminateJob", exit_code=3)
EVERYTHING = a_policy("CompleteJob", "*")
ON_EVICTION = a_policy("RestartTask", "PodEvicted")


@pytest.mark.parametrize(
    ("job", "occurrence", "expected"),
    [
        pytest.param(job_with(), FAILED, "", id="no policy"),
        pytest.param(job_with(RESTART), FAILED, "spec.policies[0] RestartJob", id="of the job"),
        pytest.param(
            job_with(RESTART, of_task=(ABORT,)), FAILED, "spec.tasks[1].policies[0] AbortJob", id="of the task first"
        ),
        pytest.param(
            job_with(RESTART, of_task=(a_policy("AbortJob", "PodEvicted"),)),
            FAILED,
            "spec.policies[0] RestartJob",
            id="of the job where none of the task matches",
        ),
        pytest.param(
            job_with(RESTART, of_task=(ABORT,)),
            happened(Event.POD_FAILED, "master-0"),
            "spec.policies[0] RestartJob",
            id="another task's do not count",
        ),
        pytest.param(job_with(ON_THREE, RESTART), FAILED, "spec.policies[0] TerminateJob", id="the exit code"),
        pytest.param(job_with(RESTART, ON_THREE), FAILED, "spec.policies[0] RestartJob", id="the first one wins"),
        pytest.param(
            job_with(ON_THREE, RESTART),
            happened(Event.POD_FAILED, "worker-0", exit_code=4),
            "spec.policies[1] RestartJob",
            id="another exit code",
        ),
        pytest.param(
            job_with(a_policy("AbortJob", exit_codes=[1, 3])), FAILED, "spec.policies[0] AbortJob", id="several codes"
        ),
        pytest.param(
            job_with(a_policy("AbortJob", events=["PodEvicted", "PodFailed"])),
            FAILED,
            "spec.policies[0] AbortJob",
            id="several events",
        ),
        pytest.param(job_with(EVERYTHING), FAILED, "spec.policies[0] CompleteJob", id="* is any event"),
        pytest.param(job_with(EVERYTHING), happened(Event.JOB_UPDATED), "", id="* is not JobUpdated"),
        pytest.param(
            job_with(a_policy("AbortJob", "JobUpdated")),
            happened(Event.JOB_UPDATED),
            "spec.policies[0] AbortJob",
            id="JobUpdated by name",
        ),
        pytest.param(job_with(EVERYTHING), happened(Event.POD_PENDING, "worker-0"), "", id="pending needs a timeout"),
        pytest.param(
            job_with(a_policy("AbortJob", "*", timeout="5s")),
            happened(Event.POD_PENDING, "worker-0"),
            "spec.policies[0] AbortJob",
            id="pending with a timeout",
        ),
        pytest.param(
            job_with(a_policy("RestartPod", "*")), happened(Event.UNKNOWN), "", id="no pod could be restarted"
        ),
        *(
            pytest.param(job_with(*policies, of_task=of_task), EVICTED, expected, id=f"evicted by its kubelet: {name}")
            for name, policies, of_task, expected in (
                ("PodEvicted", (RESTART, ON_EVICTION), (), "spec.policies[1] RestartTask"),
                ("PodEvicted before a code", (ON_THREE, ON_EVICTION), (), "spec.policies[1] RestartTask"),
                ("PodEvicted of the job", (ON_EVICTION,), (ABORT,), "spec.policies[0] RestartTask"),
                ("else PodFailed", (RESTART,), (), "spec.policies[0] RestartJob"),
                ("else its code", (ON_THREE,), (), "spec.policies[0] TerminateJob"),
                ("* does not name PodEvicted", (RESTART, EVERYTHING), (), "spec.policies[0] RestartJob"),
                ("* in its turn", (EVERYTHING, ON_EVICTION), (), "spec.policies[0] CompleteJob"),
                ("none", (), (), ""),
            )
        ),
        pytest.param(job_with(EVERYTHING), happened(Event.UNKNOWN), "spec.policies[0] CompleteJob", id="the whole job"),
    ],
)
def test_the_first_policy_that_match_policies(job: Job, occurrence: Occurrence, expected: str) -> None:
    assert chosen(job, occurrence) == expected


def test_a_timeout_counts_from_when_it_began_and_the_first_due_is_in_front() -> None:
    job = job_with(a_policy("AbortJob", "PodFailed", timeout="1m"), a_policy("RestartJob", "PodEvicted"))
    found = [happened(Event.POD_FAILED, "worker-0", -70), happened(Event.POD_EVICTED, "worker-1", -5)]
    due = [(str(match.action), match.due) for match in match_policies(job, found)]
    assert due == [("AbortJob", later(-10)), ("RestartJob", later(-5))]


@pytest.mark.parametrize(
    ("event", "since", "timeout", "expected"),
    [
        pytest.param(Event.POD_FAILED, -1, "1m", True, id="a failure that waits"),
        pytest.param(Event.POD_FAILED, -60, "1m", False, id="due"),
        pytest.param(Event.POD_EVICTED, -1, "1m", False, id="no failure"),
    ],
)
def test_a_failure_is_pending_until_its_policy_is_due(event: Event, since: float, timeout: str, expected: Any) -> None:
    found = match_policies(job_with(a_policy("AbortJob", event, timeout=timeout)), [happened(event, "worker-0", since)])
    assert has_pending_failure(found, NOW) is expected


def test_a_kubelet_s_eviction_is_a_failure_whose_policy_may_be_pending() -> None:
    job = job_with(a_policy("AbortJob", "PodEvicted", timeout="1m"))
    assert has_pending_failure(match_policies(job, [EVICTED]), NOW)


def test_the_policies_of_all_tasks_come_before_those_of_the_job() -> None:
    job = job_with(RESTART, EVERYTHING, of_task=(ABORT,))
    assert [(str(path), policy) for path, policy in all_policies(job)] == [
        ("spec.tasks[1].policies[0]", ABORT),
        ("spec.policies[0]", RESTART),
        ("spec.policies[1]", EVERYTHING),
    ]

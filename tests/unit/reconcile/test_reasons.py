from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from pumice.model.job import Job, JobState, Metadata
from pumice.model.snapshot import Command, Failure, ObservedGroup, ObservedPod, Waiting
from pumice.model.vocabulary import NATIVE, NO_GANG, SUSPENDED, Action, Event, Phase
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.phases import DEADLINE
from pumice.reconcile.pod_creation import plan_pods
from pumice.reconcile.reasons import reason_for, waiting_reason
from pumice.reconcile.requested_action import Request
from pumice.reconcile.state import PodCounts
from tests.builders import a_job, a_task
from tests.unit.reconcile.values import NOW, a_match, a_pod, a_state, a_two_worker_job, ended


def why(
    request: Request | None, to: Phase, *pods: ObservedPod, counts: PodCounts | None = None, **fields: Any
) -> tuple[str, str]:
    state = a_state(*pods, **fields)
    if counts is not None:
        state = replace(state, pods=replace(state.pods, counts=counts))
    found = reason_for(state, request, to)
    return found.reason, found.message


def by_policy(action: Action, event: Event, name: str = "") -> Request:
    return Request(action, (a_match(action, event, name),))


COMMAND = Request(Action.ABORT_JOB, command=Command(action="AbortJob", metadata=Metadata(name="stop")))
ACTED = "; policy spec.policies[0]"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(
            Request(DEADLINE), (DEADLINE, "the job ran longer than its activeDeadlineSeconds, 60"), id="the deadline"
        ),
        pytest.param(COMMAND, ("Command", "AbortJob was requested by Command stop"), id="a Command"),
        pytest.param(Request(Action.ABORT_JOB, reason=SUSPENDED), ("Suspended", "spec.suspend is true"), id="the spec"),
        pytest.param(Request(Action.RESUME_JOB), ("", ""), id="resumed by the spec"),
        pytest.param(
            by_policy(Action.ABORT_JOB, Event.POD_FAILED, "worker-0"),
            ("PodFailed", f"worker-0 failed first: exit code 2{ACTED} PodFailed: AbortJob"),
            id="a failure",
        ),
        pytest.param(
            by_policy(Action.ABORT_JOB, Event.POD_EVICTED, "worker-1"),
            ("Evicted", f"worker-1 was deleted by someone else{ACTED} PodEvicted: AbortJob"),
            id="an eviction",
        ),
        pytest.param(
            by_policy(Action.ABORT_JOB, Event.POD_PENDING, "worker-1"),
            ("PodPending", f"PodPending of worker-1{ACTED} PodPending: AbortJob"),
            id="a pod that does not start",
        ),
        pytest.param(
            by_policy(Action.ABORT_JOB, Event.UNKNOWN), ("Unknown", f"Unknown{ACTED} Unknown: AbortJob"), id="no pod"
        ),
    ],
)
def test_the_reason_of_a_request(asked: Request, expected: tuple[str, str]) -> None:
    job = a_two_worker_job(active_deadline_seconds=60)
    assert why(asked, Phase.ABORTING, ended("worker-0", 2), job=job) == expected


@pytest.mark.parametrize(
    ("pod", "fields", "expected"),
    [
        pytest.param({"waiting": Waiting("ErrImagePull", "403")}, {}, ": ErrImagePull: 403", id="its container"),
        pytest.param({}, {"group": ObservedGroup({}, "Inqueue", "no room")}, ": no room", id="its gang"),
        pytest.param({}, {"group": None}, "", id="nothing is known"),
    ],
)
def test_a_policy_says_why_a_pod_is_pending(pod: dict[str, Any], fields: dict[str, Any], expected: str) -> None:
    match = a_match(Action.ABORT_JOB, Event.POD_PENDING, "worker-1", pod=a_pod("worker-1", "Pending", **pod))
    found = why(Request(Action.ABORT_JOB, (match,)), Phase.ABORTING, **fields)
    assert found == ("PodPending", f"PodPending of worker-1{expected}{ACTED} PodPending: AbortJob")


def test_a_failure_whose_pod_is_gone() -> None:
    request = by_policy(Action.ABORT_JOB, Event.POD_FAILED, "worker-0")
    assert why(request, Phase.ABORTING) == ("PodFailed", f"PodFailed of worker-0{ACTED} PodFailed: AbortJob")


@pytest.mark.parametrize(
    ("was", "phase", "expected"),
    [
        pytest.param("Aborting", Phase.ABORTED, ("Why", "because"), id="what led to the end is why it is over"),
        pytest.param("Aborting", Phase.ABORTING, ("Why", "because"), id="winding down"),
        pytest.param("Restarting", Phase.PENDING, ("", ""), id="a new beginning"),
        pytest.param("Running", Phase.RUNNING, ("", ""), id="running"),
        pytest.param("Running", Phase.COMPLETED, ("", ""), id="what it waited for is not why it is over"),
        pytest.param("Failed", Phase.FAILED, ("Why", "because"), id="over"),
    ],
)
def test_what_is_kept(was: str, phase: Phase, expected: tuple[str, str]) -> None:
    assert why(None, phase, phase=was, reason="Why", message="because") == expected


def test_a_request_that_changes_no_phase_keeps_the_reason() -> None:
    request = by_policy(Action.RESTART_JOB, Event.POD_FAILED, "worker-0")
    found = why(request, Phase.RESTARTING, phase="Restarting", reason="Why", message="because")
    assert found == ("Why", "because")


LIMITED = a_job(a_task("worker", 2, max_restarts=1), min_available=2, max_retry=3)
OVERDONE = {"ledger": Ledger(restarts_by_task={"worker": 2})}


@pytest.mark.parametrize(
    ("job", "fields", "expected"),
    [
        pytest.param(
            a_two_worker_job(), {}, "all 3 attempts failed (maxRetry); the last cause: because", id="maxRetry"
        ),
        pytest.param(
            LIMITED, {}, "all 3 attempts failed (maxRetry); the last cause: because", id="maxRestarts is kept"
        ),
        pytest.param(
            LIMITED,
            OVERDONE,
            "task worker has caused more restarts than its maxRestarts, 1; the last cause: because",
            id="maxRestarts",
        ),
    ],
)
def test_the_budget_is_spent(job: Job, fields: dict[str, Any], expected: str) -> None:
    found = why(None, Phase.FAILED, job=job, phase="Restarting", message="because", **fields)
    assert found == ("RetriesExhausted", expected)


def counted(**succeeded: int) -> PodCounts:
    by_task = {task: Counter({"Succeeded": count}) for task, count in succeeded.items()}
    return PodCounts(succeeded=sum(succeeded.values()), by_task=by_task)


TWO_TASKS = a_job(a_task("a", 2, min_available=1), a_task("b", 2, min_available=2), min_available=3)


@pytest.mark.parametrize(
    ("job", "pods", "counts", "expected"),
    [
        pytest.param(
            a_two_worker_job(),
            (ended("worker-0", 1),),
            counted(worker=1),
            ("PodFailed", "worker-0 failed first: exit code 1"),
            id="every pod was needed",
        ),
        pytest.param(
            a_two_worker_job(min_available=1),
            (ended("worker-0", 1), ended("worker-1", 1)),
            counted(),
            (
                "MinAvailableNotMet",
                "0 of 2 pods succeeded, 1 needed; worker-0 failed first: exit code 1; 1 other followed",
            ),
            id="too many failed",
        ),
        pytest.param(
            a_two_worker_job(min_success=1),
            (),
            counted(),
            ("MinAvailableNotMet", "0 of 2 pods succeeded, 1 needed"),
            id="no pod is left",
        ),
        pytest.param(
            TWO_TASKS,
            (),
            counted(a=2, b=1),
            ("MinAvailableNotMet", "1 of 2 pods of task b succeeded, 2 needed"),
            id="one task has too few",
        ),
        pytest.param(
            a_job(a_task("a", 2), a_task("b", 1), min_available=1),
            (),
            counted(a=1),
            ("MinAvailableNotMet", "1 of 3 pods succeeded, 1 needed"),
            id="no task asks for anything",
        ),
        pytest.param(
            a_job(a_task("a", 3, min_available=3), min_available=1, min_success=2),
            (),
            counted(a=1),
            ("MinAvailableNotMet", "1 of 3 pods succeeded, 2 needed"),
            id="the job asks for fewer than its task",
        ),
        pytest.param(
            a_job(a_task("a", 3, min_available=1), min_available=1, min_success=2),
            (),
            counted(a=1),
            ("MinAvailableNotMet", "1 of 3 pods succeeded, 2 needed"),
            id="every task has enough",
        ),
    ],
)
def test_why_a_job_failed(
    job: Job, pods: tuple[ObservedPod, ...], counts: PodCounts, expected: tuple[str, str]
) -> None:
    assert why(None, Phase.FAILED, *pods, counts=counts, job=job) == expected


BOTH = (a_pod("worker-0"), a_pod("worker-1"))
PENDING = (a_pod("worker-0", "Pending"), a_pod("worker-1"))
REFUSED = Failure("FailedCreate", "quota")
WAITS = a_pod("worker-0", "Pending", waiting=Waiting("InvalidImageName", 'couldn\'t parse image name "A:b"'))
WAITS_FOR = 'worker-0 waits: InvalidImageName: couldn\'t parse image name "A:b"'
LOST: dict[str, Any] = {"node": "n1", "is_unreachable": True}
DOES_NOT_ANSWER = (
    "node n1 does not answer: nothing is known of worker-1; delete the Node, or taint it with "
    "node.kubernetes.io/out-of-service, if it does not come back"
)


@pytest.mark.parametrize(
    ("pods", "fields", "expected"),
    [
        pytest.param(BOTH, {}, ("", ""), id="nothing"),
        pytest.param((), {"group": ObservedGroup({}, "Pending", "no room")}, ("Unschedulable", "no room"), id="room"),
        pytest.param(BOTH, {"group": ObservedGroup({}, "Pending", "no room")}, ("", ""), id="room is not needed"),
        pytest.param((), {}, ("", ""), id="pods that are about to be made"),
        pytest.param(
            PENDING, {"group": ObservedGroup({}, "Inqueue", "no room")}, ("Unschedulable", "no room"), id="a place"
        ),
        pytest.param(PENDING, {"group": ObservedGroup({}, "Inqueue")}, ("", ""), id="a place, for no known reason"),
        pytest.param(PENDING, {"gang": NO_GANG, "group": None}, ("", ""), id="a place, without a gang"),
        pytest.param(BOTH, {"group": ObservedGroup({}, "Inqueue", "no room")}, ("", ""), id="a place is not needed"),
        pytest.param(
            (a_pod("worker-0", "Pending", deleted_at=NOW), a_pod("worker-1")),
            {"group": ObservedGroup({}, "Inqueue", "no room")},
            ("", ""),
            id="a place for one that goes",
        ),
        pytest.param(BOTH, {"failures": (REFUSED,)}, ("FailedCreate", "quota"), id="a failure"),
        pytest.param((WAITS, a_pod("worker-1")), {}, ("InvalidImageName", WAITS_FOR), id="a pod"),
        pytest.param(
            (WAITS,), {"gang": NATIVE, "group": None}, ("InvalidImageName", WAITS_FOR), id="a pod, others to come"
        ),
        pytest.param(
            (WAITS,),
            {"group": ObservedGroup({}, "Inqueue", "no room")},
            ("Unschedulable", "no room"),
            id="the gang first",
        ),
        pytest.param((WAITS, a_pod("worker-1", **LOST)), {}, ("NodeLost", DOES_NOT_ANSWER), id="a node"),
        pytest.param((WAITS,), {"phase": "Aborting"}, ("", ""), id="winding down"),
        pytest.param(
            (a_pod("worker-1", **LOST),),
            {"phase": "Aborting"},
            ("NodeLost", DOES_NOT_ANSWER),
            id="a node, winding down",
        ),
        pytest.param((), {"failures": (REFUSED, REFUSED)}, ("FailedCreate", "quota (and 1 more)"), id="two failures"),
    ],
)
def test_what_a_job_waits_for(pods: tuple[ObservedPod, ...], fields: dict[str, Any], expected: tuple[str, str]) -> None:
    state = a_state(*pods, **fields)
    found = waiting_reason(state, plan_pods(state, NOW), JobState(), NOW)
    assert (found.reason, found.message) == expected

from __future__ import annotations

from typing import Any

import pytest

from pumice.diagnosis.cluster.controller_layer import dependency, no_controller, refusal, restart
from pumice.diagnosis.cluster.reading import Unread
from pumice.diagnosis.cluster.why_on_cluster import why_on_cluster
from pumice.model.job import DependsOn
from tests.builders import UID, a_task
from tests.unit.diagnosis.cluster.readings import NOW, ago, container, event, job, lease, pod, reading

READY = container(ready=True)
UNREAD = Unread("no right")


def depends(*names: str, **fields: str) -> Any:
    return job(a_task("a", 2), a_task("b", 1), a_task("c", 1, depends_on=DependsOn(name=list(names), **fields)))


def runs(name: str) -> Any:
    return pod(name, "Running", containerStatuses=READY)


@pytest.mark.parametrize(
    ("made", "pods", "message"),
    [
        pytest.param(depends(), (), None, id="no name"),
        pytest.param(depends("x"), (), None, id="no such task"),
        pytest.param(depends("a"), (runs("a-0"),), "c waits for a (1 of 2 ready)", id="one of two"),
        pytest.param(depends("a"), (runs("a-0"), pod("a-1", "Succeeded")), None, id="one has succeeded"),
        pytest.param(depends("a"), (runs("c-0"),), None, id="it has begun"),
        pytest.param(depends("a", "b"), (runs("a-0"),), "c waits for a (1 of 2 ready) and b (0 of 1 ready)", id="both"),
        pytest.param(
            depends("a", "b", iteration="any"), (), "c waits for a (0 of 2 ready) or b (0 of 1 ready)", id="any"
        ),
        pytest.param(depends("a", "b", iteration="any"), (runs("b-0"),), None, id="one is enough"),
        pytest.param(
            depends("b", condition="Completed"), (runs("b-0"),), "c waits for b (0 of 1 completed)", id="completed"
        ),
        pytest.param(depends("b", condition="Completed"), (pod("b-0", "Succeeded"),), None, id="it has completed"),
    ],
)
def test_what_a_task_waits_for(made: Any, pods: Any, message: str | None) -> None:
    cause = dependency(reading(made, pods=pods))
    assert (None if cause is None else cause.message) == message


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        pytest.param({}, "c waits for a (0 of 2 ready)", id="nothing yet"),
        pytest.param({"a": {"Running": 1, "Succeeded": 0}}, "c waits for a (1 of 2 ready)", id="one runs"),
        pytest.param({"a": {"Running": 1, "Succeeded": 1}}, None, id="one runs, one has succeeded"),
        pytest.param({"c": {"Pending": 1}}, None, id="it has begun"),
    ],
)
def test_the_status_counts_where_pods_are_unread(counts: dict[str, dict[str, int]], message: str | None) -> None:
    made = depends("a").replace(status=job(counts=counts).status)
    cause = dependency(reading(made, pods=UNREAD))
    assert (None if cause is None else cause.message) == message


TEXT = "exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2"
OF_JOB = {"kind": "Job", "name": "train", "uid": UID}


@pytest.mark.parametrize(
    ("made", "pods", "seconds", "is_refused"),
    [
        pytest.param(job(), (), 60, True, id="an event"),
        pytest.param(job(), (pod(meta={"creationTimestamp": ago(30)}),), 60, False, id="a pod was made since"),
        pytest.param(job(phase=""), (), 60, True, id="no status yet"),
        pytest.param(job(phase="Restarting"), (), 60, False, id="pods end"),
        pytest.param(job(phase="Running"), (), 60, True, id="more pods are wanted"),
        pytest.param(job(), (), 301, False, id="before the Job was Pending"),
        pytest.param(job(), UNREAD, 60, True, id="pods are unread"),
    ],
)
def test_which_events_count(made: Any, pods: Any, seconds: int, is_refused: bool) -> None:
    events = (
        event("Job", "train", "FailedCreate", "older", 299, involvedObject=OF_JOB),
        event("Job", "train", "FailedCreate", TEXT, seconds, involvedObject=OF_JOB),
    )
    cause = refusal(reading(made, pods=pods, events=events[1:] if seconds > 299 else events))
    assert (cause is not None) == is_refused
    if cause is not None:
        assert cause.message == "ResourceQuota few has no room: pods: 1 wanted, 0 of 2 free, 1 short"


def test_the_state_is_newer_than_an_event_that_says_something_else() -> None:
    made = job(reason="FailedCreate", message="denied by a webhook")
    cause = refusal(reading(made, events=(event("Job", "train", "FailedCreate", TEXT, 60, involvedObject=OF_JOB),)))
    assert cause is not None
    assert cause.message == "its pods cannot be created: denied by a webhook"


def test_times_of_the_new_events_api() -> None:
    plain: dict[str, Any] = {
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": "2026-05-04T11:58:00.000000Z",
        "involvedObject": OF_JOB,
    }
    series = {"count": 2, "lastObservedTime": "2026-05-04T11:59:00.000000Z"}
    once = event("Job", "train", "FailedCreate", TEXT, **plain)
    again = event("Job", "train", "FailedCreate", "again", **plain, series=series)
    cause = refusal(reading(events=(once, again)))
    assert cause is not None
    assert (cause.message, cause.since) == ("its pods cannot be created: again", once.begin)


def test_a_restart_waits_for_the_pods_of_the_attempt_before() -> None:
    gone = [pod(f"worker-{index}", meta={"deletionTimestamp": ago(-20)}) for index in range(2)]
    cause = restart(reading(job(phase="Restarting"), pods=tuple(gone)))
    assert cause is not None
    assert cause.message == "attempt 1 begins; waits for 2 pods to end"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({}, "no controller of Jobs is at work in this cluster", id="no Lease"),
        pytest.param({"leases": (lease("", 2),)}, "the holder of Lease kube-system/pumice-controller", id="no holder"),
    ],
)
def test_a_job_that_nobody_looks_at(fields: dict[str, Any], message: str) -> None:
    cause = no_controller(reading(job(phase=""), **fields), NOW)
    assert cause is not None
    assert message in cause.message
    assert no_controller(reading(job()), NOW) is None


@pytest.mark.parametrize(
    ("queue", "leases", "message"),
    [
        pytest.param("vision", (), "queue vision does not exist", id="no Lease"),
        pytest.param("vision", UNREAD, "queue vision does not exist", id="unread Leases"),
        pytest.param("default", (lease(),), "queue default does not exist", id="a controller is at work"),
        pytest.param("vision", (lease(renewed=90),), "no controller has acted on it", id="none is at work"),
        pytest.param("default", (), "no controller has acted on it", id="no Lease, and no default queue"),
    ],
)
def test_without_its_queue_volcanos_controller_writes_no_status(queue: str, leases: Any, message: str) -> None:
    why = why_on_cluster(reading(job(phase="", queue=queue), leases=leases, queues=(), pod_groups=()), NOW)
    assert why.message.startswith(message)
    assert why.message.endswith(", which does not exist") is (queue == "default" and leases == ())

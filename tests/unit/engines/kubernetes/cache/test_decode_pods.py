from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from pumice.engines.kubernetes.cache.decode_pods import (
    decode_object,
    decode_owned,
    decode_pod,
    decode_priority_class,
    owned_by,
)
from pumice.model.snapshot import JobKey, PodPhase, Waiting
from pumice.model.units import NEVER

OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "j1", "controller": True}
ANNOTATIONS = {
    "volcano.sh/task-spec": "worker",
    "volcano.sh/task-index": "3",
    "volcano.sh/job-version": "2",
    "volcano.sh/job-retry-count": "1",
}


def a_pod(owner: dict[str, Any] | None = OWNER, annotations: dict[str, str] | None = None, **status: Any) -> bytes:
    metadata = {
        "name": "train-worker-3",
        "namespace": "lab",
        "uid": "p1",
        "resourceVersion": "42",
        "creationTimestamp": "2030-01-01T00:00:00Z",
        "annotations": {**ANNOTATIONS, **(annotations or {})},
        "managedFields": [{"manager": "pumice"}],
    }
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return json.dumps({"metadata": metadata, "spec": {"containers": []}, "status": status}).encode()


def ended(name: str, code: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code, **more}}}


def test_a_pod_of_a_job() -> None:
    pod = decode_pod(a_pod(phase="Running", containerStatuses=[{"name": "main", "ready": True, "restartCount": 2}]))
    assert pod is not None
    assert (pod.job, pod.job_uid, pod.uid, pod.resource_version) == (JobKey("lab", "train"), "j1", "p1", "42")
    seen = pod.observed
    assert (seen.task, seen.index, seen.version, seen.retry) == ("worker", 3, 2, 1)
    assert (seen.phase, seen.ready, seen.restarts) == (PodPhase.RUNNING, True, 2)
    # The end of that second, so that timeouts do not fire too early.
    assert seen.created_at == dt.datetime(2030, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    assert not pod.is_gone


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(a_pod(owner=None), id="no owner"),
        pytest.param(a_pod(owner={**OWNER, "controller": False}), id="owned, not controlled"),
        pytest.param(a_pod(owner={**OWNER, "apiVersion": "batch/v1"}), id="a Job of Kubernetes"),
        pytest.param(a_pod(owner={**OWNER, "kind": "JobFlow"}), id="another kind"),
        pytest.param(a_pod(annotations={"volcano.sh/task-index": "-1"}), id="an index below zero"),
        pytest.param(a_pod(annotations={"volcano.sh/task-index": "9" * 5000}), id="an index of thousands of digits"),
        pytest.param(a_pod(annotations={"volcano.sh/task-index": "٣"}), id="a digit of another script"),
    ],
)
def test_pods_that_belong_to_no_job(raw: bytes) -> None:
    assert decode_pod(raw) is None


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        pytest.param("", PodPhase.PENDING, id="empty"),
        pytest.param("Succeeded", PodPhase.SUCCEEDED, id="known"),
        pytest.param("Paused", PodPhase.UNKNOWN, id="unknown"),
    ],
)
def test_phases(text: str, phase: PodPhase) -> None:
    pod = decode_pod(a_pod(phase=text))
    assert pod is not None
    assert pod.observed.phase is phase


def test_terminated_containers_init_containers_first() -> None:
    pod = decode_pod(
        a_pod(
            phase="Failed",
            reason="Evicted",
            initContainerStatuses=[ended("init", 0)],
            containerStatuses=[
                ended("main", 137, reason="OOMKilled", signal=9, finishedAt="2030-01-01T00:01:00Z", message="a\nb\n"),
                {"name": "side", "state": {"running": {}}},
            ],
        )
    )
    assert pod is not None
    init, main = pod.observed.ends
    assert (init.container, init.exit_code) == ("init", 0)
    assert (main.exit_code, main.reason, main.signal, main.last_line) == (137, "OOMKilled", 9, "b")
    assert main.finished_at == dt.datetime(2030, 1, 1, 0, 1, 1, tzinfo=dt.UTC)
    assert pod.observed.reason == "Evicted"


def waits(name: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def runs(name: str, since: str = "2030-01-01T00:00:09Z") -> dict[str, Any]:
    return {"name": name, "ready": True, "state": {"running": {"startedAt": since}}}


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *(
            pytest.param({"containerStatuses": [waits("main", reason, "why")]}, Waiting(reason, "why"), id=reason)
            for reason in (
                *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CrashLoopBackOff"),
                *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
            )
        ),
        pytest.param(
            {
                "initContainerStatuses": [waits("init", "ErrImagePull", "403")],
                "containerStatuses": [waits("main", "PodInitializing")],
            },
            Waiting("ErrImagePull", "403"),
            id="an init container",
        ),
        pytest.param(
            {"containerStatuses": [waits("main", "ContainerCreating"), waits("side", "ErrImagePull")]},
            Waiting("ErrImagePull"),
            id="the first that says something",
        ),
        pytest.param({"containerStatuses": [waits("main", "ContainerCreating")]}, None, id="it starts"),
        pytest.param({"containerStatuses": [waits("main", "")]}, None, id="nothing is said"),
        pytest.param({"containerStatuses": [runs("main")]}, None, id="it runs"),
        pytest.param({"conditions": [UNSCHEDULABLE]}, Waiting("Unschedulable", "0/3 nodes"), id="unschedulable"),
        pytest.param({"conditions": [{**UNSCHEDULABLE, "status": "True"}]}, None, id="scheduled"),
        pytest.param({"conditions": [{**UNSCHEDULABLE, "reason": ""}]}, None, id="not scheduled yet"),
        pytest.param({"conditions": [{**UNSCHEDULABLE, "type": "Ready"}]}, None, id="another condition"),
    ],
)
def test_what_a_pod_waits_for(status: dict[str, Any], expected: Waiting | None) -> None:
    pod = decode_pod(a_pod(phase="Pending", **status))
    assert pod is not None
    assert pod.observed.waiting == expected


def test_a_scheduler_that_writes_after_the_pod_has_begun_to_run_is_outdated() -> None:
    pod = decode_pod(a_pod(phase="Running", conditions=[UNSCHEDULABLE], containerStatuses=[runs("main")]))
    assert pod is not None
    assert pod.observed.waiting is None


def test_when_a_container_last_started_or_ended() -> None:
    main = ended("main", 1, finishedAt="2030-01-01T00:00:03Z")
    pod = decode_pod(a_pod(phase="Running", containerStatuses=[main, runs("side"), waits("third", "ErrImagePull")]))
    assert pod is not None
    assert pod.observed.changed_at == dt.datetime(2030, 1, 1, 0, 0, 10, tzinfo=dt.UTC)


UNREADY = {"type": "Ready", "status": "False"}


@pytest.mark.parametrize(
    ("status", "lost"),
    [
        pytest.param({"phase": "Running", "containerStatuses": [runs("main")]}, False, id="runs"),
        pytest.param({"phase": "Unknown"}, True, id="unknown"),
        pytest.param({"phase": "Running", "reason": "NodeLost"}, True, id="lost"),
        pytest.param(
            {"phase": "Running", "conditions": [UNREADY], "containerStatuses": [runs("main")]},
            True,
            id="marked by the controller of nodes",
        ),
        pytest.param(
            {
                "phase": "Running",
                "conditions": [{**UNREADY, "reason": "ReadinessGatesNotReady"}],
                "containerStatuses": [runs("main")],
            },
            False,
            id="marked by its kubelet",
        ),
        pytest.param(
            {
                "phase": "Running",
                "conditions": [UNREADY],
                "containerStatuses": [runs("main"), waits("side", "ErrImagePull")],
            },
            False,
            id="a container is not ready",
        ),
        pytest.param({"phase": "Pending", "conditions": [UNREADY]}, False, id="it starts"),
    ],
)
def test_a_pod_whose_node_is_lost(status: dict[str, Any], lost: bool) -> None:
    raw = json.loads(a_pod(**status))
    raw["spec"] = {"nodeName": "n1"}
    pod = decode_pod(json.dumps(raw).encode())
    assert pod is not None
    assert pod.observed.is_unreachable is lost
    assert pod.observed.node == ("n1" if lost else "")


def test_the_node_of_a_pod_that_is_being_deleted() -> None:
    raw = json.loads(a_pod(phase="Running"))
    raw["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    raw["spec"] = {"nodeName": "n1"}
    pod = decode_pod(json.dumps(raw).encode())
    assert pod is not None
    assert pod.observed.node == "n1"


ZERO, ONE = ended("main", 0), ended("main", 1)
RUNS = {"name": "main", "state": {"running": {}}}
WAITS = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
MAIN = {"containers": [{"name": "main", "image": "x"}]}
TWO = {"containers": [{"name": "main"}, {"name": "other"}]}
INIT = {**MAIN, "initContainers": [{"name": "init"}]}
SIDECAR = {**MAIN, "initContainers": [{"name": "init", "restartPolicy": "Always"}]}


def own_policy(policy: str, **more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "restartPolicy": policy, **more}]}


@pytest.mark.parametrize(
    ("policy", "spec", "inits", "containers", "expected"),
    [
        pytest.param("Never", MAIN, [], [ZERO], True, id="success"),
        pytest.param("Never", MAIN, [], [ONE], True, id="failure"),
        pytest.param("Never", MAIN, [], [RUNS], False, id="runs"),
        pytest.param("Never", MAIN, [], [], False, id="not started"),
        pytest.param("OnFailure", MAIN, [], [ZERO], True, id="OnFailure, success"),
        pytest.param("OnFailure", MAIN, [], [ONE], False, id="OnFailure, failure is restarted"),
        pytest.param("Always", MAIN, [], [ZERO], False, id="Always is restarted"),
        pytest.param("Never", TWO, [], [ZERO, ended("other", 1)], True, id="both have ended"),
        pytest.param("Never", TWO, [], [ZERO, {**RUNS, "name": "other"}], False, id="one runs"),
        pytest.param("Never", TWO, [], [ZERO], False, id="one has not been reported yet"),
        pytest.param("Always", own_policy("Never"), [], [ONE], True, id="the policy of the container"),
        pytest.param("Never", own_policy("OnFailure"), [], [ONE], False, id="the policy of the container restarts it"),
        pytest.param(
            "Never", own_policy("Never", restartPolicyRules=[{}]), [], [ONE], False, id="rules may restart it"
        ),
        pytest.param("Never", INIT, [ended("init", 0)], [WAITS], False, id="init succeeded"),
        pytest.param("Never", INIT, [ended("init", 1)], [WAITS], True, id="init failed for good"),
        pytest.param("OnFailure", INIT, [ended("init", 1)], [WAITS], False, id="init is restarted"),
        pytest.param("Never", SIDECAR, [ended("init", 1)], [RUNS], False, id="a sidecar is restarted"),
        pytest.param("Never", SIDECAR, [ended("init", 1)], [WAITS], False, id="a sidecar failed first"),
        pytest.param("Never", SIDECAR, [{**RUNS, "name": "init"}], [ZERO], True, id="kubelet stops the sidecar"),
    ],
)
def test_containers_that_have_ended_for_good(
    policy: str, spec: dict[str, Any], inits: list[Any], containers: list[Any], expected: bool
) -> None:
    pod = json.loads(a_pod(phase="Running", initContainerStatuses=inits, containerStatuses=containers))
    seen = decode_pod(json.dumps({**pod, "spec": {**spec, "restartPolicy": policy}}).encode())
    assert seen is not None
    assert seen.observed.has_ended is expected
    assert seen.observed.is_finished is expected
    assert seen.observed.phase is PodPhase.RUNNING


def test_timestamps_out_of_range() -> None:
    pod = json.loads(a_pod())
    pod["metadata"] |= {"deletionTimestamp": "33658-09-27T01:46:40Z", "deletionGracePeriodSeconds": 10**12}
    ended = {"terminated": {"exitCode": 1, "finishedAt": "0000-01-01T00:00:00Z"}}
    pod["status"] = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": ended}]}
    seen = decode_pod(json.dumps(pod).encode())
    assert seen is not None
    assert (seen.observed.deleted_at, seen.is_gone) == (NEVER, False)
    assert seen.observed.ends[0].finished_at is None


@pytest.mark.parametrize(
    ("grace", "gone"), [pytest.param(0, True, id="without grace"), pytest.param(30, False, id="with grace")]
)
def test_a_pod_that_is_deleted_without_grace_is_gone(grace: int, gone: bool) -> None:
    pod = json.loads(a_pod())
    pod["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:30Z", "deletionGracePeriodSeconds": grace}
    seen = decode_pod(json.dumps(pod).encode())
    assert seen is not None
    assert seen.is_gone is gone
    assert seen.observed.is_deleting


def test_metadata_of_other_objects() -> None:
    owned = {
        "metadata": {"name": "x", "namespace": "lab", "uid": "u", "resourceVersion": "7", "ownerReferences": [OWNER]}
    }
    free = {"metadata": {"name": "y", "uid": "v"}}
    seen = decode_owned(json.dumps(owned).encode())
    assert seen is not None
    assert (seen.job, seen.job_uid) == (JobKey("lab", "train"), "j1")
    assert decode_owned(json.dumps(free).encode()) is None
    assert decode_object(json.dumps(free).encode()).job is None
    assert owned_by(owned, "j1")
    assert not owned_by(owned, "j2")
    assert not owned_by(free, "j1")


def test_priority_classes() -> None:
    raw = json.dumps({"metadata": {"name": "high", "uid": "u", "resourceVersion": "1"}, "value": 1000}).encode()
    seen = decode_priority_class(raw)
    assert (seen.name, seen.value, seen.namespace) == ("high", 1000, "")

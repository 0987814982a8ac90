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
from pumice.model.snapshot import JobKey, PodPhase
from pumice.model.timestamps import NEVER

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

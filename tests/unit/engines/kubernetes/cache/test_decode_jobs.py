from __future__ import annotations

import json
from typing import Any

import pytest

from pumice.admission.defaults import with_defaults
from pumice.engines.kubernetes.cache.decode_jobs import decode_command, decode_job, reuse_spec
from pumice.model.job import Job
from pumice.model.snapshot import JobKey
from pumice.plugins.registry import Registry
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.builders import a_document, a_template

TYPES = kubernetes_types().types


def raw(document: dict[str, Any], **metadata: object) -> bytes:
    filled = {"name": "train", "namespace": "lab", "uid": "u1", "resourceVersion": "5", "generation": 1, **metadata}
    return json.dumps({**document, "metadata": filled}).encode()


def test_a_valid_job() -> None:
    seen = decode_job(raw(a_document()), TYPES)
    assert (seen.key, seen.uid, seen.resource_version, seen.errors) == (JobKey("lab", "train"), "u1", "5", ())
    assert seen.job.spec.tasks[0].name == "worker"


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        pytest.param({"tasks": "many"}, "spec.tasks: must be a list", id="text for a list"),
        pytest.param({"minAvailable": "two"}, "spec.minAvailable: must be", id="text for a number"),
        pytest.param({"queue": 7}, "spec.queue: must be", id="number for text"),
    ],
)
def test_an_invalid_spec_is_reported_with_the_job(spec: dict[str, Any], error: str) -> None:
    seen = decode_job(raw(a_document(**spec)), TYPES)
    assert seen.key == JobKey("lab", "train")
    assert any(one.startswith(error) for one in seen.errors), seen.errors


def test_an_invalid_status_is_ignored() -> None:
    seen = decode_job(raw({**a_document(), "status": {"state": "Running", "version": "x"}}), TYPES)
    assert seen.job.status.state.phase == ""
    assert seen.errors == ()


def test_the_valid_parts_of_a_status_are_kept() -> None:
    status = {
        "state": {"phase": "Completed"},
        "version": 3,
        "retryCount": "many",
        "running": None,
        "conditions": [{"status": "Running"}, {}, 7],
        "controlledResources": {"pumice/spent": "2", "plugin-svc": 7},
        "taskStatusCount": {"worker": {"phase": {"Running": "x"}}},
    }
    seen = decode_job(raw({**a_document(), "status": status}), TYPES)
    kept = seen.job.status
    assert (kept.state.phase, kept.version, kept.retry_count) == ("Completed", 3, 0)
    assert [condition.status for condition in kept.conditions] == ["Running"]
    assert kept.controlled_resources == {"pumice/spent": "2"}
    assert seen.errors == ()


@pytest.mark.parametrize("status", [pytest.param([], id="a list"), pytest.param("Running", id="text")])
def test_a_status_of_another_type_is_ignored(status: object) -> None:
    assert decode_job(raw({**a_document(), "status": status}), TYPES).job.status.state.phase == ""


def test_a_status_with_an_invalid_spec_is_kept() -> None:
    document = {**a_document(minAvailable="two"), "status": {"state": {"phase": "Running"}}}
    assert decode_job(raw(document), TYPES).job.status.state.phase == "Running"


def test_the_spec_is_reused_until_the_generation_changes() -> None:
    first = decode_job(raw(a_document()), TYPES)
    again = decode_job(raw(a_document(), resourceVersion="6"), TYPES)
    changed = decode_job(raw(a_document(minAvailable=1), resourceVersion="7", generation=2), TYPES)
    other = decode_job(raw(a_document(), uid="u2"), TYPES)
    assert reuse_spec(again, first).job.spec is first.job.spec
    assert reuse_spec(again, first).resource_version == "6"
    assert reuse_spec(changed, first) == changed
    assert reuse_spec(other, first) == other
    assert reuse_spec(first, None) == first


def test_defaults_are_added_once_per_spec() -> None:
    def add_defaults(job: Job) -> Job:
        return with_defaults(job, Registry())

    document = a_document(plugins={"mpi": []}, tasks=[{"replicas": 1, "template": a_template()}])
    first = reuse_spec(decode_job(raw(document), TYPES), None, add_defaults)
    assert sorted(first.job.spec.plugins) == ["mpi", "ssh", "svc"]
    assert first.job.spec.tasks[0].name == "default0"
    again = reuse_spec(decode_job(raw(document, resourceVersion="6"), TYPES), first, add_defaults)
    assert again.job.spec is first.job.spec
    bad = decode_job(raw(a_document(tasks="many")), TYPES)
    assert reuse_spec(bad, None, add_defaults) is bad


def test_only_commands_to_jobs_are_kept() -> None:
    command = {"metadata": {"name": "c", "namespace": "lab", "uid": "u"}, "action": "AbortJob"}
    to_job = {**command, "target": {"kind": "Job", "name": "train"}}
    seen = decode_command(json.dumps(to_job).encode())
    assert seen is not None
    assert (seen.job, seen.name, seen.uid) == (JobKey("lab", "train"), "c", "u")
    assert decode_command(json.dumps({**command, "target": {"kind": "Queue", "name": "q"}}).encode()) is None
    assert decode_command(json.dumps(command).encode()) is None


def test_a_command_that_only_a_finalizer_keeps_is_ignored() -> None:
    metadata = {"name": "c", "namespace": "lab", "uid": "u", "deletionTimestamp": "2030-01-02T03:04:05Z"}
    going = {"metadata": metadata, "action": "AbortJob", "target": {"kind": "Job", "name": "train"}}
    assert decode_command(json.dumps(going).encode()) is None

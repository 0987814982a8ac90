from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pumice.model.bare_pod import bare_pod
from pumice.model.job import JobStatus, PartitionPolicy, VolumeSpec
from pumice.model.naming import claim_volume
from tests.builders import NAMESPACE, OWNER, UID, a_container, a_job, a_slot, a_task, a_template

LABELS = {
    "volcano.sh/job-name": "train",
    "volcano.sh/job-namespace": NAMESPACE,
    "volcano.sh/queue-name": "default",
    "volcano.sh/task-spec": "worker",
    "volcano.sh/task-index": "0",
}
ANNOTATIONS = {
    "volcano.sh/job-name": "train",
    "volcano.sh/job-retry-count": "0",
    "volcano.sh/job-version": "0",
    "scheduling.k8s.io/group-name": f"train-{UID}",
    "volcano.sh/queue-name": "default",
    "volcano.sh/task-spec": "worker",
    "volcano.sh/template-uid": "train-worker",
    "volcano.sh/task-index": "0",
}


def test_a_plain_pod() -> None:
    assert bare_pod(a_slot(a_job())).manifest == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-worker-0",
            "namespace": NAMESPACE,
            "labels": LABELS,
            "annotations": ANNOTATIONS,
            "ownerReferences": [OWNER],
        },
        "spec": {"containers": [a_container()], "schedulerName": "volcano"},
    }


def test_pods_of_a_task_differ_by_index_only() -> None:
    job = a_job(a_task("worker", 2))
    first, second = (bare_pod(a_slot(job, "worker", index)).manifest for index in (0, 1))
    metadata = second["metadata"]
    assert metadata["name"] == "train-worker-1"
    assert metadata["labels"] == {**LABELS, "volcano.sh/task-index": "1"}
    assert metadata["annotations"] == {**ANNOTATIONS, "volcano.sh/task-index": "1"}
    assert (first["spec"], first["metadata"]["ownerReferences"]) == (second["spec"], metadata["ownerReferences"])


def test_of_the_template_s_metadata_labels_and_annotations_are_used_and_the_job_s_win() -> None:
    metadata = {
        "name": "ignored",
        "namespace": "ignored",
        "finalizers": ["ignored"],
        "labels": {"app": "demo", "volcano.sh/task-index": "9"},
        "annotations": {"note": "x", "volcano.sh/job-name": "other"},
    }
    pod = bare_pod(a_slot(a_job(a_task(template={**a_template(), "metadata": metadata}))))
    assert pod.manifest["metadata"] == {
        "name": "train-worker-0",
        "namespace": NAMESPACE,
        "labels": {"app": "demo", **LABELS},
        "annotations": {"note": "x", **ANNOTATIONS},
        "ownerReferences": [OWNER],
    }


@pytest.mark.parametrize(
    ("annotations", "labels", "pod_annotations", "pod_labels"),
    [
        pytest.param(
            {
                "volcano.sh/preemptable": "true",
                "volcano.sh/cooldown-time": "1m",
                "volcano.sh/revocable-zone": "*",
                "volcano.sh/jdb-min-available": "1",
                "volcano.sh/jdb-max-unavailable": "2",
                "other": "x",
            },
            {},
            {
                "volcano.sh/preemptable": "true",
                "volcano.sh/cooldown-time": "1m",
                "volcano.sh/revocable-zone": "*",
                "volcano.sh/jdb-min-available": "1",
            },
            {},
            id="annotations; the floor of a disruption budget wins",
        ),
        pytest.param(
            {"volcano.sh/jdb-max-unavailable": "2"},
            {},
            {"volcano.sh/jdb-max-unavailable": "2"},
            {},
            id="the ceiling alone",
        ),
        pytest.param(
            {},
            {
                "volcano.sh/preemptable": "true",
                "volcano.sh/cooldown-time": "1m",
                "volcano.sh/revocable-zone": "*",
                "a": "b",
            },
            {},
            {"volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "1m"},
            id="labels",
        ),
        pytest.param(
            {"volcano.sh/job-forwarding": "true"},
            {},
            {"volcano.sh/job-forwarding": "true"},
            {"volcano.sh/job-forwarding": "true"},
            id="forwarded",
        ),
        pytest.param({"volcano.sh/job-forwarding": "false"}, {}, {}, {}, id="not forwarded"),
    ],
)
def test_what_is_copied_from_the_job(
    annotations: dict[str, str], labels: dict[str, str], pod_annotations: dict[str, str], pod_labels: dict[str, str]
) -> None:
    job = a_job(metadata={"annotations": annotations, "labels": labels})
    metadata = bare_pod(a_slot(job)).manifest["metadata"]
    assert metadata["annotations"] == {**ANNOTATIONS, **pod_annotations}
    assert metadata["labels"] == {**LABELS, **pod_labels}


def test_version_and_restarts_are_the_status_s() -> None:
    job = msgspec.structs.replace(a_job(), status=JobStatus(version=3, retry_count=2))
    annotations = bare_pod(a_slot(job)).annotations
    assert annotations == {**ANNOTATIONS, "volcano.sh/job-version": "3", "volcano.sh/job-retry-count": "2"}


def test_topology_policy_and_partition() -> None:
    policy = PartitionPolicy(total_partitions=2, partition_size=2)
    job = a_job(a_task("worker", 4, topology_policy="best-effort", partition_policy=policy))
    pods = [bare_pod(a_slot(job, "worker", index)) for index in range(4)]
    assert [pod.manifest["metadata"]["labels"]["volcano.sh/partition-id"] for pod in pods] == ["0", "0", "1", "1"]
    assert pods[0].annotations == {**ANNOTATIONS, "volcano.sh/numa-topology-policy": "best-effort"}


@pytest.mark.parametrize(
    ("own", "spec", "expected"),
    [
        pytest.param({}, {}, {"schedulerName": "volcano"}, id="the job's"),
        pytest.param({"schedulerName": "mine"}, {}, {"schedulerName": "mine"}, id="the template's scheduler"),
        pytest.param(
            {"schedulerName": ""},
            {"priority_class_name": "high"},
            {"schedulerName": "volcano", "priorityClassName": "high"},
            id="the job's priority",
        ),
        pytest.param(
            {"priorityClassName": "low"},
            {"priority_class_name": "high"},
            {"priorityClassName": "low", "schedulerName": "volcano"},
            id="the template's priority",
        ),
    ],
)
def test_scheduler_and_priority(own: dict[str, Any], spec: dict[str, Any], expected: dict[str, Any]) -> None:
    job = a_job(a_task(template=a_template(**own)), **spec)
    assert bare_pod(a_slot(job)).spec == {"containers": [a_container()], **expected}


def test_claims_are_mounted() -> None:
    volume = claim_volume("train", UID, 0)
    job = a_job(volumes=[VolumeSpec(mount_path="/data", volume_claim_name="data")])
    assert bare_pod(a_slot(job)).spec == {
        "containers": [a_container(volumeMounts=[{"name": volume, "mountPath": "/data"}])],
        "schedulerName": "volcano",
        "volumes": [{"name": volume, "persistentVolumeClaim": {"claimName": "data"}}],
    }


@pytest.mark.parametrize("template", [{"metadata": None, "spec": None}, {"metadata": {"labels": None}}])
def test_a_template_with_nothing_in_it(template: dict[str, Any]) -> None:
    pod = bare_pod(a_slot(a_job(a_task(template=template))))
    assert (pod.spec, pod.manifest["metadata"]["labels"]) == ({"schedulerName": "volcano"}, LABELS)

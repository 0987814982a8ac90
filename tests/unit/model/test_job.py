from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pumice.model.findings import InvalidJob
from pumice.model.job import HOST_IMAGE, Job, JobSpec, LifecyclePolicy, PartitionPolicy, TaskSpec
from tests.builders import a_job, a_task

TOPOLOGY = {"mode": "hard", "highestTierAllowed": 1, "highestTierName": "rack"}
POLICY = {
    "action": "RestartJob",
    "event": "PodFailed",
    "events": ["PodEvicted"],
    "exitCode": 3,
    "exitCodes": [4, 5],
    "timeout": "30s",
}
WRITTEN: dict[str, Any] = {
    "metadata": {"name": "train"},
    "spec": {
        "schedulerName": "volcano",
        "minAvailable": 1,
        "volumes": [{"mountPath": "/a", "volumeClaimName": "b", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}],
        "tasks": [
            {
                "name": "worker",
                "replicas": 2,
                "minAvailable": 1,
                "template": {"spec": {"containers": [{"name": "main", "x": None}]}},
                "policies": [POLICY],
                "topologyPolicy": "best-effort",
                "maxRetry": 1,
                "maxRestarts": 2,
                "dependsOn": {"name": ["ps"], "iteration": "any", "condition": "Completed"},
                "partitionPolicy": {
                    "totalPartitions": 2,
                    "partitionSize": 1,
                    "minPartitions": 1,
                    "networkTopology": TOPOLOGY,
                },
            }
        ],
        "policies": [POLICY],
        "plugins": {"svc": [], "ssh": ["--ssh-port=1"]},
        "runningEstimate": "1h",
        "queue": "q",
        "maxRetry": 3,
        "ttlSecondsAfterFinished": 4,
        "priorityClassName": "high",
        "minSuccess": 1,
        "networkTopology": TOPOLOGY,
        "activeDeadlineSeconds": 5,
        "suspend": True,
    },
    "status": {"version": 1},
}


def test_every_field_is_read_and_written() -> None:
    assert msgspec.to_builtins(msgspec.convert(WRITTEN, Job)) == WRITTEN


def test_an_empty_job() -> None:
    assert msgspec.to_builtins(Job()) == {}
    assert (Job().api_version, Job().kind) == ("batch.volcano.sh/v1alpha1", "Job")


def test_shortcuts() -> None:
    job = a_job(a_task("a", 2), a_task("b", 3))
    assert (job.name, job.namespace, job.uid) == (job.metadata.name, job.metadata.namespace, job.metadata.uid)
    assert job.total_replicas == 5
    assert (job.task("b"), job.task("c")) == (job.spec.tasks[1], None)


def test_the_first_of_two_tasks_with_one_name_counts() -> None:
    assert a_job(a_task("a", 1), a_task("a", 2)).task("a") == a_task("a", 1)


@pytest.mark.parametrize(
    ("policy", "events", "codes"),
    [
        pytest.param(LifecyclePolicy(), (), (), id="none"),
        pytest.param(LifecyclePolicy(event="A", exit_code=1), ("A",), (1,), id="one"),
        pytest.param(LifecyclePolicy(events=["A", "B"], exit_codes=[1, 2]), ("A", "B"), (1, 2), id="lists"),
        pytest.param(
            LifecyclePolicy(event="C", events=["A", "B"], exit_code=0, exit_codes=[1]),
            ("A", "B", "C"),
            (1, 0),
            id="both",
        ),
    ],
)
def test_both_spellings_of_events_and_codes(
    policy: LifecyclePolicy, events: tuple[str, ...], codes: tuple[int, ...]
) -> None:
    assert (policy.all_events, policy.all_exit_codes) == (events, codes)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        pytest.param(a_task(replicas=4), 4, id="replicas"),
        pytest.param(a_task(replicas=4, min_available=0), 0, id="minAvailable"),
        pytest.param(
            a_task(replicas=4, partition_policy=PartitionPolicy(partition_size=2, min_partitions=1)), 2, id="partitions"
        ),
        pytest.param(a_task(replicas=4, partition_policy=PartitionPolicy(partition_size=2)), 4, id="no minPartitions"),
        pytest.param(
            a_task(replicas=4, min_available=4, partition_policy=PartitionPolicy(partition_size=2, min_partitions=1)),
            4,
            id="minAvailable goes before partitions",
        ),
    ],
)
def test_min_members(task: TaskSpec, expected: int) -> None:
    assert task.min_members == expected


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"spec": []}], ids=str)
def test_a_template_without_a_pod_spec(template: dict[str, Any]) -> None:
    assert TaskSpec(template=template).pod_spec == {}


def test_what_is_derived_is_made_once_a_job() -> None:
    made = []

    def make(job: Job) -> int:
        made.append(job.name)
        return len(made)

    one, other = a_job(), a_job()
    assert [one.derived("x", make), one.derived("x", make), one.derived("y", make), other.derived("x", make)] == [
        *(1, 1, 2, 3)
    ]
    # A changed job starts afresh.
    assert msgspec.structs.replace(one, spec=JobSpec()).derived("x", make) == 4


def test_a_job_is_written_as_a_file() -> None:
    def written(image: str, *, for_cluster: bool = False) -> str:
        template = {"spec": {"containers": [{"name": "main", "image": image}]}}
        task = TaskSpec(name="worker", replicas=2, template=template)
        return Job(spec=JobSpec(tasks=[task])).to_yaml(for_cluster=for_cluster)

    assert written(HOST_IMAGE).startswith("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n")
    assert "image: python:3.12" in written("python:3.12", for_cluster=True)
    with pytest.raises(InvalidJob, match="on this machine the host serves as image, on a cluster nothing does"):
        written(HOST_IMAGE, for_cluster=True)


def test_a_copy_has_other_fields_of_metadata_and_spec() -> None:
    job = a_job(a_task())
    changed = job.replace(name="other", max_retry=7)
    assert (changed.name, changed.spec.max_retry, changed.spec.tasks) == ("other", 7, job.spec.tasks)
    assert job.replace(spec=JobSpec(max_retry=5), name="third").spec.max_retry == 5

from __future__ import annotations

from typing import Any

import pytest

from pumice.model.bare_pod import bare_pod
from pumice.model.job import Job, Manifest, NetworkTopology, PartitionPolicy, TaskSpec
from pumice.reconcile.gangs import min_resources, pod_group
from tests.builders import NAMESPACE, OWNER, UID, a_container, a_job, a_slot, a_task, a_template


def sized(cpu: str, priority: str = "", **resources: Any) -> Manifest:
    fields = {"priorityClassName": priority} if priority else {}
    return a_template(a_container(resources={"requests": {"cpu": cpu}, **resources}), **fields)


def test_the_complete_object() -> None:
    job = a_job(
        a_task("master", 1, sized("500m"), min_available=1),
        a_task("worker", 4, a_template(), min_available=2),
        min_available=3,
        queue="fast",
        priority_class_name="high",
        metadata={"labels": {"team": "a"}, "annotations": {"note": "b", "volcano.sh/preemptable": "true"}},
    )
    assert pod_group(job) == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": f"train-{UID}",
            "namespace": NAMESPACE,
            "ownerReferences": [OWNER],
            "labels": {"team": "a"},
            "annotations": {"note": "b", "volcano.sh/preemptable": "true"},
        },
        "spec": {
            "minMember": 3,
            "minTaskMember": {"master": 1, "worker": 2},
            "queue": "fast",
            "minResources": {"count/pods": "3", "cpu": "500m", "pods": "3", "requests.cpu": "500m"},
            "priorityClassName": "high",
        },
    }


def test_fields_that_are_not_set_are_left_out() -> None:
    group = pod_group(a_job(min_available=1))
    assert set(group["metadata"]) == {"name", "namespace", "ownerReferences"}
    assert set(group["spec"]) == {"minMember", "minTaskMember", "queue", "minResources"}


@pytest.mark.parametrize("others", [{}, {"note": "b"}], ids=["alone", "beside another annotation"])
def test_the_copy_of_the_job_that_kubectl_keeps_is_not_passed_on(others: dict[str, str]) -> None:
    """`kubectl apply` stores the whole Job in one of its annotations, given ssh keys included."""
    copy = {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {"plugins": {"ssh": ["PRIVATE"]}}}'}
    job = a_job(metadata={"annotations": {**copy, **others}})
    assert pod_group(job)["metadata"].get("annotations", {}) == others
    assert "PRIVATE" not in str(bare_pod(a_slot(job, "worker")).manifest)


PRIORITIES = {"high": 1000, "low": -5}


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        # The gang is smaller than the sum of the minima: up to all replicas, highest priority first.
        pytest.param(
            a_job(a_task("a", 2, sized("1")), a_task("b", 2, sized("10")), min_available=3),
            {"pods": "3", "cpu": "12"},
            id="smaller gang, in the order of the tasks",
        ),
        pytest.param(
            a_job(a_task("a", 2, sized("1")), a_task("b", 2, sized("10", "high")), min_available=3),
            {"pods": "3", "cpu": "21"},
            id="smaller gang, the important task first",
        ),
        pytest.param(
            a_job(
                a_task("a", 3, sized("1", "low"), min_available=3),
                a_task("b", 3, sized("10", "unheard-of"), min_available=1),
                min_available=2,
            ),
            {"pods": "2", "cpu": "20"},
            id="smaller gang, up to replicas rather than minAvailable",
        ),
        pytest.param(a_job(a_task("a", 2, sized("1")), min_available=0), {}, id="gang of no pods"),
        # The gang is as large or larger: each task's minimum, then spare replicas, highest priority first.
        pytest.param(
            a_job(
                a_task("a", 4, sized("1"), min_available=1),
                a_task("b", 4, sized("10"), min_available=1),
                min_available=2,
            ),
            {"pods": "2", "cpu": "11"},
            id="as large: the minimum of each",
        ),
        pytest.param(
            a_job(
                a_task("a", 4, sized("1"), min_available=1),
                a_task("b", 4, sized("10", "high"), min_available=1),
                min_available=6,
            ),
            {"pods": "6", "cpu": "42"},
            id="larger: spare replicas of the important task first",
        ),
        pytest.param(
            a_job(
                a_task("a", 4, sized("1"), min_available=1),
                a_task("b", 2, sized("10"), min_available=1),
                min_available=9,
            ),
            {"pods": "6", "cpu": "24"},
            id="larger than all pods",
        ),
        pytest.param(
            a_job(a_task("a", 2, sized("1")), a_task("b", 1, sized("10"), min_available=1), min_available=3),
            {"pods": "3", "cpu": "12"},
            id="a task without minAvailable has all replicas to spare",
        ),
        pytest.param(
            a_job(a_task("a", 1, sized("1"), min_available=5), a_task("b", 2, sized("10")), min_available=7),
            {"pods": "7", "cpu": "25"},
            id="minAvailable above replicas",
        ),
    ],
)
def test_resources_of_the_smallest_gang(job: Job, expected: Manifest) -> None:
    found = {
        name: str(amount)
        for name, amount in min_resources(job, job.spec.tasks, PRIORITIES).items()
        if name in ("pods", "cpu")
    }
    assert found == expected


def test_the_priorities_of_the_cluster_are_used() -> None:
    job = a_job(a_task("a", 1, sized("1")), a_task("b", 1, sized("10", "high")), min_available=1)
    assert pod_group(job)["spec"]["minResources"]["cpu"] == "1"
    assert pod_group(job, PRIORITIES)["spec"]["minResources"]["cpu"] == "10"


def test_resources_are_those_of_the_template() -> None:
    """Limits alone are no requests, and names of devices count twice, as Volcano has it."""
    limits = {"limits": {"memory": "1Gi", "nvidia.com/gpu": 2}}
    template = a_template(a_container(resources={"requests": {"cpu": "250m", "nvidia.com/gpu": "2"}, **limits}))
    assert pod_group(a_job(a_task(replicas=2, template=template), min_available=2))["spec"]["minResources"] == {
        "count/pods": "2",
        "cpu": "500m",
        "limits.memory": "2Gi",
        "nvidia.com/gpu": "4",
        "pods": "2",
        "requests.cpu": "500m",
        "requests.nvidia.com/gpu": "4",
    }


@pytest.mark.parametrize("template", [{}, {"spec": None}], ids=str)
def test_a_task_without_a_pod(template: Manifest) -> None:
    job = a_job(TaskSpec(name="a", replicas=1, template=template), min_available=1)
    assert pod_group(job)["spec"]["minResources"] == {"count/pods": "1", "pods": "1"}


TOPOLOGIES = [
    pytest.param(NetworkTopology(), {"mode": "hard"}, id="no mode"),
    pytest.param(
        NetworkTopology(mode="soft", highest_tier_allowed=0), {"mode": "soft", "highestTierAllowed": 0}, id="number"
    ),
    pytest.param(
        NetworkTopology(mode="hard", highest_tier_name="rack"), {"mode": "hard", "highestTierName": "rack"}, id="name"
    ),
]


@pytest.mark.parametrize(("topology", "expected"), TOPOLOGIES)
def test_network_topology(topology: NetworkTopology, expected: Manifest) -> None:
    assert pod_group(a_job(network_topology=topology))["spec"]["networkTopology"] == expected


@pytest.mark.parametrize(("topology", "expected"), TOPOLOGIES)
def test_partitions_become_sub_groups(topology: NetworkTopology, expected: Manifest) -> None:
    policy = PartitionPolicy(total_partitions=3, partition_size=2, min_partitions=1, network_topology=topology)
    plain = PartitionPolicy(total_partitions=1, partition_size=4)
    job = a_job(
        a_task("first"), a_task("second", 6, partition_policy=policy), a_task("third", 4, partition_policy=plain)
    )
    groups = pod_group(job)["spec"]["subGroupPolicy"]
    assert groups == [
        {
            "name": "second",
            "subGroupSize": 2,
            "minSubGroups": 1,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "second"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "networkTopology": expected,
        },
        {
            "name": "third",
            "subGroupSize": 4,
            "minSubGroups": 0,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "third"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
        },
    ]

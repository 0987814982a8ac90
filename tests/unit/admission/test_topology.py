from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Manifest
from tests.builders import a_container, a_document, a_template
from tests.unit.admission.findings import Row, error, found, task

BOTH_TIERS = "must have either highestTierAllowed or highestTierName, not both"
NUMA_HINT = "set resources.limits.cpu to a whole number"


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        pytest.param(
            {"mode": "hrad"}, [error("mode", "must be hard or soft", "hrad", "did you mean hard?")], id="mode"
        ),
        pytest.param({"highestTierAllowed": -1}, [error("highestTierAllowed", "must be 0 or more", -1)], id="tier"),
        pytest.param({"highestTierAllowed": 1, "highestTierName": "rack"}, [error("", BOTH_TIERS)], id="both"),
        pytest.param(
            {"highestTierAllowed": 0, "highestTierName": "rack"}, [error("", BOTH_TIERS)], id="both, one is 0"
        ),
        pytest.param(
            {"highestTierName": "t" * 254},
            [error("highestTierName", "must be at most 253 characters, this has 254", "t" * 254)],
            id="long name",
        ),
        pytest.param({"highestTierName": "t" * 253}, [], id="longest name"),
        pytest.param({"mode": "soft", "highestTierAllowed": 0}, [], id="number"),
        pytest.param({"mode": "hard", "highestTierName": "rack"}, [], id="name"),
        pytest.param({}, [], id="empty"),
    ],
)
@pytest.mark.parametrize("path", ["spec.networkTopology", "spec.tasks[0].partitionPolicy.networkTopology"])
def test_network_topology(topology: Manifest, expected: list[Row], path: str) -> None:
    if path.endswith("partitionPolicy.networkTopology"):
        policy = {"totalPartitions": 1, "partitionSize": 1, "networkTopology": topology}
        document = a_document(tasks=[task(partitionPolicy=policy)])
    else:
        document = a_document(networkTopology=topology)
    findings = [finding._replace(path=f"{path}.{finding.path}".rstrip(".")) for finding in expected]
    assert found(document) == findings


@pytest.mark.parametrize(
    ("replicas", "policy", "fields", "expected"),
    [
        pytest.param(4, {"totalPartitions": 2, "partitionSize": 2}, {}, [], id="good"),
        pytest.param(4, {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 2}, {}, [], id="all partitions"),
        pytest.param(
            4, {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}, {"minAvailable": 2}, [], id="with a gang"
        ),
        pytest.param(
            4,
            {"totalPartitions": 0, "partitionSize": -1, "minPartitions": -2},
            {},
            [
                error("totalPartitions", "must be 1 or more", 0),
                error("partitionSize", "must be 1 or more", -1),
                error("minPartitions", "must be 0 or more", -2),
            ],
            id="numbers",
        ),
        pytest.param(
            4,
            {},
            {},
            [error("totalPartitions", "must be 1 or more", 0), error("partitionSize", "must be 1 or more", 0)],
            id="numbers left out",
        ),
        pytest.param(
            5,
            {"totalPartitions": 2, "partitionSize": 2},
            {},
            [error("", "2 partitions of 2 are 4 pods, but replicas is 5", hint="set replicas to 4")],
            id="replicas",
        ),
        pytest.param(
            4,
            {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1},
            {"minAvailable": 3},
            [
                error(
                    "minPartitions",
                    "1 partitions of 2 are 2 pods, but minAvailable is 3",
                    1,
                    "omit minAvailable, or set it to 2",
                )
            ],
            id="minAvailable",
        ),
        pytest.param(
            4, {"totalPartitions": 2, "partitionSize": 2}, {"minAvailable": 3}, [], id="minAvailable alone counts"
        ),
    ],
)
def test_partitions(replicas: int, policy: Manifest, fields: Manifest, expected: list[Row]) -> None:
    document = a_document(tasks=[task("worker", replicas, partitionPolicy=policy, **fields)])
    at = "spec.tasks[0].partitionPolicy"
    assert found(document) == [finding._replace(path=f"{at}.{finding.path}".rstrip(".")) for finding in expected]


def test_more_partitions_are_wanted_than_there_are() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 3}
    assert found(a_document(tasks=[task(replicas=4, minAvailable=4, partitionPolicy=policy)])) == [
        error("spec.tasks[0].partitionPolicy.minPartitions", "must be at most 2, the totalPartitions", 3)
    ]


def test_negative_replicas_are_reported_once() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 2}
    assert found(a_document(tasks=[task(replicas=-2, partitionPolicy=policy)])) == [
        error("spec.tasks[0].replicas", "must be 0 or more", -2)
    ]


def with_cpus(policy: str | None, **resources: Any) -> Manifest:
    pod = a_template(a_container(resources=resources), restartPolicy="Never")
    return a_document(tasks=[task(topologyPolicy=policy, template=pod)])


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param({"requests": {"cpu": "2"}}, id="requests"),
        pytest.param({"limits": {"cpu": 4}}, id="limits"),
        pytest.param({"limits": {"cpu": "2000m"}}, id="whole in thousandths"),
        pytest.param({"requests": {"cpu": 1}, "limits": {"cpu": "1500m"}}, id="requests go before limits"),
    ],
)
@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_whole_cpus_for_numa(policy: str, resources: Manifest) -> None:
    assert found(with_cpus(policy, **resources)) == []


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param({}, id="none"),
        pytest.param({"requests": {"memory": "1Gi"}}, id="no cpu"),
        pytest.param({"limits": {"cpu": "1500m"}}, id="a part of a cpu"),
        pytest.param({"limits": {"cpu": "0"}}, id="zero"),
        pytest.param({"requests": {"cpu": "500m"}, "limits": {"cpu": 2}}, id="requests go before limits"),
    ],
)
def test_no_whole_cpus_for_numa(resources: Manifest) -> None:
    message = "topologyPolicy restricted needs a whole number of CPUs in every container"
    at = "spec.tasks[0].template.spec.containers[0].resources"
    assert found(with_cpus("restricted", **resources)) == [error(at, message, hint=NUMA_HINT)]


def test_init_containers_need_whole_cpus_too() -> None:
    whole = {"limits": {"cpu": 1}}
    pod = a_template(a_container(resources=whole), initContainers=[a_container("init")], restartPolicy="Never")
    assert found(a_document(tasks=[task(topologyPolicy="restricted", template=pod)])) == [
        error(
            "spec.tasks[0].template.spec.initContainers[0].resources",
            "topologyPolicy restricted needs a whole number of CPUs in every container",
            hint=NUMA_HINT,
        )
    ]


@pytest.mark.parametrize("policy", [None, "none"])
def test_without_numa_any_cpus_do(policy: str | None) -> None:
    assert found(with_cpus(policy, limits={"cpu": "500m"})) == []


def test_unknown_numa_policy() -> None:
    assert found(with_cpus("single-numa", limits={"cpu": "500m"})) == [
        error(
            "spec.tasks[0].topologyPolicy",
            "must be one of none, best-effort, restricted, single-numa-node",
            "single-numa",
            "did you mean single-numa-node?",
        )
    ]


@pytest.mark.parametrize(
    ("template", "path"),
    [
        pytest.param({}, "template.spec.containers", id="no spec"),
        pytest.param({"spec": "x"}, "template.spec", id="spec of another type"),
        pytest.param({"spec": {"containers": "x"}}, "template.spec.containers", id="containers of another type"),
        pytest.param({"spec": {"containers": ["x"]}}, "template.spec.containers[0]", id="container of another type"),
    ],
)
def test_containers_of_the_wrong_type_are_reported_by_the_schema_only(template: Manifest, path: str) -> None:
    document = a_document(tasks=[task(topologyPolicy="restricted", template=template)])
    assert [finding.path for finding in found(document)] == [f"spec.tasks[0].{path}"]


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param("x", id="resources"),
        pytest.param({"limits": "x"}, id="limits"),
        pytest.param({"limits": {"cpu": [1]}}, id="amount"),
        pytest.param({"limits": {"cpu": "abc"}}, id="no quantity"),
    ],
)
def test_resources_of_another_type(resources: Any) -> None:
    pod = a_template(a_container(resources=resources), restartPolicy="Never")
    findings = found(a_document(tasks=[task(topologyPolicy="restricted", template=pod)]))
    at = "spec.tasks[0].template.spec.containers[0].resources"
    assert all(finding.path.startswith(at) for finding in findings)
    assert (
        error(at, "topologyPolicy restricted needs a whole number of CPUs in every container", hint=NUMA_HINT)
        in findings
    )


@pytest.mark.parametrize(
    ("replicas", "policy", "path"),
    [
        pytest.param(
            4, {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 3}, ".minPartitions", id="too many"
        ),
        pytest.param(4, {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 3}, "", id="too few replicas"),
    ],
)
def test_a_default_from_partitions_is_not_reported_again(replicas: int, policy: Manifest, path: str) -> None:
    findings = found(a_document(tasks=[task("worker", replicas, partitionPolicy=policy)]))
    assert [finding.path for finding in findings] == [f"spec.tasks[0].partitionPolicy{path}"]

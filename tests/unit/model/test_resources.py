"""The usages of this file were checked against Kubernetes' own quota evaluator (1.37.1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.model.quantity import Quantity
from pumice.model.resources import cpu_limit, gpu_limit, pod_usage, sum_usage

Manifest = dict[str, Any]
ONE_POD = {"count/pods": "1", "pods": "1"}


def container(requests: Manifest | None = None, limits: Manifest | None = None, **fields: object) -> Manifest:
    return {"name": "main", "resources": {"requests": requests, "limits": limits}, **fields}


def sidecar(requests: Manifest | None = None, limits: Manifest | None = None) -> Manifest:
    return container(requests, limits, restartPolicy="Always")


def texts(usage: dict[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in usage.items()}


def requested(**amounts: str) -> dict[str, str]:
    """Each amount under its own name and as a request."""
    return {key: amount for name, amount in amounts.items() for key in (name, f"requests.{name}")}


@pytest.mark.parametrize(
    ("spec", "usage"),
    [
        pytest.param({}, {}, id="empty spec"),
        pytest.param({"containers": [container()]}, {}, id="no resources"),
        pytest.param(
            {"containers": [container({"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1G"})]},
            {**requested(cpu="500m", memory="1Gi"), "ephemeral-storage": "1G", "requests.ephemeral-storage": "1G"},
            id="requests",
        ),
        pytest.param(
            {"containers": [container(limits={"cpu": 2, "memory": "1Gi", "ephemeral-storage": "1G"})]},
            {"limits.cpu": "2", "limits.memory": "1Gi", "limits.ephemeral-storage": "1G"},
            id="limits alone add no requests",
        ),
        pytest.param(
            {"containers": [container({"cpu": 1}, {"cpu": 2}), container({"cpu": "250m"}, {"cpu": 0.5})]},
            {**requested(cpu="1250m"), "limits.cpu": "2500m"},
            id="containers add up",
        ),
        pytest.param(
            {"containers": [container({"memory": "1Gi"}), container({"memory": "1G"})]},
            requested(memory="2073741824"),
            id="the first container gives the style",
        ),
        pytest.param(
            {"containers": [container({"memory": "1Gi"})], "initContainers": [container({"memory": 2**30})]},
            requested(memory="1Gi"),
            id="an equal init container does not change the style",
        ),
        pytest.param({"containers": [container({"cpu": 0})]}, requested(cpu="0"), id="zero is still a request"),
    ],
)
def test_usage_of_containers(spec: Manifest, usage: dict[str, str]) -> None:
    assert texts(pod_usage(spec)) == ONE_POD | usage


@pytest.mark.parametrize(
    ("name", "names"),
    [
        pytest.param("hugepages-2Mi", {"hugepages-2Mi", "requests.hugepages-2Mi"}, id="huge pages"),
        pytest.param("nvidia.com/gpu", {"nvidia.com/gpu", "requests.nvidia.com/gpu"}, id="extended"),
        pytest.param("nvidia.com/mig-1g.5gb", {"nvidia.com/mig-1g.5gb", "requests.nvidia.com/mig-1g.5gb"}, id="mig"),
        pytest.param(
            "deviceclass.resource.kubernetes.io/gpu", {"requests.deviceclass.resource.kubernetes.io/gpu"}, id="class"
        ),
        pytest.param("kubernetes.io/batch-cpu", set(), id="Kubernetes' own"),
        pytest.param("node.kubernetes.io/x", set(), id="below Kubernetes' own"),
        pytest.param("pods", set(), id="pods"),
        pytest.param("storage", set(), id="storage"),
        pytest.param("gpu", set(), id="no prefix"),
        pytest.param("requests.cpu", set(), id="a quota's name"),
        pytest.param("requests.example.com/x", set(), id="a quota's name of an extended resource"),
        pytest.param("Example.com/gpu", set(), id="ill-formed prefix"),
        pytest.param("example.com/", set(), id="ill-formed name"),
        pytest.param("a/b/c", set(), id="two slashes"),
        pytest.param("x" * 245 + "/g", set(), id="too long with its prefix"),
    ],
)
def test_which_names_a_request_counts_under(name: str, names: set[str]) -> None:
    usage = pod_usage({"containers": [container({name: 3}, {name: 3})]})

    assert texts(usage) == ONE_POD | dict.fromkeys(names, "3")


@pytest.mark.parametrize(
    ("init", "cpu"),
    [
        pytest.param([], "2", id="none"),
        pytest.param([container({"cpu": 1})], "2", id="smaller"),
        pytest.param([container({"cpu": 3})], "3", id="larger"),
        pytest.param([container({"cpu": 3}), container({"cpu": 5}), container({"cpu": 4})], "5", id="largest"),
        pytest.param([sidecar({"cpu": 1})], "3", id="sidecar"),
        pytest.param([sidecar({"cpu": 1}), container({"cpu": 3})], "4", id="init container beside a sidecar"),
        pytest.param([container({"cpu": 3}), sidecar({"cpu": 1})], "3", id="init container before a sidecar"),
        pytest.param(
            [sidecar({"cpu": 1}), sidecar({"cpu": "500m"}), container({"cpu": 1})], "3500m", id="two sidecars"
        ),
        pytest.param([container({"cpu": 3}, restartPolicy="Never")], "3", id="init container never restarted"),
    ],
)
def test_init_containers_and_sidecars(init: list[Manifest], cpu: str) -> None:
    spec = {"containers": [container({"cpu": 2}, restartPolicy="Always")], "initContainers": init}

    assert texts(pod_usage(spec)) == ONE_POD | requested(cpu=cpu)


def test_the_moment_of_the_highest_demand_is_found_for_each_resource_and_for_limits() -> None:
    spec = {
        "containers": [container({"cpu": 1, "memory": "4Gi"}, {"cpu": 4})],
        "initContainers": [
            sidecar({"nvidia.com/gpu": 1}, {"cpu": 1}),
            container({"cpu": 2, "memory": "1Gi", "nvidia.com/gpu": 2}, {"cpu": "4500m"}),
        ],
    }

    assert texts(pod_usage(spec)) == ONE_POD | requested(cpu="2", memory="4Gi") | {
        "limits.cpu": "5500m",
        "nvidia.com/gpu": "3",
        "requests.nvidia.com/gpu": "3",
    }


@pytest.mark.parametrize(
    ("pod_fields", "usage"),
    [
        pytest.param(
            {"overhead": {"cpu": "250m", "memory": "64Mi"}},
            {**requested(cpu="1250m", memory="64Mi"), "limits.cpu": "2250m"},
            id="overhead adds requests, but makes no limit",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": 8, "memory": "1Gi", "hugepages-2Mi": "4Mi"}}},
            {
                **requested(cpu="8", memory="1Gi"),
                "hugepages-2Mi": "4Mi",
                "requests.hugepages-2Mi": "4Mi",
                "limits.cpu": "2",
            },
            id="pod-level requests replace the sum",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": 3, "memory": "1Gi"}}},
            {**requested(cpu="1"), "limits.cpu": "3", "limits.memory": "1Gi"},
            id="pod-level limits replace the sum",
        ),
        pytest.param(
            {"resources": {"requests": {"ephemeral-storage": "1Gi", "nvidia.com/gpu": 1}}},
            {**requested(cpu="1"), "limits.cpu": "2"},
            id="other resources have no pod level",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": 8}, "limits": {"cpu": 9}}, "overhead": {"cpu": 1}},
            {**requested(cpu="9"), "limits.cpu": "10"},
            id="overhead comes on top of the pod level",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": 0}}, "overhead": {"cpu": 1}},
            {**requested(cpu="2"), "limits.cpu": "0"},
            id="overhead leaves a limit of zero",
        ),
    ],
)
def test_overhead_and_pod_level_resources(pod_fields: Manifest, usage: dict[str, str]) -> None:
    spec = {"containers": [container({"cpu": 1}, {"cpu": 2})], **pod_fields}

    assert texts(pod_usage(spec)) == ONE_POD | usage


def test_usage_is_sorted_and_leaves_the_spec_alone() -> None:
    spec = {"containers": [container({"memory": "1Gi", "cpu": 1})], "initContainers": [sidecar({"cpu": 1})]}
    before = repr(spec)

    assert list(pod_usage(spec)) == ["count/pods", "cpu", "memory", "pods", "requests.cpu", "requests.memory"]
    assert repr(spec) == before


@pytest.mark.parametrize(
    "spec",
    [
        None,
        [],
        {"containers": None, "initContainers": "x", "overhead": 3, "resources": []},
        {"containers": {"name": "main"}},
        {"containers": [None, "x", [], {}]},
        {"containers": [{"resources": None}, {"resources": "x"}, {"resources": {"requests": ["cpu"]}}]},
        {"containers": [container({"cpu": "two", "memory": None, "nvidia.com/gpu": [1], "ephemeral-storage": True})]},
        {"containers": [container({"cpu": "1e999999999"}, {"memory": float("nan")})]},
        {"containers": [container({None: 1, 3: 1, ("cpu",): 1})]},  # type: ignore[dict-item]  # what YAML may hold
    ],
    ids=str,
)
def test_what_is_ill_formed_counts_as_absent(spec: Any) -> None:
    assert texts(pod_usage(spec)) == ONE_POD


def test_the_well_formed_rest_still_counts() -> None:
    spec = {
        "containers": [None, container({"cpu": "two", "memory": "1Gi"}), container({"cpu": 1})],
        "initContainers": 3,
    }

    assert texts(pod_usage(spec)) == ONE_POD | requested(cpu="1", memory="1Gi")


def usage_of(**amounts: str) -> dict[str, Quantity]:
    return {name: Quantity.parse(amount) for name, amount in amounts.items()}


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param([(usage_of(cpu="500m"), 3)], {"cpu": "1500m"}, id="one kind"),
        pytest.param(
            [(usage_of(memory="1Gi", cpu="1"), 2), (usage_of(cpu="500m", pods="1"), 4)],
            {"cpu": "4", "memory": "2Gi", "pods": "4"},
            id="two kinds",
        ),
        pytest.param([(usage_of(cpu="1"), 0), (usage_of(memory="1"), -1)], {}, id="no pods leave no names"),
        pytest.param([(usage_of(memory="0"), 1), (usage_of(memory="1Gi"), 1)], {"memory": "1Gi"}, id="style"),
        pytest.param([(usage_of(cpu="1m"), 2**31 - 1)], {"cpu": "2147483647m"}, id="as fast for many pods as for one"),
    ],
)
def test_sum_of_usages(parts: list[tuple[dict[str, Quantity], int]], total: dict[str, str]) -> None:
    result = sum_usage(parts)

    assert texts(result) == total
    assert list(result) == sorted(total)


@pytest.mark.parametrize(
    ("limits", "gpus"),
    [
        (None, None),
        ({}, None),
        ({"cpu": 4}, None),
        ({"nvidia.com/gpu": 2}, 2),
        ({"nvidia.com/gpu": "2"}, 2),
        ({"amd.com/gpu": 1}, 1),
        ({"example.org/gpu": 3}, 3),
        ({"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-2g.10gb": 1}, 3),
        ({"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 2}, 3),
        ({"nvidia.com/gpu": 0}, None),
        ({"nvidia.com/gpu": "500m"}, None),
        ({"nvidia.com/gpu": -1, "amd.com/gpu": 2}, 2),
        ({"nvidia.com/gpu": "two"}, None),
        ({"nvidia.com/gpumem": 8, "gpu": 1, "nvidia.com/GPU": 1}, None),
    ],
    ids=str,
)
def test_gpu_limit(limits: Manifest | None, gpus: int | None) -> None:
    assert gpu_limit(container({"nvidia.com/gpu": 7}, limits)) == gpus


@pytest.mark.parametrize(
    ("limits", "cpus"),
    [
        (None, None),
        ({"memory": "1Gi"}, None),
        ({"cpu": 4}, 4),
        ({"cpu": "2500m"}, 2),
        ({"cpu": "999m"}, None),
        ({"cpu": 0}, None),
        ({"cpu": -3}, None),
        ({"cpu": 1.0}, 1),
        ({"cpu": "two"}, None),
    ],
    ids=str,
)
def test_cpu_limit(limits: Manifest | None, cpus: int | None) -> None:
    assert cpu_limit(container({"cpu": 7}, limits)) == cpus


@pytest.mark.parametrize("value", [None, "x", [], {}, {"resources": 1}, {"resources": {"limits": [1]}}], ids=str)
def test_an_ill_formed_container_has_no_limits(value: Any) -> None:
    assert gpu_limit(value) is None
    assert cpu_limit(value) is None


FIELDS = st.sampled_from(
    ["containers", "initContainers", "resources", "requests", "limits", "overhead", "cpu", "a/gpu"]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["1", "500m", "1Gi", "Always", "", "x"])
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(FIELDS | SCALARS, inner), max_leaves=30
)


@given(ANYTHING)
def test_nothing_in_a_template_makes_them_raise(value: Any) -> None:
    assert texts(pod_usage(value)).items() >= ONE_POD.items()
    assert (gpu_limit(value) or 1) > 0
    assert (cpu_limit(value) or 1) > 0

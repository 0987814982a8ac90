from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.scheduling.fit import (
    container_gpus,
    fit,
    gpu_env,
    gpu_shares,
    pod_requests,
    shortfall,
)
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU


def quantities(**texts: str) -> dict[str, Quantity]:
    return {name.replace("gpu", GPU): Quantity.parse(text) for name, text in texts.items()}


def with_resources(requests: Any = None, limits: Any = None) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}}


@pytest.mark.parametrize(
    ("spec", "usage"),
    [
        pytest.param({"containers": [{"name": "c"}]}, {}, id="nothing"),
        pytest.param(
            {"containers": [with_resources({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"})]},
            quantities(cpu="1", memory="1Gi"),
            id="requests",
        ),
        pytest.param(
            {"containers": [with_resources(None, {"cpu": "2", GPU: 1})]}, quantities(cpu="2", gpu="1"), id="limits"
        ),
        pytest.param(
            {"containers": [with_resources({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})]},
            quantities(cpu="1", memory="1Gi"),
            id="requests before limits",
        ),
        pytest.param(
            {"containers": [with_resources({"cpu": "1"})] * 2, "initContainers": [with_resources(None, {"cpu": "3"})]},
            quantities(cpu="3"),
            id="init containers run first",
        ),
        pytest.param(
            {"containers": [with_resources({"cpu": "1"})], "resources": {"limits": {"cpu": "5"}}},
            quantities(cpu="5"),
            id="pod-level resources",
        ),
        pytest.param({"containers": [with_resources({"cpu": "0", "memory": "-1"})]}, {}, id="zero and negative"),
    ],
)
def test_pod_requests(spec: dict[str, Any], usage: dict[str, Quantity]) -> None:
    assert pod_requests(spec) == usage


def test_a_gang_that_fits() -> None:
    found = fit([quantities(cpu="1", memory="1Gi")] * 3, quantities(cpu="3", memory="4Gi"))
    assert found.fits
    assert (found.pods, found.fitting, found.short) == (3, 3, ())


def test_a_gang_that_does_not_fit() -> None:
    found = fit([quantities(cpu="2", memory="4Gi")] * 4, quantities(cpu="3500m", memory="21Gi"))
    assert not found.fits
    assert (found.pods, found.fitting, found.short) == (4, 1, ("cpu",))
    assert shortfall(found) == [
        "           wanted     free    short",
        "  cpu        8.00     3.50     4.50",
        "  memory   16 GiB   21 GiB        -",
    ]


def test_columns_stay_apart_however_long_an_amount_is() -> None:
    found = fit([quantities(cpu="48", memory="1000.1Gi")] * 3, quantities(cpu="2", memory="22.7Gi"))
    assert shortfall(found) == [
        "           wanted      free    short",
        "  cpu      144.00      2.00   142.00",
        "  memory  2.9 TiB  22.7 GiB  2.9 TiB",
    ]


def test_pods_of_different_sizes() -> None:
    found = fit([quantities(cpu="4"), quantities(cpu="1"), quantities(cpu="1")], quantities(cpu="2"))
    assert found.fitting == 2


def test_unknown_resources() -> None:
    found = fit(
        [quantities(gpu="1"), {"example.com/fpga": Quantity.parse(2)}, quantities(cpu="1")], quantities(cpu="8")
    )
    assert found.fitting == 1
    assert [line.split() for line in shortfall(found)] == [
        ["wanted", "free", "short"],
        ["cpu", "1.00", "8.00", "-"],
        ["example.com/fpga", "2", "0", "2"],
        [GPU, "1", "0", "1"],
    ]


def test_pods_that_fit_one_by_one_but_not_at_once() -> None:
    """Two resources can each suffice while no order of the pods does."""
    found = fit([quantities(cpu="3"), quantities(cpu="2", memory="1Gi")], quantities(cpu="4", memory="2Gi"))
    assert (found.fitting, found.short) == (1, ("cpu",))


def test_an_empty_gang_fits() -> None:
    assert fit([], {}).fits


@pytest.mark.parametrize(
    ("container", "count"),
    [
        ({}, 0),
        (with_resources(None, {GPU: "2"}), 2),
        (with_resources({GPU: 1}), 1),
        (with_resources(None, {"cpu": "2"}), 0),
        (with_resources(None, {GPU: "many"}), 0),
        (with_resources(None, {GPU: -1}), 0),
    ],
)
def test_container_gpus(container: dict[str, Any], count: int) -> None:
    assert container_gpus(container) == count


def named(name: str, gpus: int, **extra: str) -> dict[str, Any]:
    return {**with_resources(None, {GPU: gpus}), "name": name, **extra}


@pytest.mark.parametrize(
    ("spec", "shares"),
    [
        pytest.param({"containers": [named("a", 2), named("b", 1)]}, {"a": ("0", "1"), "b": ("2",)}, id="distinct"),
        pytest.param({"containers": [{"name": "a"}, named("b", 1)]}, {"a": (), "b": ("0",)}, id="one without"),
        pytest.param(
            {"initContainers": [named("i", 3)], "containers": [named("a", 2)]},
            {"i": ("0", "1", "2"), "a": ("0", "1")},
            id="init containers end first",
        ),
        pytest.param(
            {"initContainers": [named("s", 1, restartPolicy="Always"), named("i", 1)], "containers": [named("a", 2)]},
            {"s": ("0",), "i": ("1",), "a": ("1", "2")},
            id="sidecars keep running",
        ),
    ],
)
def test_gpus_are_divided_among_containers(spec: dict[str, Any], shares: dict[str, Any]) -> None:
    assert gpu_shares(spec, ["0", "1", "2"]) == shares


def test_gpu_env() -> None:
    assert gpu_env(["0", "GPU-7"]) == {"CUDA_VISIBLE_DEVICES": "0,GPU-7", "NVIDIA_VISIBLE_DEVICES": "0,GPU-7"}

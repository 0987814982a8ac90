from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.container_spec.restrictions import Processors, cpu_limit, memory_limit, threads_env


def with_resources(requests: Any = None, limits: Any = None) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}}


@pytest.mark.parametrize(
    ("container", "cpu", "memory", "threads"),
    [
        pytest.param({"name": "c"}, None, None, None, id="none"),
        pytest.param(with_resources(None, {"cpu": "1500m", "memory": "1Ki"}), 1.5, 1024, "2", id="limits"),
        pytest.param(with_resources({"cpu": 3, "memory": "1Gi"}), None, None, "3", id="requests are no limits"),
        pytest.param(with_resources({"cpu": 1}, {"cpu": 4}), 4.0, None, "4", id="limits before requests"),
        pytest.param(with_resources(None, {"cpu": "10m"}), 0.01, None, "1", id="a fraction"),
    ],
)
def test_limits(container: dict[str, Any], cpu: float | None, memory: int | None, threads: str | None) -> None:
    assert cpu_limit(container) == cpu
    assert memory_limit(container) == memory
    assert threads_env(container).get("OMP_NUM_THREADS") == threads


def test_containers_are_bound_to_the_least_used_cpus() -> None:
    processors = Processors((0, 1, 4, 5))
    assert processors.bind("a", 1) == (0,)
    assert processors.bind("b", 2) == (1, 4)
    assert processors.bind("a", 1) == (0,)
    assert processors.bind("c", 2) == (0, 5)


@pytest.mark.parametrize("count", [2, 3])
def test_a_container_that_may_use_all_cpus_is_not_bound(count: int) -> None:
    assert Processors((0, 1)).bind("a", count) == ()

"""The PodGroup of a job whose tasks wait for each other: a gang never waits for pods that may not be made."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import DependsOn
from pumice.reconcile.gangs import pod_group
from tests.builders import a_container, a_job, a_task, a_template

ONE_CPU = a_template(a_container(resources={"requests": {"cpu": "1"}}))


@pytest.mark.parametrize(
    ("least", "may_start", "expected"),
    [
        pytest.param(5, {"a", "b"}, (5, {"a": 2, "b": 3}, "5"), id="all may start"),
        pytest.param(5, {"a"}, (2, {"a": 2, "b": 0}, "2"), id="one waits"),
        pytest.param(1, {"a"}, (1, {"a": 2, "b": 0}, "1"), id="fewer are needed"),
        pytest.param(5, set(), (0, {"a": 0, "b": 0}, None), id="nobody may start"),
        pytest.param(5, None, (5, {"a": 2, "b": 3}, "5"), id="nobody asks"),
    ],
)
def test_only_tasks_that_may_start_count(least: int, may_start: set[str] | None, expected: tuple[Any, ...]) -> None:
    job = a_job(a_task("a", 2, ONE_CPU), a_task("b", 3, ONE_CPU, depends_on=DependsOn(name=["a"])), min_available=least)
    spec = pod_group(job, None, None if may_start is None else frozenset(may_start))["spec"]
    assert (spec["minMember"], spec["minTaskMember"], spec["minResources"].get("cpu")) == expected

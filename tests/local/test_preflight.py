"""What is told before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.preflight import RefusedError, check_fit, check_problems, claim_directories, gang
from pumice.engines.local.problems import Problem, fatal
from pumice.model import keys
from pumice.model.job import Job, JobSpec, TaskSpec
from pumice.model.quantity import Quantity


def _pod(task: str, index: int, cpu: str = "1") -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": f"{task}-{index}", "annotations": {keys.TASK_SPEC: task}},
        "spec": {"containers": [container]},
    }


def _job(available: int, **tasks: int | None) -> Job:
    listed = [TaskSpec(name=name, replicas=3, min_available=least) for name, least in tasks.items()]
    return Job(spec=JobSpec(min_available=available, tasks=listed))


PODS = [_pod(task, index) for task in ("a", "b") for index in range(3)]


@pytest.mark.parametrize(
    ("available", "least", "chosen"),
    [
        pytest.param(2, {"a": None, "b": None}, ["a-0", "a-1"], id="the first ones"),
        pytest.param(2, {"a": None, "b": 2}, ["b-0", "b-1"], id="what a task must have"),
        pytest.param(3, {"a": None, "b": 2}, ["b-0", "b-1", "a-0"], id="both"),
        pytest.param(0, {"a": None, "b": None}, [], id="no gang"),
    ],
)
def test_gang(available: int, least: dict[str, int | None], chosen: list[str]) -> None:
    assert [pod["metadata"]["name"] for pod in gang(_job(available, **least), PODS)] == chosen


def test_what_does_not_fit_is_told_with_the_shortfall() -> None:
    with pytest.raises(RefusedError) as error:
        check_fit(_job(4, a=None, b=None), PODS, {"cpu": Quantity.parse("2.5")}, "big.yaml")
    lines = str(error.value).splitlines()
    assert lines[0] == "big.yaml: needs 4 pods at once (minAvailable), 2 fit on this machine"
    assert lines[2].split() == ["cpu", "4.00", "2.50", "1.50"]
    assert lines[3] == "  hint: --scale a=1, or lower resources.requests.cpu, or minAvailable"


def test_what_fits_passes() -> None:
    check_fit(_job(2, a=None, b=None), PODS, {"cpu": Quantity.parse("2")}, "small.yaml")


def test_the_same_problem_in_many_pods_is_told_once() -> None:
    found = {
        "a-0: container c": [fatal("no ConfigMap x"), Problem("mild")],
        "a-1: container c": [fatal("no ConfigMap x")],
    }
    with pytest.raises(RefusedError, match=r"^j.yaml: a-0: container c: no ConfigMap x$"):
        check_problems(found, "j.yaml")
    check_problems({"a-0: container c": [Problem("mild")]}, "j.yaml")


def test_claims_are_directories_of_their_own(tmp_path: Path) -> None:
    places = claim_directories(["x", "x", "y"], tmp_path)
    assert list(places) == ["x", "y"]
    assert all(place.is_dir() for place in places.values())

from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Manifest
from pumice.model.slot import MOST_PODS
from tests.builders import a_document
from tests.unit.admission.findings import Row, error, found, task

LEAST = "must be 0 or more"
MOST_OF_TASK = "must be at most 2, the replicas of the task"
RAISE_TASK = "raise replicas, or lower this"
RAISE_JOB = "raise the replicas of a task, or lower this"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"minAvailable": -1}, error("spec.minAvailable", LEAST, -1), id="minAvailable"),
        pytest.param({"maxRetry": -1}, error("spec.maxRetry", LEAST, -1), id="maxRetry"),
        pytest.param({"ttlSecondsAfterFinished": -1}, error("spec.ttlSecondsAfterFinished", LEAST, -1), id="ttl"),
        pytest.param({"minSuccess": 0}, error("spec.minSuccess", "must be 1 or more", 0), id="minSuccess"),
        pytest.param(
            {"activeDeadlineSeconds": 0}, error("spec.activeDeadlineSeconds", "must be 1 or more", 0), id="deadline"
        ),
    ],
)
def test_the_least_that_numbers_of_a_job_may_be(spec: Manifest, expected: Row) -> None:
    assert found(a_document(**spec)) == [expected]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("replicas", -2, id="replicas"),
        pytest.param("minAvailable", -1, id="minAvailable"),
        pytest.param("maxRetry", -1, id="maxRetry"),
        pytest.param("maxRestarts", -1, id="maxRestarts"),
    ],
)
def test_the_least_that_numbers_of_a_task_may_be(field: str, value: int) -> None:
    tasks = [task(), task("other", **{field: value})] if field != "replicas" else [task(), task("other", value)]
    assert found(a_document(tasks=tasks)) == [error(f"spec.tasks[1].{field}", LEAST, value)]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"minAvailable": 0}, id="minAvailable not set"),
        pytest.param({"minAvailable": 1}, id="minAvailable all"),
        pytest.param({"maxRetry": 0, "ttlSecondsAfterFinished": 0}, id="zeros"),
        pytest.param({"minSuccess": 1, "activeDeadlineSeconds": 1}, id="ones"),
        pytest.param({"tasks": [task(replicas=0)]}, id="no pods"),
        pytest.param({"tasks": [task(replicas=2, minAvailable=2, maxRetry=0, maxRestarts=0)]}, id="of a task"),
        pytest.param({"tasks": [task(replicas=2, minAvailable=0)]}, id="none of a task"),
    ],
)
def test_the_edges_are_accepted(spec: Manifest) -> None:
    assert found(a_document(**spec)) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"tasks": [task(replicas=2, minAvailable=3)]},
            [error("spec.tasks[0].minAvailable", MOST_OF_TASK, 3, RAISE_TASK)],
            id="a task that wants more than it has",
        ),
        pytest.param(
            {"minAvailable": 5, "tasks": [task(replicas=2), task("other", 1)]},
            [
                error(
                    "spec.minAvailable", "must be at most 3, all pods of the job, or it could never start", 5, RAISE_JOB
                )
            ],
            id="a job that wants more than it has",
        ),
        pytest.param(
            {"minSuccess": 4, "tasks": [task(replicas=3)]},
            [
                error(
                    "spec.minSuccess",
                    "must be at most 3, all pods of the job, or it could never complete",
                    4,
                    RAISE_JOB,
                )
            ],
            id="minSuccess above all replicas",
        ),
        pytest.param(
            {"tasks": [task(replicas=2, minAvailable=9), task("other", 1)]},
            [error("spec.tasks[0].minAvailable", MOST_OF_TASK, 9, RAISE_TASK)],
            id="the job's default is too much only because a task's is",
        ),
        pytest.param(
            {"minAvailable": 5, "minSuccess": 9, "tasks": [task(replicas=-2), task("other", 1)]},
            [error("spec.tasks[0].replicas", LEAST, -2)],
            id="no sum with a negative number in it",
        ),
        pytest.param(
            {"tasks": [task(replicas=MOST_PODS), task("other", 1)]},
            [error("spec.tasks", "150001 pods in all: a job may have at most 150000")],
            id="more pods than any cluster holds",
        ),
    ],
)
def test_numbers_against_each_other(spec: dict[str, Any], expected: list[Row]) -> None:
    assert found(a_document(**spec)) == expected


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        pytest.param("1h30m", [], id="duration"),
        pytest.param(
            "long", [error("spec.runningEstimate", "must be a duration such as 10s, 5m or 1h30m", "long")], id="a word"
        ),
        pytest.param(
            "90",
            [
                error(
                    "spec.runningEstimate",
                    "must be a duration such as 10s, 5m or 1h30m",
                    "90",
                    "a number has no unit; the units are h m s ms us ns",
                )
            ],
            id="no unit",
        ),
    ],
)
def test_the_estimate_must_be_a_duration(estimate: str, expected: list[Row]) -> None:
    assert found(a_document(runningEstimate=estimate)) == expected

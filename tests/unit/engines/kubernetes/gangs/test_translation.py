from __future__ import annotations

import msgspec
import pytest

from pumice.engines.kubernetes.gangs.translation import (
    ASKED_FOR,
    annotated,
    asked_for,
    by_priority,
    node_resources,
    shares,
)
from pumice.model.job import Job, Manifest
from tests.builders import a_document, a_template


def a_job(tasks: dict[str, tuple[int, str]], **spec: object) -> Job:
    made = [
        {
            "name": name,
            "replicas": count,
            "template": a_template(**({"priorityClassName": priority} if priority else {})),
        }
        for name, (count, priority) in tasks.items()
    ]
    return msgspec.convert(a_document(tasks=made, **spec), Job)


def a_group(minimum: int, **tasks: int) -> Manifest:
    return {"spec": {"minMember": minimum, "minTaskMember": tasks}}


@pytest.mark.parametrize(
    ("tasks", "group", "expected"),
    [
        pytest.param({"worker": (4, "")}, a_group(3, worker=4), {"": 3}, id="one set has the job's minimum"),
        pytest.param(
            {"master": (1, "high"), "worker": (4, "low")},
            a_group(5, master=1, worker=4),
            {"high": 1, "low": 4},
            id="each set has the minima of its tasks",
        ),
        pytest.param(
            {"master": (1, "high"), "worker": (4, "low")},
            a_group(2, master=1, worker=4),
            {"high": 1, "low": 1},
            id="a job that is content with fewer",
        ),
        pytest.param(
            {"master": (2, "high"), "worker": (4, "low")},
            a_group(2, master=2, worker=4),
            {"high": 2, "low": 0},
            id="nothing is left for the last",
        ),
        pytest.param(
            {"master": (1, "high"), "worker": (4, "low")},
            a_group(1, master=1, worker=0),
            {"high": 1, "low": 0},
            id="a task that may not start yet",
        ),
    ],
)
def test_how_many_of_each_priority_start_together(
    tasks: dict[str, tuple[int, str]], group: Manifest, expected: dict[str, int]
) -> None:
    assert shares(group, by_priority(a_job(tasks))) == expected


def test_the_priority_of_the_job_is_that_of_tasks_without_their_own() -> None:
    job = a_job({"master": (1, "high"), "worker": (1, ""), "helper": (1, "")}, priorityClassName="normal")
    sets = {name: [task.name for task in tasks] for name, tasks in by_priority(job).items()}
    assert sets == {"high": ["master"], "normal": ["worker", "helper"]}


def test_what_was_asked_for_is_kept_beside_what_stands_for_it() -> None:
    group = a_group(2, worker=2)
    made = annotated(a_job({"worker": (2, "")}), "scheduling.k8s.io/v1beta1", "g", {"x": 1}, group)
    assert made["spec"] == {"x": 1}
    assert asked_for(made["metadata"]["annotations"]) == group


@pytest.mark.parametrize(
    "note", [pytest.param("", id="empty"), pytest.param("{", id="cut off"), pytest.param("7", id="something else")]
)
def test_a_damaged_note_is_none(note: str) -> None:
    assert asked_for({ASKED_FOR: note}) is None


def test_resources_of_nodes_only() -> None:
    amounts = {
        "cpu": "2",
        "requests.cpu": "2",
        "limits.cpu": "2",
        "pods": "2",
        "count/pods": "2",
        "nvidia.com/gpu": "1",
    }
    assert node_resources({"spec": {"minResources": amounts}}) == {"cpu": "2", "nvidia.com/gpu": "1"}

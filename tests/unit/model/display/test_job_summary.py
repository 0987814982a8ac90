"""A Job as the last value of a cell, and in a terminal: what it consists of, not every field."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import HOST_IMAGE, DependsOn, Job, JobSpec, Metadata, TaskSpec
from tests.unit.notebook_cells import ESCAPED, HOSTILE, shown

GPUS = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}


def _job(*tasks: TaskSpec, **spec: Any) -> Job:
    return Job(metadata=Metadata(name="ddp"), spec=JobSpec(tasks=list(tasks), **spec))


def _task(*containers: Any, **fields: Any) -> TaskSpec:
    return TaskSpec(name="worker", replicas=2, template={"spec": {"containers": list(containers)}}, **fields)


@pytest.mark.parametrize(
    ("job", "text"),
    [
        pytest.param(
            _job(_task(), TaskSpec(name="ps", replicas=1), plugins={"svc": [], "pytorch": ["--port=1"]}),
            "<Job ddp: worker 2, ps 1; plugins svc, pytorch>",
            id="tasks and plugins",
        ),
        pytest.param(_job(), "<Job ddp: no tasks>", id="nothing"),
        pytest.param(_job(TaskSpec(name="a\x1b\nb")), "<Job ddp: a\\x1b\\nb 0>", id="escaped"),
    ],
)
def test_a_job_is_one_line_in_a_terminal(job: Job, text: str) -> None:
    assert repr(job) == str(job) == text


@pytest.mark.parametrize(
    ("task", "cells"),
    [
        pytest.param(
            _task({"image": "torch:2", "command": ["python", "a b.py"], "args": ["--lr", 0.1], "resources": GPUS}),
            ["worker", "2", "torch:2", "python 'a b.py' --lr 0.1", "cpu 0.5, nvidia.com/gpu 1, memory 1 GiB"],
            id="command and resources",
        ),
        pytest.param(
            _task({"image": HOST_IMAGE}, {}, depends_on=DependsOn(name=["ps", "head"])),
            ["worker", "2", "host", "; 1 more", "ps, head"],
            id="several containers, after other tasks",
        ),
        pytest.param(_task("no container"), ["worker", "2"], id="a container of the wrong type"),
        pytest.param(
            TaskSpec(name="worker", template={"spec": {"containers": 1}}), ["worker", "0"], id="no list of containers"
        ),
        pytest.param(_task({"command": "sh"}), ["worker", "2"], id="a command of the wrong type"),
    ],
)
def test_a_task_is_a_row(task: TaskSpec, cells: list[str]) -> None:
    lines = shown(_job(task)._repr_html_()).splitlines()
    assert lines[lines.index("after") + 1 :] == cells


@pytest.mark.parametrize(
    ("job", "about"),
    [
        pytest.param(
            _job(_task(), plugins={"svc": None, "env": []}, min_available=2, queue="q"),
            " 2 pods · at least 2 at once · plugins svc, env · queue q",
            id="all",
        ),
        pytest.param(_job(TaskSpec(name="one", replicas=1)), " 1 pod · no plugins", id="little"),
    ],
)
def test_the_heading_says_what_the_job_is(job: Job, about: str) -> None:
    assert shown(job._repr_html_()).splitlines()[:2] == ["ddp", about]


def test_nothing_of_a_job_is_markup() -> None:
    task = TaskSpec(
        name=HOSTILE,
        template={"spec": {"containers": [{"image": HOSTILE, "command": [HOSTILE]}]}},
        depends_on=DependsOn(name=[HOSTILE]),
    )
    job = Job(metadata=Metadata(name=HOSTILE), spec=JobSpec(tasks=[task], plugins={HOSTILE: []}, queue=HOSTILE))
    assert shown(job._repr_html_()).count(ESCAPED) >= 6

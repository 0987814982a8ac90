from __future__ import annotations

from typing import Any

import pytest

from tests.builders import a_document
from tests.unit.admission.findings import Row, error, found, task

ON_FAILURE = {"event": "PodFailed", "action": "RestartJob"}


def blank(path: str) -> Row:
    return error(path, "must not be empty", hint="omit it")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"priorityClassName": ""}, [blank("spec.priorityClassName")], id="priority class"),
        pytest.param({"runningEstimate": ""}, [blank("spec.runningEstimate")], id="estimate"),
        pytest.param({"networkTopology": {"mode": ""}}, [blank("spec.networkTopology.mode")], id="mode"),
        pytest.param(
            {"policies": [{**ON_FAILURE, "timeout": ""}]}, [blank("spec.policies[0].timeout")], id="policy's timeout"
        ),
        pytest.param(
            {"policies": [{"event": "", "events": ["PodFailed"], "action": "RestartJob"}]},
            [blank("spec.policies[0].event")],
            id="policy's event",
        ),
        pytest.param(
            {"tasks": [task(policies=[{**ON_FAILURE, "timeout": ""}])]},
            [blank("spec.tasks[0].policies[0].timeout")],
            id="timeout of a task's policy",
        ),
        pytest.param(
            {"tasks": [task(policies=[{"event": "", "events": ["PodFailed"], "action": "RestartTask"}])]},
            [blank("spec.tasks[0].policies[0].event")],
            id="event of a task's policy",
        ),
        pytest.param(
            {"tasks": [task(topologyPolicy="")]}, [blank("spec.tasks[0].topologyPolicy")], id="topology of a task"
        ),
        pytest.param(
            {"tasks": [task("a"), task("b", dependsOn={"name": ["a"], "condition": ""})]},
            [blank("spec.tasks[1].dependsOn.condition")],
            id="condition",
        ),
        pytest.param(
            {
                "tasks": [
                    task(
                        replicas=2,
                        partitionPolicy={"totalPartitions": 1, "partitionSize": 2, "networkTopology": {"mode": ""}},
                    )
                ]
            },
            [blank("spec.tasks[0].partitionPolicy.networkTopology.mode")],
            id="mode of partitions",
        ),
        pytest.param({"queue": "", "schedulerName": ""}, [], id="what has a default"),
    ],
)
def test_empty_strings(spec: dict[str, Any], expected: list[Row]) -> None:
    assert found(a_document(**spec)) == expected

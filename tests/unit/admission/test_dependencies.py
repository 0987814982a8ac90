from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Manifest
from tests.builders import a_document
from tests.unit.admission.findings import Row, error, found, task


def waiting(name: str, *others: str, **fields: Any) -> Manifest:
    return task(name, dependsOn={"name": list(others), **fields})


def circle(position: int, chain: str) -> Row:
    return error(f"spec.tasks[{position}].dependsOn", f"the tasks depend on each other in a cycle: {chain}")


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        pytest.param(
            [task("master"), waiting("worker", "mastr")],
            [error("spec.tasks[1].dependsOn.name[0]", "no task has this name", "mastr", "did you mean master?")],
            id="mistyped name",
        ),
        pytest.param(
            [task("master"), waiting("worker", "master", "nobody")],
            [
                error(
                    "spec.tasks[1].dependsOn.name[1]", "no task has this name", "nobody", "the tasks are master, worker"
                )
            ],
            id="unknown name",
        ),
        pytest.param(
            [waiting("a", "a")],
            [error("spec.tasks[0].dependsOn.name[0]", "a task cannot depend on itself", "a")],
            id="itself",
        ),
        pytest.param(
            [task("a"), waiting("b", "a", "a")],
            [error("spec.tasks[1].dependsOn.name[1]", "is listed twice", "a")],
            id="name twice",
        ),
        pytest.param([waiting("a", "b"), waiting("b", "a")], [circle(0, "a -> b -> a")], id="circle of two"),
        pytest.param(
            [waiting("x", "b"), waiting("b", "c"), waiting("c", "d"), waiting("d", "b"), task("e")],
            [circle(1, "b -> c -> d -> b")],
            id="circle of three with one behind it",
        ),
        pytest.param(
            [waiting(chr(ord("a") + n), chr(ord("a") + (n + 1) % 26)) for n in range(26)],
            [circle(0, f"{' -> '.join('abcdefghijk')} -> ... -> a")],
            id="circle too long to be written out",
        ),
        pytest.param(
            [waiting("a", "b", "nobody"), waiting("b", "a", "b")],
            [
                error("spec.tasks[0].dependsOn.name[1]", "no task has this name", "nobody", "the tasks are a, b"),
                error("spec.tasks[1].dependsOn.name[1]", "a task cannot depend on itself", "b"),
                circle(0, "a -> b -> a"),
            ],
            id="all at once",
        ),
        pytest.param(
            [task("a"), waiting("b", "a", iteration="some")],
            [error("spec.tasks[1].dependsOn.iteration", "must be any or all", "some")],
            id="unknown iteration",
        ),
        pytest.param(
            [task("a"), waiting("b", "a", condition="completed")],
            [
                error(
                    "spec.tasks[1].dependsOn.condition",
                    "must be Running or Completed",
                    "completed",
                    "did you mean Completed?",
                )
            ],
            id="unknown condition",
        ),
        pytest.param(
            [
                task("a"),
                waiting("b", "a", iteration="any"),
                waiting("c", "a", "b", iteration="all", condition="Running"),
            ],
            [],
            id="good",
        ),
        pytest.param([waiting("a")], [], id="no dependencies"),
    ],
)
def test_dependencies(tasks: list[Manifest], expected: list[Row]) -> None:
    assert found(a_document(tasks=tasks)) == expected

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from pumice.model.bare_pod import bare_pod
from pumice.model.findings import ROOT
from pumice.plugins.arguments import Option
from pumice.plugins.base import Base, option, port_option
from tests.builders import a_job, a_slot


@dataclass(frozen=True, slots=True)
class Demo(Base):
    name: ClassVar[str] = "demo"

    task_name: str = option("worker", "a task", aliases=("taskTitle",))
    port: int = port_option(80, "a port")
    limit: int | None = option(None, "a limit", flag="maxLimit", low=1)
    plain: bool = False


def test_options_are_read_off_the_fields() -> None:
    assert Demo.options() == (
        Option("task-name", str, "worker", "a task", aliases=("taskTitle",)),
        Option("port", int, 80, "a port", low=1, high=65535),
        Option("maxLimit", int, None, "a limit", low=1),
        Option("plain", bool, False),
    )


@pytest.mark.parametrize(
    ("kind", "default", "problem"),
    [
        pytest.param(float, 1.0, "option field: its type must be str, int or bool", id="float"),
        pytest.param(list[str], "", "option field: its type must be str, int or bool", id="list"),
        pytest.param(int | str, 1, "option field: its type must be str, int or bool", id="two types"),
        pytest.param(str, dataclasses.MISSING, "option field: it must have a default", id="no default"),
    ],
)
def test_what_cannot_be_an_option(kind: Any, default: Any, problem: str) -> None:
    field = dataclasses.field(default=default)
    plugin: Any = dataclasses.make_dataclass("Odd", [("field", kind, field)], bases=(Base,), frozen=True)
    with pytest.raises(TypeError, match=problem):
        plugin.options()


def test_parse_makes_a_plugin_of_what_is_right() -> None:
    plugin, findings = Demo.parse(["--max-limit=3", "--port=0", "taskTitle=a"])
    assert plugin == Demo(task_name="a", limit=3)
    assert [str(finding.path) for finding in findings] == ["spec.plugins.demo[1]"]


def test_parse_with_another_path() -> None:
    _, findings = Demo.parse(["x"], ROOT / "here")
    assert [str(finding.path) for finding in findings] == ["here[0]"]


def test_every_hook_may_be_left_out() -> None:
    job = a_job()
    slot = a_slot(job)
    pod = bare_pod(slot)
    plugin = Base()
    assert (list(plugin.check(job)), list(plugin.objects(job)), plugin.why(slot)) == ([], [], {})
    assert plugin.shape_pod(pod, slot) is pod

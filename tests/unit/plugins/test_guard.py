"""Third-party plugins that misbehave in every hook, each reported under its name."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from pumice.model.bare_pod import bare_pod
from pumice.model.findings import SPEC, Finding
from pumice.model.objects import Once
from pumice.model.pod import Pod
from pumice.plugins.base import Base, PluginError
from pumice.plugins.guard import guard, guarded
from tests.builders import a_container, a_job, a_slot, a_task, a_template, rows

TEMPLATE = a_template(a_container("a"), a_container("b"), initContainers=[a_container("i")])
JOB = a_job(a_task(template=TEMPLATE))
SLOT = a_slot(JOB)
GOOD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


def plugin_with(**hooks: Any) -> Base:
    """A third party's plugin with these hooks, guarded."""
    kind: Any = type("Odd", (Base,), {"name": "odd", "__slots__": (), **hooks})
    return guard(kind())


def gives(value: object) -> Callable[..., object]:
    return lambda *_: value


def raises(*_: object) -> object:
    raise KeyError("lost")


def edited(edit: Callable[[dict[str, Any]], object]) -> Callable[..., Pod]:
    """A `shape_pod` that edits the manifest in place."""

    def shape_pod(_self: object, pod: Pod, _slot: object) -> Pod:
        edit(pod.manifest)
        return pod

    return shape_pod


def test_a_valid_plugin_passes() -> None:
    finding = Finding(SPEC, "hm")
    once = Once({**GOOD, "stringData": {"a": "b"}}, lambda _: {})
    plugin = plugin_with(
        check=gives([finding]),
        objects=gives([GOOD, once]),
        shape_pod=edited(lambda manifest: manifest["spec"].update(hostname="x", tuple=(1, 2.5, None, True))),
        why=gives({"hostname": "just so"}),
    )
    assert plugin.name == "odd"
    assert (plugin.check(JOB), plugin.objects(JOB), plugin.why(SLOT)) == (
        [finding],
        [GOOD, once],
        {"hostname": "just so"},
    )
    assert plugin.shape_pod(bare_pod(SLOT), SLOT).spec["hostname"] == "x"


def test_a_fence_needs_what_the_plugin_needs() -> None:
    assert plugin_with(requires=("svc",)).requires == ("svc",)


def test_a_plugin_that_edits_in_place_affects_no_other_pod() -> None:
    plugin = plugin_with(shape_pod=edited(lambda manifest: manifest["spec"]["containers"][0].update(env=[])))
    before = bare_pod(SLOT)
    assert plugin.shape_pod(before, SLOT).containers[0]["env"] == []
    assert before.containers == bare_pod(SLOT).containers == TEMPLATE["spec"]["containers"]


def test_a_plugin_that_edits_the_job_in_place_edits_its_own_copy() -> None:
    def spoil(job: Any) -> list[Any]:
        job.spec.tasks[0].template["spec"].clear()
        return []

    def shape_pod(_self: object, pod: Pod, slot: Any) -> Pod:
        spoil(slot.job)
        slot.task.template.clear()
        return pod

    plugin = plugin_with(
        check=lambda _, job: spoil(job),
        objects=lambda _, job: spoil(job),
        shape_pod=shape_pod,
        why=lambda _, slot: spoil(slot.job),
    )
    job = a_job(a_task(template=deepcopy(TEMPLATE)))
    slot = a_slot(job)
    assert (plugin.check(job), plugin.objects(job)) == ([], [])
    assert plugin.why(slot) == {}
    plugin.shape_pod(bare_pod(slot), slot)
    assert job.spec.tasks[0].template == TEMPLATE


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        pytest.param(raises, "KeyError: 'lost'", id="raises"),
        pytest.param(gives(None), "TypeError: 'NoneType' object is not iterable", id="none"),
        pytest.param(gives(["oh"]), "TypeError: a finding must be a pumice.Finding with a pumice.Path", id="a text"),
        pytest.param(
            gives([Finding("spec.tasks", "oh")]),  # type: ignore[arg-type]  # the mistake that is tested
            "TypeError: a finding must be a pumice.Finding with a pumice.Path",
            id="a text for a path",
        ),
    ],
)
def test_check(check: Any, problem: str) -> None:
    assert rows(plugin_with(check=check).check(JOB)) == [("error", "spec.plugins.odd", f"plugin odd failed: {problem}")]


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        pytest.param(raises, "KeyError: 'lost'", id="raises"),
        pytest.param(gives(None), "TypeError: 'NoneType' object is not iterable", id="none"),
        pytest.param(gives(["x"]), "TypeError: an object must be a mapping, not a str", id="a text"),
        pytest.param(
            gives([{"kind": "ConfigMap", "metadata": {"name": "x"}}]),
            "TypeError: an object needs apiVersion, kind and metadata.name",
            id="no apiVersion",
        ),
        pytest.param(
            gives([{**GOOD, "metadata": {}}]),
            "TypeError: an object needs apiVersion, kind and metadata.name",
            id="no name",
        ),
        pytest.param(gives([{"kind": "x"}]), "TypeError: metadata must be a mapping, not a NoneType", id="no metadata"),
        pytest.param(gives([{**GOOD, "data": ["x"]}]), "TypeError: data must be a mapping, not a list", id="data list"),
        pytest.param(gives([{**GOOD, "data": {"a": 1}}]), "TypeError: data must hold strings", id="data of numbers"),
        pytest.param(
            gives([Once({**GOOD, "stringData": {"a": 1}}, lambda _: {})]),
            "TypeError: stringData must hold strings",
            id="secret of numbers",
        ),
        pytest.param(gives([{**GOOD, "x": {1: 2}}]), "TypeError: the key 1 must be a string", id="a number for a key"),
        pytest.param(gives([{**GOOD, "x": [{1}]}]), "TypeError: a set cannot be written as YAML", id="a set"),
    ],
)
def test_objects(objects: Any, problem: str) -> None:
    with pytest.raises(PluginError) as caught:
        plugin_with(objects=objects).objects(JOB)
    assert str(caught.value) == f"plugin odd failed: {problem}"
    assert rows([caught.value.finding()]) == [("error", "spec.plugins.odd", str(caught.value))]


@pytest.mark.parametrize(
    ("shape_pod", "problem"),
    [
        pytest.param(raises, "KeyError: 'lost'", id="raises"),
        pytest.param(gives(None), "TypeError: shape_pod must return a Pod, it returned a NoneType", id="none"),
        pytest.param(gives({}), "TypeError: shape_pod must return a Pod, it returned a dict", id="a mapping"),
        pytest.param(gives(Pod({})), "KeyError: 'spec'", id="an empty pod"),
        pytest.param(
            edited(lambda manifest: manifest["spec"]["containers"].pop()),
            "ValueError: containers of the pod were removed, renamed or moved",
            id="a container removed",
        ),
        pytest.param(
            edited(lambda manifest: manifest["spec"]["containers"].reverse()),
            "ValueError: containers of the pod were removed, renamed or moved",
            id="containers moved",
        ),
        pytest.param(
            edited(lambda manifest: manifest["spec"].pop("initContainers")),
            "ValueError: initContainers of the pod were removed, renamed or moved",
            id="init containers removed",
        ),
        pytest.param(
            edited(lambda manifest: manifest["metadata"].update(name="x")),
            "ValueError: the pod was renamed",
            id="renamed",
        ),
        pytest.param(
            edited(lambda manifest: manifest["spec"]["containers"][1].update(env=[{"nome": "A"}])),
            "ValueError: env of container b has an entry without name",
            id="a variable without name",
        ),
        pytest.param(
            edited(lambda manifest: manifest["spec"]["initContainers"][0].update(ports=[80])),
            "ValueError: ports of container i has an entry without containerPort",
            id="a number for a port",
        ),
        pytest.param(
            edited(lambda manifest: manifest["spec"].update(x=object())),
            "TypeError: a object cannot be written as YAML",
            id="an object",
        ),
    ],
)
def test_shape_pod(shape_pod: Any, problem: str) -> None:
    with pytest.raises(PluginError) as caught:
        plugin_with(shape_pod=shape_pod).shape_pod(bare_pod(SLOT), SLOT)
    assert str(caught.value) == f"plugin odd failed: {problem}"


@pytest.mark.parametrize("why", [pytest.param(raises, id="raises"), pytest.param(gives(5), id="a number")])
def test_why(why: Any) -> None:
    with pytest.raises(PluginError, match="plugin odd failed"):
        plugin_with(why=why).why(SLOT)


@dataclass(frozen=True, slots=True)
class Odd(Base):
    name: ClassVar[str] = "odd"

    word: str = "x"


def parses_to(value: object) -> Any:
    return type("Odd", (Odd,), {"__slots__": (), "parse": classmethod(lambda *_: value)})


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        pytest.param(parses_to(None), "TypeError: cannot unpack", id="none"),
        pytest.param(parses_to(("x", [])), "AttributeError: 'str' object has no attribute", id="no plugin"),
        pytest.param(parses_to((Odd(), ["oh"])), "TypeError: a finding must be", id="texts for findings"),
    ],
)
def test_parse_that_gives_nonsense(kind: Any, problem: str) -> None:
    plugin, findings = guarded(kind, [])
    assert plugin is None
    assert findings[0].message.startswith(f"plugin odd failed: {problem}")


def test_parse() -> None:
    plugin, findings = guarded(Odd, ["--word=y", "--z"])
    assert plugin is not None
    assert plugin.name == "odd"
    assert [str(finding.path) for finding in findings] == ["spec.plugins.odd[1]"]

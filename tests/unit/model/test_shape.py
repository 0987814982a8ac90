from __future__ import annotations

import pytest

from pumice.model.findings import ROOT, Finding, Path
from pumice.model.shape import ObjectType, misfits

SCHEMA = {
    "Template": ObjectType({"metadata": "Meta", "spec": "Pod"}),
    "Meta": ObjectType({"labels": "{}string", "name": "string"}),
    "Pod": ObjectType(
        {
            "containers": "[]Container",
            "initContainers": "[]Container",
            "nodeSelector": "{}string",
            "overhead": "{}quantity",
            "restartPolicy": "string",
            "tolerations": "[]Toleration",
            "extra": "object",
        },
        ("containers",),
    ),
    "Container": ObjectType(
        {
            "name": "string",
            "image": "string",
            "imagePullPolicy": "string",
            "command": "[]string",
            "liveness": "Probe",
            "readiness": "Probe",
            "resources": "Resources",
            "ports": "[]Port",
        },
        ("name",),
    ),
    "Port": ObjectType({"number": "int32", "free": "any"}, ("number",)),
    "Probe": ObjectType({"exec": "any"}),
    "Resources": ObjectType({"limits": "{}quantity"}),
    "Toleration": ObjectType({"key": "string"}),
}
MEANT = "did you mean imagePullPolicy?"
SPEC = Path(("spec",))
CONTAINERS = SPEC / "containers"
SELECTOR = SPEC / "nodeSelector"
FIRST = CONTAINERS / 0


def found(value: object, type_: str = "Template") -> list[Finding]:
    return list(misfits(value, type_, SCHEMA, ROOT))


def in_container(**fields: object) -> dict[str, object]:
    return {"spec": {"containers": [{"name": "a", **fields}]}}


def in_spec(**fields: object) -> dict[str, object]:
    return {"spec": {"containers": [], **fields}}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({}, id="nothing is required at the top"),
        pytest.param({"metadata": None, "spec": None}, id="null is absent"),
        pytest.param(in_container(image=None, command=["a", "b"], ports=[{"number": 80, "free": [None]}]), id="full"),
        pytest.param(in_spec(nodeSelector={"a/b": "c"}, overhead={"cpu": 1}), id="maps"),
        pytest.param(in_spec(extra={"any": {"thing": [1, None]}}), id="an object without a type"),
    ],
)
def test_what_fits(value: object) -> None:
    assert found(value) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param([], Finding(ROOT, "must be a mapping, found a list"), id="a list for an object"),
        pytest.param({"spec": "x"}, Finding(SPEC, "must be a mapping, found a string", "x"), id="text for an object"),
        pytest.param({"spec": {}}, Finding(CONTAINERS, "is required"), id="missing"),
        pytest.param({"spec": {"containers": None}}, Finding(CONTAINERS, "is required"), id="null where required"),
        pytest.param(
            in_spec(containers={"name": "a"}),
            Finding(CONTAINERS, "must be a list, found a mapping", hint="write it as a list item: - name: ..."),
            id="one mapping for a list",
        ),
        pytest.param(in_spec(containers={}), Finding(CONTAINERS, "must be a list, found a mapping"), id="no keys"),
        pytest.param(
            in_container(command="sleep"),
            Finding(FIRST / "command", "must be a list, found a string", "sleep", "write it as a list item: - sleep"),
            id="a string for a list",
        ),
        pytest.param(
            in_container(command="sleep 10"),
            Finding(
                FIRST / "command", "must be a list, found a string", "sleep 10", "write it as a list, one item a word"
            ),
            id="a command line for a list",
        ),
        pytest.param(
            in_container(command="x" * 41),
            Finding(FIRST / "command", "must be a list, found a string", "x" * 41),
            id="a long string for a list",
        ),
        pytest.param(
            in_container(command=["a", None]), Finding(FIRST / "command" / 1, "must be a string, found null"), id="null"
        ),
        pytest.param(
            in_container(command=[1]),
            Finding(FIRST / "command" / 0, "must be a string, found a number", 1, 'quote it: "1"'),
            id="a number for a string",
        ),
        pytest.param(
            in_container(ports=[{"number": "80"}]),
            Finding(
                FIRST / "ports" / 0 / "number", "must be a whole number, found a string", "80", "remove the quotes"
            ),
            id="a quoted number",
        ),
        pytest.param(
            in_spec(nodeSelector=["a"]),
            Finding(SELECTOR, "must be a mapping, found a list", hint="write key: value lines without a leading -"),
            id="a list for a map",
        ),
        pytest.param(
            in_spec(nodeSelector="a"),
            Finding(SELECTOR, "must be a mapping, found a string", "a"),
            id="a string for a map",
        ),
        pytest.param(
            in_spec(nodeSelector={"a": None}),
            Finding(SELECTOR / "a", "must be a string, found null"),
            id="null in a map",
        ),
        pytest.param(
            in_spec(nodeSelector={True: "x"}),
            Finding(SELECTOR / "true", "the key must be a string, found a boolean", hint='quote it: "true"'),
            id="a key that YAML made a boolean in a map",
        ),
        pytest.param(
            in_spec(extra="x"), Finding(SPEC / "extra", "must be a mapping, found a string", "x"), id="untyped object"
        ),
    ],
)
def test_wrong_types(value: object, expected: Finding) -> None:
    assert found(value) == [expected]


def test_a_key_of_an_object_that_is_no_string() -> None:
    at = ROOT / "1"
    assert found({1: "x"}) == [Finding(at, "the key must be a string, found a number", hint='quote it: "1"')]


@pytest.mark.parametrize(
    ("value", "at", "hint"),
    [
        pytest.param(in_container(imagepullpolicy="x"), FIRST / "imagepullpolicy", MEANT, id="case"),
        pytest.param(in_container(imagePulPolicy="x"), FIRST / "imagePulPolicy", MEANT, id="typo"),
        pytest.param(in_container(whatever=1), FIRST / "whatever", "", id="nothing like it"),
        pytest.param(in_spec(image="x"), SPEC / "image", "it belongs to spec.containers[]", id="too high: required"),
        pytest.param(in_spec(key="x"), SPEC / "key", "it belongs to spec.tolerations[]", id="too high: the only one"),
        pytest.param({"labels": {}}, ROOT / "labels", "it belongs to metadata", id="too high: an object, not a list"),
        pytest.param(in_container(exec={}), FIRST / "exec", "", id="too high: more than one knows it"),
        pytest.param(
            in_container(restartPolicy="x"), FIRST / "restartPolicy", "it belongs to spec", id="too deep by one level"
        ),
        pytest.param(
            in_container(resources={"restartPolicy": "x"}),
            FIRST / "resources" / "restartPolicy",
            "it belongs to spec",
            id="too deep by two levels",
        ),
        pytest.param(in_container(resources={"name": "x"}), FIRST / "resources" / "name", "", id="too deep, set there"),
        pytest.param(
            {"metadata": {"spec": {}}}, ROOT / "metadata" / "spec", "it belongs to the top level", id="top level"
        ),
    ],
)
def test_unknown_fields(value: object, at: Path, hint: str) -> None:
    assert found(value) == [Finding(at, "unknown field", hint=hint)]


@pytest.mark.parametrize(
    ("value", "at", "correct_path"),
    [
        pytest.param(in_container(imagePulPolicy="x"), FIRST / "imagePulPolicy", FIRST / "imagePullPolicy", id="typo"),
        pytest.param(
            in_container(imagePulPolicy="x", imagePullPolicy="y"), FIRST / "imagePulPolicy", None, id="both are there"
        ),
        pytest.param(
            in_container(imagePulPolicy="x", imagePullPolicy=None),
            FIRST / "imagePulPolicy",
            FIRST / "imagePullPolicy",
            id="the right one is null",
        ),
        pytest.param(in_container(whatever=1), FIRST / "whatever", None, id="nothing like it"),
        pytest.param(in_spec(image="x"), SPEC / "image", None, id="too high: the item is not known"),
        pytest.param({"labels": {}}, ROOT / "labels", ROOT / "metadata" / "labels", id="too high"),
        pytest.param({"labels": {}, "metadata": {}}, ROOT / "labels", ROOT / "metadata" / "labels", id="not there yet"),
        pytest.param({"labels": {}, "metadata": {"labels": {}}}, ROOT / "labels", None, id="too high, and there"),
        pytest.param(in_container(nodeSelector={}), FIRST / "nodeSelector", SPEC / "nodeSelector", id="too deep"),
    ],
)
def test_where_an_unknown_field_should_be(value: object, at: Path, correct_path: Path | None) -> None:
    assert [finding.correct_path for finding in found(value) if finding.path == at] == [correct_path]


def test_all_misfits_come_at_once_and_in_order() -> None:
    value = {"kind": "Pod", "spec": {"containers": [{"image": 5, "ports": [{}, 3]}, None], "restartPolicy": []}}
    assert [(str(finding.path), finding.message) for finding in found(value)] == [
        ("kind", "unknown field"),
        ("spec.containers[0].image", "must be a string, found a number"),
        ("spec.containers[0].ports[0].number", "is required"),
        ("spec.containers[0].ports[1]", "must be a mapping, found a number"),
        ("spec.containers[0].name", "is required"),
        ("spec.containers[1]", "must be a mapping, found null"),
        ("spec.restartPolicy", "must be a string, found a list"),
    ]


def test_depth_is_no_problem() -> None:
    schema = {"Node": ObjectType({"next": "Node", "leaf": "string"})}
    value: object = {"leaf": 1}
    for _ in range(100):
        value = {"next": value}
    assert [len(finding.path) for finding in misfits(value, "Node", schema, ROOT)] == [101]

from __future__ import annotations

import json
from importlib.resources import files

import msgspec
import pytest

from pumice.model.findings import ROOT
from pumice.model.shape import ObjectType, misfits
from scripts.compact_schema import document, reachable


class Document(msgspec.Struct, forbid_unknown_fields=True):
    kubernetes: str
    types: dict[str, ObjectType]


SHIPPED = msgspec.json.decode((files("pumice") / "data" / "kubernetes.json").read_bytes(), type=Document)
CORE = "io.k8s.api.core.v1."


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{name}", "description": "prose"}


def swagger(**properties: object) -> dict[str, object]:
    template = {"description": "prose", "properties": properties, "required": ["b", "a"], "type": "object"}
    others = ("PersistentVolumeClaimSpec", "PersistentVolumeClaim", "ConfigMap", "Secret")
    definitions = {CORE + name: {"type": "object"} for name in (*others, "Unreachable", "Self")}
    definitions[CORE + "Self"]["properties"] = {"again": ref(CORE + "Self")}  # type: ignore[assignment] # a test's literal
    definitions |= {"io.k8s.util.Self": {}, "io.k8s.util.Quantity": {"type": "string"}}
    return {"definitions": {CORE + "PodTemplateSpec": template, **definitions}}


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        pytest.param({"type": "string"}, "string", id="string"),
        pytest.param({"type": "string", "format": "byte"}, "bytes", id="bytes"),
        pytest.param({"type": "string", "format": "date-time"}, "time", id="time"),
        pytest.param({"type": "boolean"}, "bool", id="bool"),
        pytest.param({"type": "number", "format": "double"}, "number", id="number"),
        pytest.param({"type": "integer", "format": "int32"}, "int32", id="int32"),
        pytest.param({"type": "integer"}, "int64", id="an integer without a format"),
        pytest.param({"type": "object"}, "object", id="object"),
        pytest.param({}, "any", id="no type"),
        pytest.param({"type": "array", "items": {"type": "string"}}, "[]string", id="list"),
        pytest.param({"type": "object", "additionalProperties": {"type": "string"}}, "{}string", id="map"),
        pytest.param(ref("io.k8s.util.Quantity"), "quantity", id="a type that is one value"),
        pytest.param({"type": "array", "items": ref(CORE + "Self")}, "[]Self", id="list of objects"),
    ],
)
def test_types(field: object, expected: str) -> None:
    made = json.loads(document(swagger(a=field), "v1"))
    assert made["types"]["PodTemplateSpec"] == {"fields": {"a": expected}, "required": ["a", "b"]}


def test_only_what_is_reachable_is_kept_and_a_type_may_refer_to_itself() -> None:
    made = json.loads(document(swagger(a=ref(CORE + "Self")), "v1.2.3"))
    assert made["kubernetes"] == "v1.2.3"
    assert made["types"]["Self"] == {"fields": {"again": "Self"}}
    assert "Unreachable" not in made["types"]


def test_two_types_of_one_name_are_refused() -> None:
    with pytest.raises(SystemExit, match="two types are called Self"):
        reachable(swagger(a=ref(CORE + "Self"), b=ref("io.k8s.util.Self"))["definitions"])  # type: ignore[arg-type] # a test's literal


def test_the_shipped_schema_is_complete() -> None:
    scalars = {"string", "int32", "int64", "bool", "quantity", "intOrString", "time", "bytes", "object"}
    named = {
        type_.removeprefix("[]").removeprefix("{}")
        for shape in SHIPPED.types.values()
        for type_ in shape.fields.values()
    }
    assert named - scalars <= SHIPPED.types.keys()
    assert all(set(shape.required) <= shape.fields.keys() for shape in SHIPPED.types.values())


def test_the_shipped_schema_knows_a_pod_template() -> None:
    container = {"name": "a", "image": "b", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    assert list(misfits(template, "PodTemplateSpec", SHIPPED.types, ROOT)) == []

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

from pumice.model.json_schema import DIALECT, job_schema
from pumice.model.shape import ObjectType
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.builders import a_document
from tests.meta.tree import ROOT

SCHEMA = job_schema(kubernetes_types().types)
CHECKER = jsonschema.Draft7Validator(SCHEMA)
TINY = {
    "ObjectMeta": ObjectType({"name": "string", "labels": "{}string"}),
    "PodTemplateSpec": ObjectType({"list": "[]ObjectMeta", "amount": "quantity", "free": "any"}, ("list",)),
    "PersistentVolumeClaimSpec": ObjectType({"port": "intOrString"}),
}


def test_it_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == DIALECT
    assert SCHEMA["required"] == ["apiVersion", "kind", "metadata", "spec"]


def test_kubernetes_types_become_definitions() -> None:
    definitions = job_schema(TINY)["definitions"]
    assert {name: definitions[name] for name in TINY} == {
        "ObjectMeta": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
        "PodTemplateSpec": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "list": {"type": "array", "items": {"$ref": "#/definitions/ObjectMeta"}},
                "amount": {"type": ["string", "number"]},
                "free": {},
            },
            "required": ["list"],
        },
        "PersistentVolumeClaimSpec": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"port": {"type": ["string", "integer"]}},
        },
    }
    assert not set(definitions) & {"Job", "JobStatus", "JobState", "Metadata"}


def test_our_own_types() -> None:
    schema = job_schema(TINY)
    volume = schema["definitions"]["VolumeSpec"]
    assert volume == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "mountPath": {"type": "string", "description": "where every container finds the volume"},
            "volumeClaimName": {"type": "string", "description": "an existing claim", "maxLength": 253},
            "volumeClaim": {
                "allOf": [{"$ref": "#/definitions/PersistentVolumeClaimSpec"}],
                "description": "a claim to be made for this job",
            },
        },
    }
    spec = schema["definitions"]["JobSpec"]["properties"]
    assert spec["minSuccess"] == {
        "type": "integer",
        "minimum": 1,
        "description": "the job is complete when this many pods succeeded",
    }
    assert spec["networkTopology"] == {
        "allOf": [{"$ref": "#/definitions/NetworkTopology"}],
        "description": "how close the pods must be",
    }
    assert schema["properties"]["status"] == {"type": "object", "description": "written by the controller"}


def test_every_field_of_a_file_is_described() -> None:
    own = [SCHEMA, *(SCHEMA["definitions"][name] for name in ("JobSpec", "TaskSpec", "LifecyclePolicy", "DependsOn"))]
    assert [name for part in own for name, field in part["properties"].items() if not field.get("description")] == []


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda file: file.stem)
def test_the_examples_fit(example: Any) -> None:
    for document in yaml.safe_load_all(example.read_text()):
        if document and document["kind"] == "Job":
            assert [error.message for error in CHECKER.iter_errors(document)] == []


@pytest.mark.parametrize(
    ("document", "path"),
    [
        pytest.param({**a_document(), "spce": {}}, [], id="an unknown field"),
        pytest.param(a_document(minAvailable="2"), ["spec", "minAvailable"], id="a text for a number"),
        pytest.param(a_document(minAvailable=-1), ["spec", "minAvailable"], id="less than the least"),
        pytest.param(a_document(policies=[{"action": "Explode"}]), ["spec", "policies", 0, "action"], id="an action"),
        pytest.param(
            a_document(tasks=[{"template": {"spec": {"containers": [{"nome": "x"}]}}}]),
            ["spec", "tasks", 0, "template", "spec", "containers", 0],
            id="in the template",
        ),
    ],
)
def test_misfits_are_reported(document: dict[str, Any], path: list[Any]) -> None:
    assert path in [list(error.absolute_path) for error in CHECKER.iter_errors(document)]

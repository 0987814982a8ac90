"""A JSON Schema of the Job, generated from the model and Kubernetes' types, as `validate` uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pumice.model.job import Job
from pumice.model.shape import ObjectType, Schema

JsonSchema = dict[str, Any]

# The YAML language servers of editors support draft 7 in full.
DIALECT: Final = "http://json-schema.org/draft-07/schema#"
_KUBERNETES_PARTS: Final = {
    "metadata": "ObjectMeta",
    "template": "PodTemplateSpec",
    "volumeClaim": "PersistentVolumeClaimSpec",
}
_SCALARS: Final[Mapping[str, JsonSchema]] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "int64": {"type": "integer"},
    "bool": {"type": "boolean"},
    "number": {"type": "number"},
    "quantity": {"type": ["string", "number"]},
    "intOrString": {"type": ["string", "integer"]},
    "time": {"type": "string"},
    "bytes": {"type": "string"},
    "object": {"type": "object"},
    "any": {},
}


def job_schema(kubernetes: Schema) -> JsonSchema:
    (_, own) = msgspec.json.schema_components([Job], ref_template="#/definitions/{name}")
    definitions = {name: _own(schema) for name, schema in own.items() if name not in _STATUS}
    definitions |= {name: _kubernetes(kind) for name, kind in kubernetes.items()}
    job = definitions.pop("Job")
    job["properties"]["status"] = {"type": "object", "description": "written by the controller"}
    return {
        "$schema": DIALECT,
        "title": "Job (batch.volcano.sh/v1alpha1)",
        **job,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "definitions": definitions,
    }


_STATUS: Final = ("JobStatus", "JobState", "JobCondition", "TaskState", "Metadata")


def _own(schema: JsonSchema) -> JsonSchema:
    """Convert one of the Job's own types: no additional properties, and references to Kubernetes' types."""
    properties = {}
    for name, field in schema["properties"].items():
        described = {"description": field["description"]} if "description" in field else {}
        if name in _KUBERNETES_PARTS:
            properties[name] = {"allOf": [_reference(_KUBERNETES_PARTS[name])], **described}
        else:
            properties[name] = _plain(field)
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _plain(field: JsonSchema) -> JsonSchema:
    """Return a field without `anyOf` and null, which editors would show instead of the type."""
    kept = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    if not kinds:
        return kept
    # Draft 7 ignores keywords beside a reference.
    return kept | ({"allOf": kinds} if "$ref" in kinds[0] else kinds[0])


def _kubernetes(kind: ObjectType) -> JsonSchema:
    schema: JsonSchema = {"type": "object", "additionalProperties": False}
    schema["properties"] = {name: _expression(expression) for name, expression in kind.fields.items()}
    if kind.required:
        schema["required"] = list(kind.required)
    return schema


def _expression(expression: str) -> JsonSchema:
    if expression.startswith("[]"):
        return {"type": "array", "items": _expression(expression[2:])}
    if expression.startswith("{}"):
        return {"type": "object", "additionalProperties": _expression(expression[2:])}
    return dict(_SCALARS[expression]) if expression in _SCALARS else _reference(expression)


def _reference(name: str) -> JsonSchema:
    return {"$ref": f"#/definitions/{name}"}

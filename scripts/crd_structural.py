"""Converts the compact schema of Kubernetes' types to structural schemas, as CustomResourceDefinitions need them.

A structural schema has no references: every use of a type is written out. The result keeps what server-side apply
needs (how lists are merged, and by which keys) and the type of each field; the webhook checks everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pumice.model.shape import Schema

Structural = dict[str, Any]

QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
# The only form of "integer or string" that API servers accept.
_INT_OR_STRING: Final[Structural] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_FREE: Final[Structural] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SCALARS: Final[Mapping[str, Structural]] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "integer": {"type": "integer"},
    "bool": {"type": "boolean"},
    "number": {"type": "number"},
    "quantity": {**_INT_OR_STRING, "pattern": QUANTITY_PATTERN},
    "intOrString": _INT_OR_STRING,
    "time": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "object": _FREE,
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}
# Keys of list items are mandatory. The API server sets these two by default, so the schema must as well.
_DEFAULTS: Final[Mapping[tuple[str, str], Structural]] = {
    ("ContainerPort", "protocol"): {"default": "TCP"},
    ("LocalObjectReference", "name"): {"default": ""},
    # `kubectl create --dry-run=client` prints `creationTimestamp: null` in templates.
    ("ObjectMeta", "creationTimestamp"): {"nullable": True},
}
# The metadata of a template is copied, never merged, so duplicate finalizers there must not make a Job invalid.
_WITHOUT_MERGE: Final = frozenset({"ObjectMeta"})


def structural(expression: str, types: Schema, explained: str = "") -> Structural:
    """Return the schema of a type expression such as `PodTemplateSpec` or `{}quantity`, written out in full.

    `explained` is the path by which `kubectl explain` describes the type, such as `pod.spec`; descriptions refer to it.
    """
    if expression.startswith("[]"):
        items = structural(expression[2:], types, explained)
        return {"type": "array", "items": items, "x-kubernetes-list-type": "atomic"}
    if expression.startswith("{}"):
        return {"type": "object", "additionalProperties": structural(expression[2:], types, explained)}
    if expression in types:
        return _object(expression, types, explained)
    return dict(SCALARS[expression])


def _object(name: str, types: Schema, explained: str) -> Structural:
    type_, properties = types[name], {}
    for field, expression in type_.fields.items():
        path = f"{explained}.{field}" if explained else ""
        merge = "" if name in _WITHOUT_MERGE else type_.merge.get(field, "")
        schema = {**structural(expression, types, path), **_merging(merge), **_DEFAULTS.get((name, field), {})}
        if path and expression.removeprefix("[]") in types:
            schema["description"] = f"see kubectl explain {path}"
        properties[field] = schema
    whole: Structural = {"type": "object", "properties": properties}
    if type_.required:
        whole["required"] = list(type_.required)
    if type_.atomic:
        whole["x-kubernetes-map-type"] = "atomic"
    return whole


def _merging(merge: str) -> Structural:
    match merge:
        case "":
            return {}
        case "atomic":
            return {"x-kubernetes-map-type": "atomic"}
        case "set":
            return {"x-kubernetes-list-type": "set"}
        case keys:
            return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys.split(",")}

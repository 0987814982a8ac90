"""From the compact schema of Kubernetes' types to the form that CustomResourceDefinitions take ("structural").

That form has no references: each use of a type is written out. It keeps what server-side apply needs, how lists are
merged and by which keys, and says nothing about a field beyond its type: what no type can say is for the webhook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pumice.model.shape import Schema

Structural = dict[str, Any]

QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
# API servers know exactly this way to say that a value may be either.
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
# Keys of lists must be there: the API server itself fills in these two, so a schema has to as well.
_DEFAULTS: Final[Mapping[tuple[str, str], Structural]] = {
    ("ContainerPort", "protocol"): {"default": "TCP"},
    ("LocalObjectReference", "name"): {"default": ""},
    # What `kubectl create --dry-run=client` prints for a template.
    ("ObjectMeta", "creationTimestamp"): {"nullable": True},
}
# A template's metadata is copied, never merged, and two equal finalizers there are no reason to refuse a job.
_WITHOUT_MERGE: Final = frozenset({"ObjectMeta"})


def structural(expression: str, types: Schema, explained: str = "") -> Structural:
    """The schema of a type expression such as `PodTemplateSpec` or `{}quantity`, written out in full.

    `explained`: where `kubectl explain` describes it, such as `pod.spec`; our fields point there.
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
        place = f"{explained}.{field}" if explained else ""
        merge = "" if name in _WITHOUT_MERGE else type_.merge.get(field, "")
        schema = {**structural(expression, types, place), **_merging(merge), **_DEFAULTS.get((name, field), {})}
        if place and expression.removeprefix("[]") in types:
            schema["description"] = f"see kubectl explain {place}"
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

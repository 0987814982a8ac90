"""A JSON patch that turns fractional quantities, such as `cpu: 0.5`, into strings.

Kubernetes accepts such a number in a pod, but the schema of a custom resource can only declare "integer or string". The
API server would refuse the Job, with five lines of which none says "quote it".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pumice.admission.defaults import Operation, escaped
from pumice.model.shape import Schema

_QUANTITY: Final = "quantity"


def as_text(raw: Mapping[str, Any], kubernetes: Schema) -> list[Operation]:
    """Return the JSON patch operations."""
    spec = raw.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    operations: list[Operation] = []
    for field, part, type_ in (
        ("tasks", "template", "PodTemplateSpec"),
        ("volumes", "volumeClaim", "PersistentVolumeClaimSpec"),
    ):
        items = spec.get(field)
        for position, item in enumerate(items if isinstance(items, list) else []):
            if isinstance(item, Mapping):
                operations += _texts(item.get(part), type_, kubernetes, f"/spec/{field}/{position}/{part}")
    return operations


def _texts(value: object, type_: str, kubernetes: Schema, at: str) -> Iterator[Operation]:
    if type_ == _QUANTITY:
        if isinstance(value, float):
            yield {"op": "add", "path": at, "value": repr(value)}  # which replaces what is there
    elif type_.startswith("[]") and isinstance(value, list):
        for position, item in enumerate(value):
            yield from _texts(item, type_[2:], kubernetes, f"{at}/{position}")
    elif isinstance(value, Mapping):
        fields = kubernetes[type_].fields if type_ in kubernetes else {}
        inner = type_[2:] if type_.startswith("{}") else ""
        for key, item in value.items():
            if expression := inner or fields.get(key, ""):
                yield from _texts(item, expression, kubernetes, f"{at}/{escaped(str(key))}")

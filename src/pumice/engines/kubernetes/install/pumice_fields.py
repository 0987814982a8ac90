"""Fields that only Pumice knows, and which of them a cluster's definition of a Job would drop in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

OWN_FIELDS: Final = (
    "spec.activeDeadlineSeconds",
    "spec.suspend",
    "spec.policies[].exitCodes",
    "spec.tasks[].policies[].exitCodes",
    "spec.tasks[].maxRestarts",
    "spec.tasks[].dependsOn.condition",
)


def served_schema(crd: Mapping[str, Any], version: str = "v1alpha1") -> Mapping[str, Any]:
    """The schema of one version in a CustomResourceDefinition; empty if it has none."""
    for served in _list(_map(crd.get("spec")).get("versions")):
        if _map(served).get("name") == version:
            return _map(_map(_map(served).get("schema")).get("openAPIV3Schema"))
    return {}


def dropped_fields(crd: Mapping[str, Any]) -> tuple[str, ...]:
    """Those of our own fields that the API server would not keep."""
    schema = served_schema(crd)
    return tuple(field for field in OWN_FIELDS if not _keeps(schema, field))


def uses(value: object, field: str) -> bool:
    """Whether a Job has a value at such a place."""
    return any(found is not None for found in _values(value, field.split(".")))


def _keeps(schema: Mapping[str, Any], field: str) -> bool:
    for step in field.split("."):
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
        inner = _map(schema.get("properties")).get(step.removesuffix("[]"))
        if inner is None:
            return False
        schema = _map(_map(inner).get("items")) if step.endswith("[]") else _map(inner)
    return True


def _values(value: object, steps: list[str]) -> Iterator[object]:
    if not steps:
        yield value
        return
    step, *rest = steps
    inner = _map(value).get(step.removesuffix("[]"))
    for item in _list(inner) if step.endswith("[]") else [inner]:
        yield from _values(item, rest)


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

"""Fields that only Pumice knows, and which of them a cluster's definition of a Job would drop in silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pumice.model.job import PUMICE_FIELDS


def served_schema(crd: Mapping[str, Any], version: str = "v1alpha1") -> Mapping[str, Any]:
    """The schema of one version in a CustomResourceDefinition; empty if it has none."""
    for served in _list(_map(crd.get("spec")).get("versions")):
        if _map(served).get("name") == version:
            return _map(_map(_map(served).get("schema")).get("openAPIV3Schema"))
    return {}


def dropped_fields(crd: Mapping[str, Any]) -> tuple[str, ...]:
    """Those of our own fields that the API server would not keep."""
    schema = served_schema(crd)
    return tuple(field for field in PUMICE_FIELDS if not _keeps(schema, field))


def _keeps(schema: Mapping[str, Any], field: str) -> bool:
    for step in field.split("."):
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
        inner = _map(schema.get("properties")).get(step.removesuffix("[]"))
        if inner is None:
            return False
        schema = _map(_map(inner).get("items")) if step.endswith("[]") else _map(inner)
    return True


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

"""The CustomResourceDefinitions: those that Pumice ships, and the fields that the one of a cluster drops.

`scripts/crds.py` builds the shipped ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec

from pumice.engines.kubernetes.install import names
from pumice.model.job import PUMICE_FIELDS, Manifest


def custom_resources(*, volcano: bool) -> list[Manifest]:
    """Return the definitions of Job and Command; with `volcano`, also those of PodGroup and Queue."""
    crds = msgspec.json.decode(files("pumice").joinpath("data", "crds.json").read_bytes(), type=list[Manifest])
    return [crd for crd in crds if volcano or crd["metadata"]["name"] in (names.JOBS_CRD, names.COMMANDS_CRD)]


def job_schema() -> Mapping[str, Any]:
    """Return the shipped schema of Job."""
    jobs, _ = custom_resources(volcano=False)
    return _served_schema(jobs)


def dropped_fields(crd: Mapping[str, Any]) -> tuple[str, ...]:
    """Return those of PUMICE_FIELDS that the API server drops with this definition of Job."""
    schema = _served_schema(crd)
    return tuple(field for field in PUMICE_FIELDS if not _keeps(schema, field))


def _served_schema(crd: Mapping[str, Any]) -> Mapping[str, Any]:
    versions = _map(crd.get("spec")).get("versions")
    for served in map(_map, versions if isinstance(versions, list) else ()):
        if served.get("name") == "v1alpha1":
            return _map(_map(served.get("schema")).get("openAPIV3Schema"))
    return {}


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

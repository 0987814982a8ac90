"""The owned objects that a job's plugins declare, merged and in a fixed order.

Two plugins may add to one object: mpi adds its hostfile to the ConfigMap that svc mounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pumice.model.job import Job, Manifest
from pumice.model.objects import Once, OwnedObject
from pumice.plugins.base import Base

_ORDER: Final = ("Service", "ConfigMap", "Secret", "NetworkPolicy")


def owned_objects(job: Job, plugins: Sequence[Base]) -> list[OwnedObject]:
    merged: dict[tuple[str, str], OwnedObject] = {}
    for plugin in plugins:
        for declared in plugin.objects(job):
            manifest = manifest_of(declared)
            key = (manifest["kind"], manifest["metadata"]["name"])
            merged[key] = _united(merged[key], declared) if key in merged else declared
    return sorted(merged.values(), key=lambda declared: _rank(manifest_of(declared)["kind"]))


def manifest_of(declared: OwnedObject) -> Manifest:
    return declared.manifest if isinstance(declared, Once) else declared


def payload_size(manifest: Manifest) -> int:
    """Return the bytes that count towards Kubernetes' limit for a ConfigMap or Secret."""
    entries: Iterable[tuple[str, str]] = (
        item for field in ("data", "stringData") for item in (manifest.get(field) or {}).items()
    )
    return sum(len(key) + len(value.encode()) for key, value in entries)


def _united(first: OwnedObject, second: OwnedObject) -> OwnedObject:
    """Return the first object with the data of the second; other fields of the second are ignored."""
    if isinstance(first, Once) or isinstance(second, Once) or "data" not in second:
        return first
    return {**first, "data": {**(first.get("data") or {}), **second["data"]}}


def _rank(kind: str) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)

"""The objects beside the pods that a job's plugins want, merged and in a fixed order.

Two plugins may add to one object: mpi puts its hostfile into the ConfigMap that svc mounts.
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
        for companion in plugin.objects(job):
            manifest = manifest_of(companion)
            key = (manifest["kind"], manifest["metadata"]["name"])
            merged[key] = _united(merged[key], companion) if key in merged else companion
    return sorted(merged.values(), key=lambda companion: _rank(manifest_of(companion)["kind"]))


def manifest_of(companion: OwnedObject) -> Manifest:
    return companion.manifest if isinstance(companion, Once) else companion


def payload_size(manifest: Manifest) -> int:
    """Bytes that count towards the limit which Kubernetes sets for a ConfigMap or Secret."""
    entries: Iterable[tuple[str, str]] = (
        item for field in ("data", "stringData") for item in (manifest.get(field) or {}).items()
    )
    return sum(len(key) + len(value.encode()) for key, value in entries)


def _united(first: OwnedObject, second: OwnedObject) -> OwnedObject:
    """The first object with the second one's data added; anything else of the second would contradict the first."""
    if isinstance(first, Once) or isinstance(second, Once) or "data" not in second:
        return first
    return {**first, "data": {**(first.get("data") or {}), **second["data"]}}


def _rank(kind: str) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)

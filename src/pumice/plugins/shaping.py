"""What the plugins of a job make: its pods, and its owned objects, merged and in a fixed order.

A bare pod passes through the plugins in the registry's order. Two plugins may add to one object: mpi adds its hostfile
to the ConfigMap that svc mounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pumice.model.bare_pod import bare_pod
from pumice.model.job import Job, Manifest
from pumice.model.objects import Once, OwnedObject
from pumice.model.pod import Pod
from pumice.model.slot import Slot, slots
from pumice.plugins.base import Base

_ORDER: Final = {"Service": 0, "ConfigMap": 1, "Secret": 2, "NetworkPolicy": 3}


def pods(job: Job, plugins: Sequence[Base]) -> Iterator[Pod]:
    """Yield all pods of a job, by task and index."""
    return (shaped_pod(slot, plugins) for slot in slots(job))


def shaped_pod(slot: Slot, plugins: Sequence[Base]) -> Pod:
    pod = bare_pod(slot)
    for plugin in plugins:
        pod = plugin.shape_pod(pod, slot)
    return pod


def owned_objects(job: Job, plugins: Sequence[Base]) -> list[OwnedObject]:
    merged: dict[tuple[str, str], OwnedObject] = {}
    for plugin in plugins:
        for declared in plugin.objects(job):
            manifest = manifest_of(declared)
            key = (manifest["kind"], manifest["metadata"]["name"])
            merged[key] = _united(merged[key], declared) if key in merged else declared
    return sorted(merged.values(), key=lambda declared: _ORDER.get(manifest_of(declared)["kind"], len(_ORDER)))


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

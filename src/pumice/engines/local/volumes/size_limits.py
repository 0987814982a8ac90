"""Sizes of emptyDir volumes on disk: a pod with one above its sizeLimit is evicted, as by a kubelet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pumice.engines.local.volumes.volume_plan import pod_directory, size_limit
from pumice.model.job import Manifest
from pumice.store.disk_use import tree_size


def volume_excess(spec: Manifest, scratch: Path, uid: str) -> Callable[[], str] | None:
    """Return a function that says which volume of a pod is too large, "" if none is; None without any limit."""
    limits = {
        str(volume["name"]): limit
        for volume in spec.get("volumes") or []
        if (limit := size_limit(volume.get("emptyDir") or {})) is not None
    }

    def excess() -> str:
        for name, limit in limits.items():
            # A volume in memory has no directory, and the kernel limits it.
            if tree_size(pod_directory(scratch, uid) / "volumes" / name) > limit:
                given = next(each["emptyDir"]["sizeLimit"] for each in spec["volumes"] if each["name"] == name)
                return f'Usage of EmptyDir volume "{name}" exceeds the limit "{given}"'
        return ""

    return excess if limits else None

"""The status is written as a merge patch against the stored one, on the condition that the job has not changed."""

from __future__ import annotations

from typing import Any

import msgspec

from pumice.model.status import JobStatus


def status_patch(resource_version: str, before: JobStatus, after: JobStatus) -> bytes:
    """Return a merge patch in which removed fields are null; any other resource version is a conflict."""
    changes = _difference(msgspec.to_builtins(before), msgspec.to_builtins(after))
    return msgspec.json.encode({"metadata": {"resourceVersion": resource_version}, "status": changes})


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = _difference(old, value)
            if inner:
                changes[key] = inner
        elif value != old:
            changes[key] = value
    return changes

"""A status is written as the difference from what is stored, on the condition that nothing else has changed."""

from __future__ import annotations

from typing import Any

import msgspec

from pumice.model.status import JobStatus


def status_patch(resource_version: str, before: JobStatus, after: JobStatus) -> bytes:
    """A merge patch: what has gone is null, and another version than the one that was observed is a conflict."""
    changes = _difference(_plain(before), _plain(after))
    return msgspec.json.encode({"metadata": {"resourceVersion": resource_version}, "status": changes})


def _plain(status: JobStatus) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain


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

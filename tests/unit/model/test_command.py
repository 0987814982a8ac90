from __future__ import annotations

import msgspec

from pumice.model.command import Command

WRITTEN = {
    "apiVersion": "bus.volcano.sh/v1alpha1",
    "kind": "Command",
    "metadata": {"name": "suspend-1", "namespace": "lab"},
    "action": "AbortJob",
    "target": {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    },
    "reason": "asked for",
    "message": "by hand",
}


def test_every_field_is_read_and_written() -> None:
    assert {**WRITTEN, **msgspec.to_builtins(msgspec.convert(WRITTEN, Command))} == WRITTEN
    assert msgspec.convert({"action": "AbortJob"}, Command).target is None

from __future__ import annotations

import msgspec

from pumice.model.command import Command, CommandTarget
from pumice.model.metadata import Metadata

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


def test_a_command_is_read() -> None:
    assert msgspec.convert(WRITTEN, Command) == Command(
        metadata=Metadata(name="suspend-1", namespace="lab"),
        action="AbortJob",
        target=CommandTarget(
            api_version="batch.volcano.sh/v1alpha1",
            kind="Job",
            name="train",
            uid="u",
            controller=True,
            block_owner_deletion=True,
        ),
        reason="asked for",
        message="by hand",
    )


def test_a_command_without_target_is_read_too() -> None:
    assert msgspec.convert({"action": "AbortJob"}, Command).target is None

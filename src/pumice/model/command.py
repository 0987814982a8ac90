"""A Command (`bus.volcano.sh/v1alpha1`): how `vcctl job suspend` and dashboards ask for an action on a Job."""

from __future__ import annotations

from typing import Final

import msgspec

from pumice.model.job import Metadata

COMMAND_GROUP_VERSION: Final = "bus.volcano.sh/v1alpha1"
COMMAND_KIND: Final = "Command"


class CommandTarget(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Command(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    api_version: str = COMMAND_GROUP_VERSION
    kind: str = COMMAND_KIND
    metadata: Metadata = Metadata()
    action: str = ""
    target: CommandTarget | None = None
    reason: str = ""
    message: str = ""

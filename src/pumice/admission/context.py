"""The context of admission: everything besides the Job that the rules depend on, passed by the caller."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pumice.model.shape import Schema
from pumice.plugins.registry import Registry


class Queue(Struct, frozen=True):
    """A queue of the cluster."""

    state: str = "Open"
    children: int = 0


class Context(Struct, frozen=True):
    registry: Registry
    kubernetes: Schema
    # The queues of the cluster; None if they are not known, as offline.
    queues: Mapping[str, Queue] | None = None
    # Queues matter only if Volcano schedules the pods.
    queue_rules: bool = True
    # Warn of fields that Volcano does not know.
    portable: bool = False

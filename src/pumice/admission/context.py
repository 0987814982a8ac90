"""What admission needs to know besides the Job: handed in, never looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pumice.model.shape import Schema
from pumice.plugins.registry import Registry


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as the cluster knows it."""

    state: str = "Open"
    children: int = 0


@dataclass(frozen=True, slots=True)
class Context:
    registry: Registry
    kubernetes: Schema
    # The queues of the cluster; None where nobody can tell, as offline.
    queues: Mapping[str, Queue] | None = None
    # Whether queues mean anything here: they do where Volcano schedules.
    queue_rules: bool = True
    # Report what Volcano itself would not understand.
    portable: bool = False

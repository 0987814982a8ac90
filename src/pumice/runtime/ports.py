"""The Engine port: all that the loop needs of a world, be it Kubernetes, this machine or a table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pumice.model.snapshot import JobKey, Snapshot
from pumice.model.status import JobStatus
from pumice.reconcile.decision import EngineCommand, JobEvent


class ConflictError(Exception):
    """The job has changed since it was observed; look again."""


class EngineError(Exception):
    """The engine could not do what it was asked for; it may work later.

    `reason` is a word for programs (`FailedCreate`), the message is for people.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Engine(Protocol):
    async def observe(self, key: JobKey) -> Snapshot | None:
        """Everything known, at one moment; None if there is no such job. Never writes."""
        ...

    async def write_status(self, snapshot: Snapshot, status: JobStatus) -> None:
        """Compare-and-set on the version of the job that the snapshot holds; ConflictError if it has moved on."""
        ...

    async def apply(self, key: JobKey, command: EngineCommand) -> None:
        """Idempotent: applying twice equals once. EngineError if it does not work now."""
        ...

    async def emit(self, snapshot: Snapshot, events: Sequence[JobEvent]) -> None:
        """Best effort."""
        ...

"""The Engine port: what the loop needs of Kubernetes, of this machine or of the memory engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pumice.model.job import JobStatus
from pumice.model.pumice_error import PumiceError
from pumice.model.snapshot import JobKey, Snapshot
from pumice.reconcile.decision import EngineCommand, JobEvent


class ConflictError(PumiceError):
    """The job has changed since it was observed."""


class EngineError(PumiceError):
    """A command failed; it may work later. `reason` is for programs (`FailedCreate`), the message for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Engine(Protocol):
    async def observe(self, key: JobKey) -> Snapshot | None:
        """Return the state of the job at one moment; None if the job does not exist. Never writes."""

    async def write_status(self, snapshot: Snapshot, status: JobStatus) -> None:
        """Write the status if the job still has the snapshot's resourceVersion; raise ConflictError otherwise."""

    async def apply(self, key: JobKey, command: EngineCommand) -> None:
        """Apply a command. Idempotent. Raises EngineError if it fails."""

    async def emit(self, snapshot: Snapshot, events: Sequence[JobEvent]) -> None:
        """Emit events. Failures are ignored."""

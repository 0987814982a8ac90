"""The part of the port that a run has which this process follows: what is checked, and what is held."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pumice.client.backend import RunRef
    from pumice.store.events import Listener, RunEvent
    from pumice.store.run_end import Stop
    from pumice.store.run_request import RunRequest


class CheckedRun(Protocol):
    """A run that can be submitted: nothing keeps it from starting but a busy place."""

    @property
    def request(self) -> RunRequest: ...

    @property
    def note(self) -> str:
        """What is said before it is submitted; empty if there is nothing."""


class Lease(Protocol):
    """A run that ends with this process, unless it is detached."""

    @property
    def ref(self) -> RunRef:
        """The run. Raises WrongState before it has begun."""

    @property
    def has_begun(self) -> bool: ...

    @property
    def is_detached(self) -> bool: ...

    @property
    def warning(self) -> str: ...  # what a detached run misses

    @property
    def outlives_client(self) -> bool:
        """Whether the run goes on when this process is gone, whatever ends it."""

    @property
    def flags(self) -> str:
        """The flags by which commands find the run; empty on this machine."""

    def events(self) -> AsyncGenerator[RunEvent, None]:
        """Start the run and yield its events until it ends or is detached, with a Tick while nothing happens.

        Raises RunError if it cannot start; RunLostError if its process was killed, when the record says so.
        """

    async def open(self, listener: Listener = ...) -> RunRef:
        """Start the run, and return as soon as it exists. Raises RunError if it cannot start."""

    def stop(self, why: Stop, *, insist: bool = False) -> None:
        """Stop the run gracefully; `insist`: at once if it is being stopped already."""

    def close(self) -> None: ...  # stop the run if it has not ended and is not detached

    async def detach(self) -> None:
        """Let the run continue without this process. Raises RunError if that is not possible."""

    def release(self) -> None:
        """Request `detach` without waiting for the answer."""

    async def ended(self) -> None: ...  # return when the run has ended or is detached

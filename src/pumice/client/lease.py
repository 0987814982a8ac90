"""The part of the port that a run has which this process follows: what is checked, and what is held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from pumice.client.backend import RunRef
    from pumice.store.events import Listener, RunEvent
    from pumice.store.run_end import Stop
    from pumice.store.run_request import RunRequest

# An event loop keeps only weak references to tasks.
_TASKS: Final[set[asyncio.Task[None]]] = set()


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


def start_task(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task that ends only when its work does."""
    task = asyncio.get_running_loop().create_task(work)
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
    return task


async def read_events(lease: Lease, listener: Listener, begun: asyncio.Future[None]) -> None:
    """Give a listener the events of a run. `begun` gets its result as soon as there is a run, or why there is none."""
    try:
        async with aclosing(lease.events()) as events:
            async for event in events:
                listener(event)
                if lease.has_begun and not begun.done():
                    begun.set_result(None)
    except Exception as error:
        if begun.done():
            raise
        begun.set_exception(error)

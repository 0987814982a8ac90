"""Gives the events of a lease to a listener, in a task that outlives the call which starts it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pumice.client.lease import Lease
    from pumice.store.events import Listener

# An event loop keeps only weak references to tasks.
_TASKS: Final[set[asyncio.Task[None]]] = set()


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

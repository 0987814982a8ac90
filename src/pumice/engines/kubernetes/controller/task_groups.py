"""Work that goes on side by side, for as long as all of it does; and work at the end, which may not take long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def run_until_first_ends(*works: Coroutine[Any, Any, object]) -> None:
    """Returns when one of them has returned, or raises what it raised; the others are ended, and gone by then."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def within(seconds: float, last: Coroutine[Any, Any, object]) -> None:
    """At the end of the program: worth a try, but nothing to wait for if the server is away."""
    # In a task of its own: in one that was cancelled, asyncio.timeout of Python 3.11 does not tell time-outs apart.
    task = asyncio.create_task(last)
    await asyncio.wait((task,), timeout=seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

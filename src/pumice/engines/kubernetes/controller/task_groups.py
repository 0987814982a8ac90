"""Running coroutines together until the first one ends, and running a last one within a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def run_until_first_ends(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Return when one coroutine has returned, or raise its exception; the others are cancelled and awaited."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_with_timeout(seconds: float, coroutine: Coroutine[Any, Any, object]) -> None:
    """Run a last coroutine at shutdown; give up after some seconds, and ignore its errors."""
    # In its own task: in a cancelled one, asyncio.timeout of Python 3.11 does not recognise its own timeout.
    task = asyncio.create_task(coroutine)
    await asyncio.wait((task,), timeout=seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

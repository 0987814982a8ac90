"""Drives a loop over the memory engine, which never waits, without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from pumice.engines.memory.cluster_state import World
from pumice.runtime.loop import Loop

T = TypeVar("T")


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the memory engine never waits")


def serve_next(loop: Loop, world: World) -> bool:
    """Add the changed jobs to the queue, and reconcile one; return whether there was one."""
    for key in world.changed:
        loop.queue.add(key)
    world.changed.clear()
    return finish(loop.serve_next())

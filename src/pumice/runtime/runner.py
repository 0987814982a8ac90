"""Runs the loop in real time: reconciles every key of its queue as soon as it is due.

Several jobs may be reconciled at once; the queue never gives out a key twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import ContextVar

from msgspec import Struct, field

from pumice.model.snapshot import JobKey
from pumice.runtime.loop import Loop

# Check the clock at least this often: it may have been set.
LONGEST_SLEEP = 60.0
# The job that the current task serves; an engine shares its calls among jobs.
SERVED: ContextVar[JobKey | None] = ContextVar("SERVED", default=None)


class Runner(Struct):
    loop: Loop
    workers: int = 1
    # Called when a pass raises an unexpected exception; the job is tried again later. Without it the runner ends.
    on_defect: Callable[[JobKey, Exception], None] | None = None
    _awake: asyncio.Event = field(default_factory=asyncio.Event)
    _busy: int = 0

    async def run(self) -> None:
        """Reconcile until cancelled."""
        self.loop.queue.on_add = self._awake.set
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._awake.clear()
                while self._busy < self.workers and (key := self.loop.queue.take(self.loop.clock())) is not None:
                    self._busy += 1
                    tasks.create_task(self._serve_one(key), name=f"serve {key}")
                # Not wait_for: in Python 3.11 it may swallow a cancellation that comes together with the event.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._sleep_time()):
                        await self._awake.wait()

    def _sleep_time(self) -> float:
        due = self.loop.queue.next_due()
        if due is None or self._busy >= self.workers:
            return LONGEST_SLEEP
        return min(max((due - self.loop.clock()).total_seconds(), 0.0), LONGEST_SLEEP)

    async def _serve_one(self, key: JobKey) -> None:
        SERVED.set(key)
        try:
            await self.loop.serve(key)
        except Exception as error:
            if self.on_defect is None:
                raise
            self.on_defect(key, error)
        finally:
            self._busy -= 1
            self._awake.set()

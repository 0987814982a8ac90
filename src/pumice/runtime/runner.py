"""Drives the loop in real time: keys come in from the engine, and are served as soon as they are due."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from pumice.runtime.loop import Loop

# However far off the next appointment is, look at the clock now and then: it may have been set.
LONGEST_SLEEP = 60.0


@dataclass(slots=True)
class Runner:
    loop: Loop
    _awake: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            tasks.create_task(self._serve())

    async def _listen(self) -> None:
        async for key in self.loop.engine.changes():
            self.loop.queue.add(key)
            self._awake.set()

    async def _serve(self) -> None:
        while True:
            self._awake.clear()
            while await self.loop.serve_next():  # noqa: ASYNC110 - it serves, it does not wait
                # Let others have their turn: pods report, users press keys.
                await asyncio.sleep(0)
            due = self.loop.queue.next_due()
            wait = LONGEST_SLEEP if due is None else (due - self.loop.clock()).total_seconds()
            # Not wait_for: in Python 3.11 it may swallow a cancellation that comes together with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(max(wait, 0.0), LONGEST_SLEEP)):
                    await self._awake.wait()

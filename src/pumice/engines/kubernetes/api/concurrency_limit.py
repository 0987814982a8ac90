"""An adaptive limit on concurrent calls: halved when the server answers 429, raised slowly while calls succeed.

Additive increase and multiplicative decrease, as in TCP, share a server fairly with clients that do not know of each
other. Jobs whose calls wait take turns, so that one with thousands of pods does not delay the others.
"""

from __future__ import annotations

import asyncio
from collections import deque

from pumice.model.snapshot import JobKey
from pumice.runtime.runner import SERVED


class ConcurrencyLimit:
    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._allowed = float(maximum)
        # By job, in the order of their turns.
        self._waiting: dict[JobKey | None, deque[asyncio.Future[None]]] = {}
        self.running = 0
        # Counts the halvings. A burst that is throttled as a whole must halve the limit once, not once per call, so a
        # 429 counts only if its call began after the last halving.
        self._epoch = 0

    @property
    def allowed(self) -> int:
        return int(self._allowed)

    async def acquire(self) -> int:
        """Wait for a slot; pass the returned epoch to `throttled`."""
        if not self._waiting and self.running < self.allowed:
            self.running += 1
            return self._epoch
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(SERVED.get(), deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The slot was granted in the same moment; pass it on.
                self.release()
            raise
        return self._epoch

    def release(self) -> None:
        """Return a slot, and grant free slots to the jobs in turn; a granted slot counts as taken at once."""
        self.running -= 1
        while self._waiting and self.running < self.allowed:
            job = next(iter(self._waiting))
            turns = self._waiting.pop(job)
            turn = turns.popleft()
            if turns:
                self._waiting[job] = turns
            if not turn.done():
                self.running += 1
                turn.set_result(None)

    def succeeded(self) -> None:
        if self._allowed < self._maximum:
            self._allowed = min(float(self._maximum), self._allowed + 1 / self._allowed)

    def throttled(self, epoch: int) -> None:
        if epoch == self._epoch:
            self._epoch += 1
            self._allowed = max(1.0, self._allowed / 2)

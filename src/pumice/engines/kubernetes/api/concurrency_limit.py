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
        self._waiting: dict[JobKey | None, deque[tuple[asyncio.Future[None], int]]] = {}
        self.running = 0
        # Counts the halvings. A burst that is throttled as a whole must halve the limit once, not once per call, so a
        # 429 counts only if its call began after the last halving.
        self._epoch = 0

    @property
    def allowed(self) -> int:
        return int(self._allowed)

    async def acquire(self, slots: int = 1) -> int:
        """Wait for slots; pass the returned epoch to `throttled`. A call that needs more than there are runs alone."""
        if not self._waiting and self._has_room(slots):
            self.running += slots
            return self._epoch
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(SERVED.get(), deque()).append((turn, slots))
        try:
            await turn
        except asyncio.CancelledError:
            # Slots that were granted in the same moment are passed on; without them, those behind may have room now.
            self.release(slots if turn.done() and not turn.cancelled() else 0)
            raise
        return self._epoch

    def release(self, slots: int = 1) -> None:
        """Return slots, and grant free ones to the jobs in turn; a granted slot counts as taken at once."""
        self.running -= slots
        while self._waiting:
            job, turns = next(iter(self._waiting.items()))
            turn, needed = turns[0]
            if not turn.done() and not self._has_room(needed):
                return
            turns.popleft()
            del self._waiting[job]
            if turns:
                self._waiting[job] = turns
            if not turn.done():
                self.running += needed
                turn.set_result(None)

    def _has_room(self, slots: int) -> bool:
        return self.running + slots <= self.allowed or not self.running

    def succeeded(self) -> None:
        if self._allowed < self._maximum:
            self._allowed = min(float(self._maximum), self._allowed + 1 / self._allowed)

    def throttled(self, epoch: int) -> None:
        if epoch == self._epoch:
            self._epoch += 1
            self._allowed = max(1.0, self._allowed / 2)

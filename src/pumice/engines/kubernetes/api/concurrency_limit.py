"""An adaptive limit on concurrent calls: halved when the server answers 429, raised slowly while calls succeed.

Additive increase and multiplicative decrease, as in TCP, share a server fairly with clients that do not know of each
other.
"""

from __future__ import annotations

import asyncio
from collections import deque


class ConcurrencyLimit:
    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._allowed = float(maximum)
        self._waiting: deque[asyncio.Future[None]] = deque()
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
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The slot was granted in the same moment; pass it on.
                self.release()
            raise
        return self._epoch

    def release(self) -> None:
        """Return a slot, and grant free slots in the order of waiting; a granted slot counts as taken at once."""
        self.running -= 1
        while self._waiting and self.running < self.allowed:
            turn = self._waiting.popleft()
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

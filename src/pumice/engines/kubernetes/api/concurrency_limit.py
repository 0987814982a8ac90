"""How many calls may be on their way at once: fewer after the server said "too many", slowly more while all goes well.

Halving at a refusal and growing by about one for each full round of successes is how TCP shares a line fairly with
others that it does not know of. Here the line is the API server.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Limit:
    def __init__(self, most: int) -> None:
        self._most = most
        self._allowed = float(most)
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Counts the halvings. A burst that is refused as a whole must halve the limit once, not once for each refusal,
        # so a refusal counts only if its call began after the last halving.
        self._epoch = 0

    @property
    def allowed(self) -> int:
        return int(self._allowed)

    @property
    def running(self) -> int:
        return self._running

    async def enter(self) -> int:
        """Wait for a place; the value returned is for `refused`."""
        if self._waiting or self._running >= int(self._allowed):
            await self._turn()
        else:
            self._running += 1
        return self._epoch

    def leave(self) -> None:
        self._running -= 1
        self._admit()

    def succeeded(self) -> None:
        if self._allowed < self._most:
            self._allowed = min(float(self._most), self._allowed + 1 / self._allowed)

    def refused(self, epoch: int) -> None:
        if epoch == self._epoch:
            self._epoch += 1
            self._allowed = max(1.0, self._allowed / 2)

    async def _turn(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The place was granted in the same moment; somebody else must get it.
                self.leave()
            raise

    def _admit(self) -> None:
        """Grant free places in the order of asking. A place is taken when it is granted, so nobody can push in."""
        while self._waiting and self._running < int(self._allowed):
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)

"""Keeps the certificates fresh: makes or takes them, has the API server trust them, and only then shows them.

Each turn looks at everything again, so that whatever went wrong, or was undone by somebody, is put right by the next.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.webhook.certificate_storage import Place
from pumice.engines.kubernetes.webhook.certificates import Credentials, is_due, renewed

_log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
# An API server reads changed configurations a moment later; until then it trusts only the old authority.
SETTLING: Final = 10.0
# Of two replicas that write at once one wins, so that a few tries are many.
_TRIES: Final = 5


@dataclass(slots=True)
class CertificateKeeper:
    place: Place
    names: Sequence[str]
    now: Callable[[], dt.datetime]
    # Whether the API server trusts this authority from now on.
    announce: Callable[[bytes], Awaitable[bool]]
    show: Callable[[Credentials], None]
    settling: float = SETTLING
    shown: Credentials | None = None

    async def turn(self) -> None:
        credentials = await self._current()
        trusted = await self.announce(credentials.authority)
        shown = self.shown
        if credentials == shown:
            return
        if shown is not None and credentials.authority != shown.authority:
            if not trusted:
                # What is shown now is trusted; a certificate that nobody knows would be refused.
                return
            await asyncio.sleep(self.settling)
        self.show(credentials)
        self.shown = credentials
        _log.info("showing a %s certificate", "new" if shown is not None else "trusted" if trusted else "first")

    async def run(self, interval: float = INTERVAL) -> None:
        """For ever: a turn now and then. What fails is told and tried again."""
        told = ""
        while True:
            try:
                await self.turn()
                told = ""
            except (ApiError, OSError) as error:
                if str(error) != told:
                    told = str(error)
                    _log.warning("the certificates cannot be looked after: %s; trying again", error)
            await asyncio.sleep(interval if not told else min(interval, 5.0))

    async def _current(self) -> Credentials:
        for _ in range(_TRIES):
            kept = await self.place.load()
            if kept is not None and not is_due(kept, self.names, self.now()):
                return kept
            # Drawing keys takes milliseconds, in which reviews can be answered.
            made = await asyncio.to_thread(renewed, kept, self.names, self.now())
            if await self.place.save(made):
                return made
        raise OSError("the certificates are rewritten by somebody else again and again")

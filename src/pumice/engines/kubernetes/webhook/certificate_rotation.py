"""Rotates the serving certificate: create or load it, publish its CA to the API server, then serve it.

Each pass checks everything again, so that the next pass repairs what failed or what someone else changed.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.webhook.certificate_storage import CertificateStorage
from pumice.engines.kubernetes.webhook.certificates import Credentials, is_due, renewed

_log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
RETRY_INTERVAL: Final = 5.0
# An API server loads changed webhook configurations with a delay; until then it trusts only the old CA.
SETTLING: Final = 10.0
# Of two replicas that write at the same time one wins, so a few attempts are enough.
_ATTEMPTS: Final = 5


@dataclass(slots=True)
class CertificateRotation:
    storage: CertificateStorage
    names: Sequence[str]
    now: Callable[[], dt.datetime]
    # Publishes a CA bundle; returns whether the API server trusts it from now on.
    publish: Callable[[bytes], Awaitable[bool]]
    serve: Callable[[Credentials], None]
    settling: float = SETTLING
    served: Credentials | None = None

    async def rotate(self) -> None:
        credentials = await self._current()
        trusted = await self.publish(credentials.authority)
        served = self.served
        if credentials == served:
            return
        if served is not None and credentials.authority != served.authority:
            if not trusted:
                # The API server still trusts the certificate that is served; it would refuse the new one.
                return
            await asyncio.sleep(self.settling)
        self.serve(credentials)
        self.served = credentials
        _log.info("serving a %s certificate", "new" if served is not None else "trusted" if trusted else "first")

    async def run(self, interval: float = INTERVAL) -> None:
        """Rotate at intervals until cancelled. Log a failure once and retry."""
        failure = ""
        while True:
            try:
                await self.rotate()
                failure = ""
            except (ApiError, OSError) as error:
                if str(error) != failure:
                    failure = str(error)
                    _log.warning("could not rotate the certificates: %s; retrying", error)
            await asyncio.sleep(interval if not failure else min(interval, RETRY_INTERVAL))

    async def _current(self) -> Credentials:
        """Return the stored credentials, renewed if they are due."""
        for _ in range(_ATTEMPTS):
            stored = await self.storage.load()
            if stored is not None and not is_due(stored, self.names, self.now()):
                return stored
            # Generating keys takes milliseconds, in which the event loop answers reviews.
            made = await asyncio.to_thread(renewed, stored, self.names, self.now())
            if await self.storage.save(made):
                return made
        raise OSError(f"another writer replaced the certificates {_ATTEMPTS} times in a row")

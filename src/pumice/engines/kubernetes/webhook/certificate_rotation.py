"""Rotates the serving certificate: create or load it, publish its CA to the API server, then serve it.

The API server trusts a new authority before the first replica serves a certificate of it, and trusts the old one until
the last replica has followed. Each pass checks everything again, so that the next pass repairs what failed or what
someone else changed; a change of the storage starts a pass at once.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends
from pumice.engines.kubernetes.webhook.certificate_storage import CertificateStorage
from pumice.engines.kubernetes.webhook.certificates import Credentials, is_due, is_overlapping, merged, renewed
from pumice.engines.kubernetes.webhook.registration import Publication

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
    # Publishes a CA bundle, beside the authorities that are published already or instead of them.
    publish: Callable[[bytes, bool], Coroutine[Any, Any, Publication]]
    serve: Callable[[Credentials], None]
    settling: float = SETTLING
    served: Credentials | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)  # starts a pass

    async def rotate(self) -> None:
        credentials, served = await self._current(), self.served
        published = await self._publish(credentials)
        if credentials == served:
            return
        if served is None or credentials.issuer != served.issuer:
            if served is not None and not published.trusted:
                # The API server still trusts the certificate that is served; it would refuse the new one.
                return
            settled = published.is_sole and not published.replaced
            while not settled:
                await asyncio.sleep(self.settling)
                # Another writer may have removed the new authority in the meantime.
                settled = not (await self._publish(credentials)).replaced
        self.serve(credentials)
        self.served = credentials
        kind = "new" if served is not None else "trusted" if published.trusted else "first"
        _log.info("serving a %s certificate", kind)

    async def run(self, interval: float = INTERVAL) -> None:
        """Rotate at every change, and at intervals, until cancelled. Log a failure once and retry."""
        failure = ""
        while True:
            self.wake.clear()
            try:
                await self.rotate()
                failure = ""
            except (ApiError, OSError) as error:
                if str(error) != failure:
                    failure = str(error)
                    _log.warning("could not rotate the certificates: %s; retrying", error)
            if failure:
                await asyncio.sleep(min(interval, RETRY_INTERVAL))
            else:
                await run_until_first_ends(asyncio.sleep(interval), self.wake.wait(), self.storage.changed())

    async def _publish(self, credentials: Credentials) -> Publication:
        """Publish the authorities of all certificates that this or another replica may serve."""
        overlapping = is_overlapping(credentials, self.now())
        own = self.served.issuer if self.served is not None else b""
        bundle = merged(credentials.authority if overlapping else credentials.issuer, own)
        return await self.publish(bundle, overlapping)

    async def _current(self) -> Credentials:
        """Return the stored credentials, renewed if they are due, lost or damaged."""
        trusted = self.served.issuer if self.served is not None else b""
        for _ in range(_ATTEMPTS):
            stored = await self.storage.load()
            if stored is not None and not is_due(stored, self.names, self.now()):
                return stored
            # Generating keys takes milliseconds, in which the event loop answers reviews.
            made = await asyncio.to_thread(renewed, stored, self.names, self.now(), trusted=trusted)
            if await self.storage.save(made):
                return made
        raise OSError(f"another writer replaced the certificates {_ATTEMPTS} times in a row")

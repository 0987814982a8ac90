"""A client certificate in files that somebody else renews, as kubelets and certificate managers do."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from pathlib import Path

from pumice.engines.kubernetes.auth.credentials import Credentials
from pumice.engines.kubernetes.auth.tls import CertificateError, load_key_pair

# How often to look, in seconds. Certificates are renewed long before they expire.
_INTERVAL = 60.0


class RotatingCertificate:
    """The credentials of `inner`, and beside them the certificate, shown from the next connection on."""

    def __init__(self, inner: Credentials, tls: ssl.SSLContext, certificate: Path, key: Path) -> None:
        self._inner = inner
        self._tls = tls
        self._files = (certificate, key)
        self._renewals = 0
        self._looked = time.monotonic()
        self._stamps = self._stamp()

    @property
    def generation(self) -> int:
        return self._inner.generation + self._renewals

    def current(self) -> Mapping[str, str] | None:
        if time.monotonic() - self._looked >= _INTERVAL:
            self._looked = time.monotonic()
            self._look()
        return self._inner.current()

    async def renew(self) -> Mapping[str, str]:
        return await self._inner.renew()

    def refused(self, sent: Mapping[str, str]) -> bool:
        return self._look() or self._inner.refused(sent)

    def _look(self) -> bool:
        """Take the files if they are new; whether they were."""
        stamps = self._stamp()
        if stamps == self._stamps:
            return False
        try:
            load_key_pair(self._tls, *(file.read_bytes() for file in self._files))
        except (OSError, CertificateError):
            # Only one of the two has been replaced so far. What was loaded last serves until both fit.
            return False
        self._stamps = stamps
        self._renewals += 1
        return True

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        try:
            return tuple((stat.st_mtime_ns, stat.st_ino) for stat in map(Path.stat, self._files))
        except OSError:
            return ()

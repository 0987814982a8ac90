"""A client certificate in files that another program renews, such as the kubelet or cert-manager."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

from pumice.engines.kubernetes.api.http1 import Headers
from pumice.engines.kubernetes.auth.credentials import Credentials
from pumice.engines.kubernetes.auth.tls import CertificateError, load_key_pair

# Seconds between checks. Certificates are renewed long before they expire.
_INTERVAL = 60.0


class RotatingCertificate:
    """Adds the certificate to the credentials of `inner`; a new one is presented from the next connection on."""

    def __init__(self, inner: Credentials, tls: ssl.SSLContext, certificate: Path, key: Path) -> None:
        self._inner = inner
        self._tls = tls
        self._files = (certificate, key)
        self._renewals = 0
        self._checked = time.monotonic()
        self._stamps = self._stamp()

    @property
    def generation(self) -> int:
        return self._inner.generation + self._renewals

    def current(self) -> Headers | None:
        if time.monotonic() - self._checked >= _INTERVAL:
            self._checked = time.monotonic()
            self._reload()
        return self._inner.current()

    async def renew(self) -> Headers:
        return await self._inner.renew()

    def refused(self, sent: Headers) -> bool:
        return self._reload() or self._inner.refused(sent)

    def _reload(self) -> bool:
        """Load the files if they have changed; return whether they were loaded."""
        stamps = self._stamp()
        if stamps == self._stamps:
            return False
        try:
            load_key_pair(self._tls, *(file.read_bytes() for file in self._files))
        except (OSError, CertificateError):
            # Only one of the two files has been replaced so far; keep the loaded pair until they match.
            return False
        self._stamps = stamps
        self._renewals += 1
        return True

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        try:
            return tuple((stat.st_mtime_ns, stat.st_ino) for stat in map(Path.stat, self._files))
        except OSError:
            return ()

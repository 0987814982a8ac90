"""Credentials: the authentication headers of every request, and how they are renewed.

The kubelet rewrites token files and certificates, and the tokens of plugins expire. They are renewed when due, and once
more when the server rejects them.
"""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pumice.engines.kubernetes.api.errors import UnreachableError
from pumice.engines.kubernetes.api.http1 import Headers
from pumice.engines.kubernetes.auth.tls import CertificateError, load_key_pair

# Seconds after which a file is read again, as in client-go. They are renewed long before they expire.
_FILE_LIFE = 60.0


class Credentials(Protocol):
    @property
    def generation(self) -> int:
        """Grows with every change of the client certificate: older connections still present the old one."""

    def current(self) -> Headers | None:
        """Return the headers, or None if they must be renewed first. The same object while nothing changes."""

    async def renew(self) -> Headers:
        """Renew and return the headers. Raises UnreachableError."""

    def refused(self, sent: Headers) -> bool:
        """Note that the server rejected these headers; return whether others are available."""


@dataclass(slots=True)
class StaticCredentials:
    """Headers that never change: a token in a kubeconfig, or none with a client certificate."""

    headers: Headers = field(default_factory=dict)
    generation: int = 0

    def current(self) -> Headers:
        return self.headers

    async def renew(self) -> Headers:
        return self.headers

    def refused(self, sent: Headers) -> bool:
        del sent
        return False


@dataclass(slots=True)
class TokenFile:
    """A token in a file that another program renews."""

    path: Path
    extra: Headers = field(default_factory=dict)
    generation: int = 0
    _headers: Headers | None = None
    _read_at: float = 0.0

    def current(self) -> Headers | None:
        return self._headers if time.monotonic() - self._read_at < _FILE_LIFE else None

    async def renew(self) -> Headers:
        problem = self._read()
        if self._headers is None:
            raise UnreachableError(problem)
        return self._headers

    def refused(self, sent: Headers) -> bool:
        """Read the file again; it may contain a new token."""
        if sent is self._headers:
            self._read()
        return sent is not self._headers

    def _read(self) -> str:
        """Read the file and return what is wrong with it. After an error the old token stays in use."""
        self._read_at = time.monotonic()
        try:
            token = self.path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            return f"cannot read the token file {self.path}: {error}"
        if not token:
            return f"the token file {self.path} is empty"
        headers = bearer(token, self.extra)
        if headers != self._headers:
            self._headers = headers
        return ""


class RotatingCertificate:
    """Adds a client certificate in files that another program renews, such as the kubelet or cert-manager.

    A new one is presented from the next connection on.
    """

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
        if time.monotonic() - self._checked >= _FILE_LIFE:
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


def bearer(token: str, extra: Headers | None = None) -> Headers:
    return {"Authorization": f"Bearer {token}", **(extra or {})}

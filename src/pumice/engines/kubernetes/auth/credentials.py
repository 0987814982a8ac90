"""Credentials: the authentication headers of every request, and how they are renewed.

The kubelet rewrites token files, and the tokens of plugins expire. Both are renewed when due, and once more when the
server rejects them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from pumice.engines.kubernetes.api.errors import UnreachableError
from pumice.engines.kubernetes.api.http1 import Headers

# Seconds after which a token file is read again, as in client-go. The kubelet renews it long before it expires.
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


class StaticCredentials:
    """Headers that never change: a token in a kubeconfig, or none with a client certificate."""

    def __init__(self, headers: Headers | None = None) -> None:
        self.generation = 0
        self._headers = headers or {}

    def current(self) -> Headers:
        return self._headers

    async def renew(self) -> Headers:
        return self._headers

    def refused(self, sent: Headers) -> bool:
        del sent
        return False


class TokenFile:
    """A token in a file that another program renews."""

    def __init__(self, path: Path, extra: Headers | None = None) -> None:
        self.generation = 0
        self._path = path
        self._extra = extra or {}
        self._headers: Headers | None = None
        self._read_at = 0.0

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
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            return f"cannot read the token file {self._path}: {error}"
        if not token:
            return f"the token file {self._path} is empty"
        headers = bearer(token, self._extra)
        if headers != self._headers:
            self._headers = headers
        return ""


def bearer(token: str, extra: Headers | None = None) -> Headers:
    return {"Authorization": f"Bearer {token}", **(extra or {})}

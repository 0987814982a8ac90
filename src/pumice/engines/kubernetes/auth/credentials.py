"""As whom the API server is asked: the headers that go with every request, and how they are renewed.

A token is never kept for good. Tokens in files are written anew by the kubelet, those of plugins expire, so both are
fetched again when they are due, and once more when the server refuses them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from pumice.engines.kubernetes.api.errors import UnreachableError

# The kubelet writes a new token long before the old one expires; a minute is what Kubernetes' own clients take.
_FILE_LIFE = 60.0


class Credentials(Protocol):
    @property
    def generation(self) -> int:
        """Grows when the client certificate has changed: connections made before then still show the old one."""

    def current(self) -> Mapping[str, str] | None:
        """The headers to send, or None if they must be renewed first. The same object as long as nothing changed."""

    async def renew(self) -> Mapping[str, str]:
        """Fetch them, and return them. Raises UnreachableError."""

    def refused(self, sent: Mapping[str, str]) -> bool:
        """The server did not accept these; whether others can be had."""


class Fixed:
    """Headers that never change: a token written in a kubeconfig, or none where a certificate says it all."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self.generation = 0
        self._headers = headers or {}

    def current(self) -> Mapping[str, str]:
        return self._headers

    async def renew(self) -> Mapping[str, str]:
        return self._headers

    def refused(self, sent: Mapping[str, str]) -> bool:
        del sent
        return False


class TokenFile:
    """A token that somebody else keeps fresh in a file."""

    def __init__(self, path: Path, more: Mapping[str, str] | None = None) -> None:
        self.generation = 0
        self._path = path
        self._more = more or {}
        self._headers: Mapping[str, str] | None = None
        self._read_at = 0.0

    def current(self) -> Mapping[str, str] | None:
        return self._headers if time.monotonic() - self._read_at < _FILE_LIFE else None

    async def renew(self) -> Mapping[str, str]:
        problem = self._read()
        if self._headers is None:
            raise UnreachableError(problem)
        return self._headers

    def refused(self, sent: Mapping[str, str]) -> bool:
        """Read again at once: another token, another chance."""
        if sent is self._headers:
            self._read()
        return sent is not self._headers

    def _read(self) -> str:
        """What is wrong with the file, if anything. Then what was read before is still the best that there is."""
        self._read_at = time.monotonic()
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            return f"cannot read the token file {self._path}: {error}"
        if not token:
            return f"the token file {self._path} is empty"
        headers = bearer(token, self._more)
        if headers != self._headers:
            self._headers = headers
        return ""


def bearer(token: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **(more or {})}

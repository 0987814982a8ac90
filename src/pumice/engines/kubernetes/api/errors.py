"""The errors of calls to the API server.

Callers ask what an error means (`already_exists`, `is_conflict`, `is_transient`), not for its number. A missing
response is an ApiError too, with status 0: code that retries a passing refusal also retries a lost connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import msgspec

from pumice.model.pumice_error import PumiceError

# The statuses of a server that is overloaded, starting, or cut off from etcd.
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
# How much of a body that is no Status object is shown: the first words of a proxy's HTML page are enough.
_SHOWN = 200


class AccessError(PumiceError):
    """The server or the credentials could not be determined: names the file, what is wrong there, and what to do."""


class _Status(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


class ApiError(PumiceError):
    """The server refused: `status` as in HTTP, `reason` and `message` as in its Status object."""

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        *,
        retry_after: float | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message or reason or f"the API server answered {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.details: dict[str, Any] = details or {}

    @classmethod
    def from_response(cls, status: int, body: bytes, retry_after: str | None = None) -> ApiError:
        """Build the error from a response, whose body is a Status object or what a proxy in between wrote."""
        try:
            sent = msgspec.json.decode(body, type=_Status)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            sent = _Status(message=body[:_SHOWN].decode(errors="replace").strip())
        details = sent.details or {}
        return cls(
            status,
            sent.reason or "",
            sent.message or "",
            retry_after=_seconds(retry_after, details.get("retryAfterSeconds")),
            details=details,
        )

    @property
    def already_exists(self) -> bool:
        return self.status == HTTPStatus.CONFLICT and self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """The object has changed since it was read."""
        return self.status == HTTPStatus.CONFLICT and self.reason != "AlreadyExists"

    @property
    def not_found(self) -> bool:
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def gone(self) -> bool:
        """The resource version to list or watch from has expired."""
        return self.status == HTTPStatus.GONE

    @property
    def is_forbidden(self) -> bool:
        return self.status == HTTPStatus.FORBIDDEN

    @property
    def is_invalid(self) -> bool:
        return self.status == HTTPStatus.UNPROCESSABLE_ENTITY

    @property
    def is_throttled(self) -> bool:
        return self.status == HTTPStatus.TOO_MANY_REQUESTS

    @property
    def is_transient(self) -> bool:
        """Whether the same call may succeed later. The server may have carried out a write all the same."""
        return self.status in _TRANSIENT

    @property
    def causes(self) -> frozenset[str]:
        """The reasons in the details, such as `NamespaceTerminating` of a Forbidden."""
        causes = self.details.get("causes")
        if not isinstance(causes, list):
            return frozenset()
        return frozenset(str(cause.get("reason")) for cause in causes if isinstance(cause, dict))


class UnreachableError(ApiError):
    """No response: not connected, cut off, or too late. The server may have carried out a write."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)

    @property
    def is_transient(self) -> bool:
        return True


@contextmanager
def if_found() -> Iterator[None]:
    """Ignore that the object of a call does not exist."""
    try:
        yield
    except ApiError as error:
        if not error.not_found:
            raise


def _seconds(*values: object) -> float | None:
    """Return the first usable Retry-After, of the header and of the Status object."""
    for value in values:
        try:
            seconds = float(value)  # type: ignore[arg-type]  # anything but a number raises
        except (TypeError, ValueError):
            continue
        if 0 < seconds < float("inf"):
            return seconds
    return None

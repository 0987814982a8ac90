"""What a call to the API server can end with, when it does not end well.

Callers ask what an error means (`already_exists`, `is_conflict`, `is_transient`), never which number it has. No answer
at all is an error of the same family, with status 0: whoever retries a refusal that will pass also retries a silence.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

# Answers that say "not now" of a server that is overloaded, starting, or cut off from its store.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
# How much of an answer that is no Status object is shown: a proxy's page of HTML says enough in its first words.
_SHOWN = 200


class AccessError(Exception):
    """Where and as whom to ask could not be found out: names the file, what is wrong there, and what to do."""


class _Status(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


class ApiError(Exception):
    """The server refused: `status` as in HTTP, `reason` and `message` as in the Status object that it sent."""

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
    def from_answer(cls, status: int, body: bytes, retry_after: str | None = None) -> ApiError:
        """The error that an answer stands for; the body is a Status object, or whatever a proxy in between wrote."""
        try:
            told = msgspec.json.decode(body, type=_Status)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            told = _Status(message=body[:_SHOWN].decode(errors="replace").strip())
        details = told.details or {}
        return cls(
            status,
            told.reason or "",
            told.message or "",
            retry_after=_seconds(retry_after, details.get("retryAfterSeconds")),
            details=details,
        )

    @property
    def already_exists(self) -> bool:
        return self.status == HTTPStatus.CONFLICT and self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """Somebody else wrote first; what was read must be read again."""
        return self.status == HTTPStatus.CONFLICT and self.reason != "AlreadyExists"

    @property
    def not_found(self) -> bool:
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def gone(self) -> bool:
        """The version to list or to watch from is older than what the server remembers."""
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
        """Whether the same call may well succeed later. A write may have been carried out all the same."""
        return self.status in _PASSING

    @property
    def causes(self) -> frozenset[str]:
        """The reasons within the reason, such as `NamespaceTerminating` of a Forbidden."""
        causes = self.details.get("causes")
        if not isinstance(causes, list):
            return frozenset()
        return frozenset(str(cause.get("reason")) for cause in causes if isinstance(cause, dict))


class UnreachableError(ApiError):
    """No answer at all: not connected, cut off, or too late. A write may have been carried out."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)

    @property
    def is_transient(self) -> bool:
        return True


def _seconds(header: str | None, told: object) -> float | None:
    """How long the server asks to be left alone, by its header, else by its Status object."""
    for value in (header, told):
        try:
            seconds = float(value)  # type: ignore[arg-type]  # whatever is no number is told by the exception
        except (TypeError, ValueError):
            continue
        if 0 < seconds < float("inf"):
            return seconds
    return None

"""Timestamps: Kubernetes' RFC 3339 text in UTC, and Python's datetime."""

from __future__ import annotations

import datetime as dt
from typing import Final

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# A year before the end of Python's range, so that arithmetic with it does not overflow.
NEVER: Final = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)


def parse_time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def read_time(text: str | None) -> dt.datetime | None:
    """Parse an untrusted RFC 3339 timestamp; None if it is invalid, naive or out of range."""
    try:
        moment = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None and EPOCH <= moment <= NEVER else None


def after(moment: dt.datetime, seconds: int) -> dt.datetime:
    """Return the moment some seconds later, or NEVER if that is out of range."""
    left = (NEVER - moment).total_seconds()
    return moment + dt.timedelta(seconds=seconds) if seconds < left else NEVER


def to_seconds(moment: dt.datetime) -> str:
    """Format for a status, whose times have no fractions in Kubernetes."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_microseconds(moment: dt.datetime) -> str:
    """Format with microseconds: rounding would let a timeout fire early."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

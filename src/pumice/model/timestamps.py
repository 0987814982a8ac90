"""Moments as Kubernetes writes them (RFC 3339, UTC) and as Python reckons with them."""

from __future__ import annotations

import datetime as dt
from typing import Final

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# Later than everything that matters, and early enough to be reckoned with: Python's own time ends a year after it.
NEVER: Final = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)


def parse_time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def read_time(text: str | None) -> dt.datetime | None:
    """A moment that anybody may have written; None if it is none that can be reckoned with."""
    try:
        moment = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    # Without a zone, it cannot be compared with others.
    return moment if moment.tzinfo is not None and EPOCH <= moment <= NEVER else None


def after(moment: dt.datetime, seconds: int) -> dt.datetime:
    """So much later, or never if that is beyond all reckoning."""
    left = (NEVER - moment).total_seconds()
    return moment + dt.timedelta(seconds=seconds) if seconds < left else NEVER


def to_seconds(moment: dt.datetime) -> str:
    """For a status, whose times have no fractions in Kubernetes."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_microseconds(moment: dt.datetime) -> str:
    """For what is reckoned with later: rounding would make a timeout act too early."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

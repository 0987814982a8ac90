"""Moments as Kubernetes writes them (RFC 3339, UTC) and as Python reckons with them."""

from __future__ import annotations

import datetime as dt


def parse_time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def to_seconds(moment: dt.datetime) -> str:
    """For a status, whose times have no fractions in Kubernetes."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_microseconds(moment: dt.datetime) -> str:
    """For what is reckoned with later: rounding would make a timeout act too early."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

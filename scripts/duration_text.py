"""Durations as people read them: `45 s`, `3 min 10 s`."""

from __future__ import annotations


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"

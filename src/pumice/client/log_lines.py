"""The lines of logs as values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any, Final

from pumice.client.values import LogLine
from pumice.store.logs.log_source import UNKNOWN, LogBatch, stream_of

_NANOSECONDS: Final = 10**9


def log_lines(batches: Iterable[LogBatch]) -> list[LogLine]:
    """Return the lines of batches."""
    found: list[LogLine] = []
    for _, execution, time, flags, text in batches:
        common: dict[str, Any] = {
            "time": None if time == UNKNOWN else moment_of(time),
            "pod": execution.pod,
            "container": execution.container,
            "stream": stream_of(time, flags),
            "attempt": execution.attempt,
            "restart": execution.restart,
        }
        lines = text.removesuffix(b"\n").decode("utf-8", "replace").split("\n")
        found.extend(LogLine(text=line, **common) for line in lines)
    return found


def moment_of(time: int) -> dt.datetime:
    """Return the time of a batch, which is in nanoseconds since 1970."""
    moment = dt.datetime.fromtimestamp(time // _NANOSECONDS, dt.UTC)
    return moment.replace(microsecond=time % _NANOSECONDS // 1000)

"""Numbers, times and sizes as words of the page, and the queries of its links."""

from __future__ import annotations

import datetime as dt
from typing import Final
from urllib.parse import urlencode

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86400
KIB: Final = 1024


def number(value: float, digits: int = 0) -> str:
    """Return `1,311` or `11.8`."""
    return f"{value:,.{digits}f}"


def plural(count: int, word: str, many: str = "") -> str:
    """Return `1 pod`, `8 pods`."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def duration(seconds: float) -> str:
    """Return `5.5 s`, `13 m 53 s`, `2 h 11 m`, `3 d 4 h`; cut off as in a terminal, not rounded."""
    if seconds < MINUTE:
        return f"{min(max(0.0, seconds), 59.9):.1f} s"
    whole = int(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} m {whole % MINUTE:02} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02} m"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def brief(seconds: float) -> str:
    """Return the largest unit of a duration: `31 m`."""
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} m"
    return f"{whole // HOUR} h" if whole < DAY else f"{whole // DAY} d"


def offset(seconds: float) -> str:
    """Return the time of a line from the start: `0.3`, `4:12.4`, `2:09:17`."""
    if seconds < MINUTE - 0.05:
        return f"{max(0.0, seconds):.1f}"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)}:{seconds % MINUTE:04.1f}"
    whole = int(seconds)
    return f"{whole // HOUR}:{whole % HOUR // MINUTE:02}:{whole % MINUTE:02}"


def ago(then: dt.datetime, now: dt.datetime) -> str:
    """Return `12 s ago`, `34 min ago`, `2 h ago`, `yesterday`, `5 days ago`."""
    seconds = max(0, int((now - then).total_seconds()))
    if seconds < MINUTE:
        return f"{seconds} s ago"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min ago"
    if seconds < DAY:
        return f"{seconds // HOUR} h ago"
    return "yesterday" if seconds < 2 * DAY else f"{seconds // DAY} days ago"


def seconds_before(moment: dt.datetime, seconds: float) -> dt.datetime:
    return moment - dt.timedelta(seconds=seconds)


def clock(moment: dt.datetime) -> str:
    """Return the local time of day."""
    return f"{moment.astimezone():%H:%M:%S}"


def cores(amount: float) -> str:
    """Return a number of CPUs: `43`, `0.5`."""
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:.1f}"


def file_name(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


def query(**fields: object) -> str:
    """Return the query of a link, without the fields that are empty: `?tab=events&attempt=2`."""
    return "?" + urlencode({name: value for name, value in fields.items() if value not in {None, ""}})

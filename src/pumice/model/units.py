"""Sizes, amounts of resources and times as people read them; timestamps in Kubernetes' RFC 3339 text, in UTC."""

from __future__ import annotations

import datetime as dt
from typing import Final

from pumice.model.quantity import Quantity

_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP: Final = 1024
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# A year before the end of Python's range, so that arithmetic with it does not overflow.
NEVER: Final = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
_LONGEST_NUMBER: Final = 9


def size_text(size: float) -> str:
    """Format a number of bytes: `16 GiB`, `1.5 GiB`."""
    unit = 0
    while size >= _STEP ** (unit + 1) and unit < len(_SIZES) - 1:
        unit += 1
    return f"{size / _STEP**unit:.1f}".removesuffix(".0") + f" {_SIZES[unit]}"


def amount_text(resource: str, amount: Quantity | str, cpus: str = ".12g") -> str:
    """Format an amount of a resource: `0.5` CPUs, in the given format, `16 GiB` of memory."""
    quantity = Quantity.parse(amount) if isinstance(amount, str) else amount
    if resource == "cpu":
        return f"{quantity.milli_value() / 1000:{cpus}}"
    return size_text(quantity.value()) if resource == "memory" else str(quantity.value())


def elapsed_text(seconds: float) -> str:
    """Format a time that passed: `7.9s`, `2m05s`, `3h02m`."""
    minutes, rest = divmod(int(seconds), 60)
    hours = minutes // 60
    if hours:
        return f"{hours}h{minutes % 60:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{min(seconds, 59.9):.1f}s"


def age_text(seconds: float) -> str:
    """Format how long ago something was: `40s`, `12m`, `3h`, `5d`."""
    passed = max(0.0, seconds)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if passed >= 2 * size or (unit != "d" and passed >= size):
            return f"{int(passed // size)}{unit}"
    return f"{int(passed)}s"


def clock_text(seconds: float) -> str:
    """Format a time that passes: `02:05`, `3:02:05`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def whole_text(seconds: float) -> str:
    """Format a time exactly, in the largest unit of which it has a whole number: `90s`, `2m`, `1h`."""
    size, unit = next((one for one in ((3600, "h"), (60, "m")) if not seconds % one[0]), (1, "s"))
    return f"{seconds / size:g}{unit}"


def parse_time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def is_number(text: str) -> bool:
    """Whether this untrusted text is a number of at most nine digits: to convert one of many takes long."""
    return text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER


def read_number(text: str) -> int:
    return int(text) if is_number(text) else 0


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


def to_milliseconds(moment: dt.datetime) -> str:
    """Format with milliseconds, as lines of logs have it."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def to_microseconds(moment: dt.datetime) -> str:
    """Format with microseconds: rounding would let a timeout fire early."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

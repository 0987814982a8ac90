"""Durations in Go's notation (`1h30m`, `300ms`), as the policies of a job use them.

Parsing and printing agree with Go's time package to the nanosecond, including its rounding: like Go, this module
computes decimals in floating point.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from pumice.model.pumice_error import PumiceError
from pumice.model.scalars import kind_of
from pumice.model.text import quoted

_MICROSECOND: Final = 1000
_MILLISECOND: Final = 1000 * _MICROSECOND
_SECOND: Final = 1000 * _MILLISECOND
_MINUTE: Final = 60 * _SECOND
# Two characters look like a micro sign, and Go accepts both.
_UNITS: Final = {
    "ns": 1,
    "us": _MICROSECOND,
    "\N{MICRO SIGN}s": _MICROSECOND,
    "\N{GREEK SMALL LETTER MU}s": _MICROSECOND,
    "ms": _MILLISECOND,
    "s": _SECOND,
    "m": _MINUTE,
    "h": 60 * _MINUTE,
}
_PART: Final = r"(?=\.?[0-9])([0-9]*+)(?:\.([0-9]*+))?([^0-9.]*+)"  # compiled when the first duration is read
_LIMIT: Final = 2**63
_LIMIT_DIGITS: Final = 19
# Digits after this many decimals are below a nanosecond in every unit.
_MOST_DECIMALS: Final = 400
_CACHEABLE: Final = 40

_ACCEPTED: Final = "must be a duration such as 10s, 5m or 1h30m"
_UNITS_KNOWN: Final = "the units are h m s ms us ns"


class DurationError(PumiceError, ValueError):
    """The exception text quotes the input; `message` and `hint` do not, for a finding that shows the value itself."""

    def __init__(self, found: str, problem: str, message: str = _ACCEPTED, hint: str = "") -> None:
        super().__init__(f"{found}: {problem}", hint)
        self.message = message


class Duration(Struct, frozen=True, order=True):
    nanoseconds: int = 0

    @staticmethod
    def parse(found: object) -> Duration:
        """Parse a text. Raises DurationError with a message for the author of the document."""
        if not isinstance(found, str):
            raise DurationError(kind_of(found), _ACCEPTED)
        return _parse_short(found) if len(found) <= _CACHEABLE else _parse(found)

    @property
    def seconds(self) -> float:
        return self.nanoseconds / _SECOND

    @property
    def timedelta(self) -> dt.timedelta:
        """Return whole microseconds, rounded up, so that a timeout never fires early."""
        return dt.timedelta(microseconds=-(-self.nanoseconds // _MICROSECOND))

    def __str__(self) -> str:
        size = abs(self.nanoseconds)
        sign = "-" if self.nanoseconds < 0 else ""
        return sign + (_clock_text(size) if size >= _SECOND else _small_text(size))


def _clock_text(nanoseconds: int) -> str:
    minutes, rest = divmod(nanoseconds, _MINUTE)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, _SECOND)}s"
    if minutes or hours:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


def _small_text(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    for unit in ("ns", "\N{MICRO SIGN}s"):
        if nanoseconds < 1000 * _UNITS[unit]:
            return _decimal(nanoseconds, _UNITS[unit]) + unit
    return f"{_decimal(nanoseconds, _MILLISECOND)}ms"


def _decimal(nanoseconds: int, unit: int) -> str:
    whole, rest = divmod(nanoseconds, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{str(unit + rest)[1:].rstrip('0')}"


def _parse(text: str) -> Duration:
    negative = text.startswith("-")
    start = 1 if text.startswith(("-", "+")) else 0
    if text[start:] == "0":
        return Duration()
    if start == len(text):
        raise _error(text, _ACCEPTED)
    # The most negative duration is one nanosecond longer than the most positive one.
    longest = _LIMIT if negative else _LIMIT - 1
    total = 0
    while start < len(text):
        part = re.compile(_PART).match(text, start)
        if part is None:
            raise _error(text, _ACCEPTED)
        total += _read_part(text, part)
        if total > longest:
            raise _too_long(text)
        start = part.end()
    return Duration(-total if negative else total)


_parse_short = lru_cache(maxsize=1024)(_parse)


def _read_part(text: str, part: re.Match[str]) -> int:
    """Return the nanoseconds of one number with its unit."""
    whole, decimals, name = part.groups(default="")
    if not name:
        raise _error(text, f"missing unit, {_ACCEPTED}", hint=f"a number has no unit; {_UNITS_KNOWN}")
    unit = _UNITS.get(name)
    if unit is None:
        problem = f"unknown unit {quoted(name)}, {_UNITS_KNOWN}"
        raise _error(text, problem, hint=problem)
    digits = whole.lstrip("0")
    if len(digits) > _LIMIT_DIGITS:
        raise _too_long(text)
    return int(digits or 0) * unit + _fraction(decimals, unit)


def _fraction(decimals: str, unit: int) -> int:
    """Return the nanoseconds of the decimals, in Go's order of operations, which decides the rounding."""
    numerator, scale = 0, 1.0
    for digit in decimals[:_MOST_DECIMALS]:
        following = numerator * 10 + int(digit)
        if following > _LIMIT:
            break
        numerator = following
        scale *= 10
    return int(float(numerator) * (float(unit) / scale))


def _error(text: str, problem: str, message: str = _ACCEPTED, hint: str = "") -> DurationError:
    return DurationError(quoted(text), problem, message, hint)


def _too_long(text: str) -> DurationError:
    longest = f"must be at most {Duration(_LIMIT - 1)}"
    return _error(text, f"too long, {longest}", longest)

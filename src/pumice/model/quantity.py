"""Kubernetes quantities (`500m`, `4Gi`, `1e3`): exact values that print as Kubernetes prints them.

Kubernetes' resolution is a billionth, so a quantity is an integer number of billionths and the style it was written in;
sums are exact. Two quantities are equal when their values are: `1024` equals `1Ki`.

Three differences from Kubernetes, all on absurd input: a unit or sign without any digit is refused (Kubernetes reads
`Ki` as 0, but the schema of its custom resources refuses it too); a value of more than 500 digits is refused, because
`1e999999999` could not be added to anything; and `1000E` stays `1000E`, which Kubernetes prints as `1`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Final

from msgspec import Struct

from pumice.model.scalars import kind_of
from pumice.model.text import quoted

_NANO: Final = 10**9
_MAX_BINARY: Final = (2**63 - 1) * _NANO
_MAX_DIGITS: Final = 500
# A boundary between two billionths of a value with a binary unit has at most 60 + 9 decimals. Of the decimals after the
# 70th it only matters whether any is not zero, so a megabyte of decimals costs no more than 70.
_MAX_DECIMALS: Final = 70
_CACHEABLE: Final = 40

_SHAPE: Final = re.compile(r"([+-]?)(?=\.?[0-9])([0-9]*+)(?:\.([0-9]*+))?(.*)")
_EXPONENT: Final = r"[eE]([+-]?)0*+([0-9]{0,18})"
_DECIMAL_UNITS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_UNITS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {exponent: unit for unit, exponent in _DECIMAL_UNITS.items()}
_BINARY_SUFFIXES: Final = ("", *_BINARY_UNITS)

_ACCEPTED: Final = "must be a quantity such as 500m, 2, 1.5, 4Gi or 1e3"
_UNITS: Final = f"the units are {' '.join(filter(None, _DECIMAL_UNITS))} and {' '.join(_BINARY_UNITS)}"


class Format(StrEnum):
    """The style that a quantity was written in. Sums keep it."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class Quantity(Struct, frozen=True, eq=False):
    nanos: int = 0
    format: Format = Format.DECIMAL_SI

    @staticmethod
    def parse(found: object) -> Quantity:
        """Parse a text or a number. Raises ValueError with a message for the author of the document."""
        if isinstance(found, str):
            # Only short texts are cached, to bound the memory of the cache.
            return _parse_short(found) if len(found) <= _CACHEABLE else _parse(found)
        if isinstance(found, int) and not isinstance(found, bool):
            # Python refuses to convert an int of several thousand digits to text.
            if abs(found) >= 10**_MAX_DIGITS:
                raise ValueError(f"too large a number, must be below 1e{_MAX_DIGITS}")
            return Quantity(found * _NANO)
        if isinstance(found, float):
            # The author wrote the shortest text that parses to this float, not its exact binary value.
            exact = Decimal(repr(found))
            if not exact.is_finite():
                raise ValueError(f"{found}: {_ACCEPTED}")
            return _parse(f"{exact:f}")
        raise ValueError(f"{kind_of(found)}: {_ACCEPTED}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __ne__(self, other: object) -> bool:
        return not self == other  # a Struct has one of its own, which compares the objects

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self._format_with(other))

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self._format_with(other))

    def __mul__(self, count: int) -> Quantity:
        return Quantity(self.nanos * count, self.format)

    __rmul__ = __mul__

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def _format_with(self, other: Quantity) -> Format:
        return self.format if self.nanos else other.format

    @property
    def is_zero(self) -> bool:
        return self.nanos == 0

    @property
    def is_negative(self) -> bool:
        return self.nanos < 0

    @property
    def is_integer(self) -> bool:
        return self.nanos % _NANO == 0

    def floor(self) -> int:
        return self.nanos // _NANO

    def ceil(self) -> int:
        return -(-self.nanos // _NANO)

    def value(self) -> int:
        """Return the value as an integer, rounded away from zero, as Kubernetes does."""
        return self._rounded_away(_NANO)

    def milli_value(self) -> int:
        """Return the value in thousandths, rounded away from zero."""
        return self._rounded_away(_NANO // 1000)

    def _rounded_away(self, unit: int) -> int:
        size = -(-abs(self.nanos) // unit)
        return -size if self.nanos < 0 else size

    def __str__(self) -> str:
        """Return the canonical form: no decimals, and the largest unit that needs none."""
        if self.nanos == 0:
            return "0"
        # Kubernetes writes binary units only for values of at least 1Ki, and only if they are exact.
        if self.format is Format.BINARY_SI and self.is_integer and abs(self.nanos) >= 1024 * _NANO:
            whole = self.nanos // _NANO
            twos = (whole & -whole).bit_length() - 1
            unit = min(twos // 10, len(_BINARY_SUFFIXES) - 1)
            return f"{whole >> 10 * unit}{_BINARY_SUFFIXES[unit]}"
        sign = "-" if self.nanos < 0 else ""
        return sign + _decimal_text(str(abs(self.nanos)), self.format)


def _decimal_text(nanos: str, style: Format) -> str:
    exponent = len(nanos) - len(nanos.rstrip("0")) - 9
    exponent -= exponent % 3
    if style is Format.DECIMAL_EXPONENT:
        suffix = f"e{exponent}" if exponent else ""
    else:
        exponent = min(exponent, 18)
        suffix = _DECIMAL_SUFFIXES[exponent]
    return nanos[: len(nanos) - (exponent + 9)] + suffix


def _parse(text: str) -> Quantity:
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise _error(text, _ACCEPTED)
    sign, whole, decimals, suffix = match.groups(default="")
    power_of_two, power_of_ten, style = _read_suffix(text, suffix)
    digits = (whole + decimals).lstrip("0")
    nanos = _nanos(text, digits, power_of_ten - len(decimals), power_of_two) if digits else 0
    if style is Format.BINARY_SI:
        nanos = min(nanos, _MAX_BINARY)
        if 0 < nanos < _NANO:
            style = Format.DECIMAL_SI
    return Quantity(-nanos if sign == "-" else nanos, style)


_parse_short = lru_cache(maxsize=4096)(_parse)


def _read_suffix(text: str, suffix: str) -> tuple[int, int, Format]:
    """Return the powers of two and of ten that the suffix means, and its style."""
    if suffix in _DECIMAL_UNITS:
        return 0, _DECIMAL_UNITS[suffix], Format.DECIMAL_SI
    if suffix in _BINARY_UNITS:
        return _BINARY_UNITS[suffix], 0, Format.BINARY_SI
    match = re.fullmatch(_EXPONENT, suffix)
    if match is None or not suffix[-1].isdigit():
        problem = f"unknown unit {quoted(suffix)}, {_UNITS}" if suffix.isascii() and suffix.isalpha() else _ACCEPTED
        raise _error(text, problem)
    size = int(match[2] or 0)
    return 0, -size if match[1] == "-" else size, Format.DECIMAL_EXPONENT


def _nanos(text: str, digits: str, power_of_ten: int, power_of_two: int) -> int:
    """Return digits x 10**power_of_ten x 2**power_of_two in billionths, rounded up."""
    if len(digits) + power_of_ten > _MAX_DIGITS:
        raise _error(text, f"too large, must be below 1e{_MAX_DIGITS}")
    excess = -_MAX_DECIMALS - power_of_ten
    if excess > 0:
        kept = digits[: max(0, len(digits) - excess)]
        rest = digits[len(kept) :].strip("0")
        mantissa = int(kept or 0) + bool(rest)
        power_of_ten = -_MAX_DECIMALS
    else:
        mantissa = int(digits)
    mantissa <<= power_of_two
    shift = power_of_ten + 9
    scale: int = 10 ** abs(shift)
    return mantissa * scale if shift >= 0 else -(-mantissa // scale)


def _error(text: str, problem: str) -> ValueError:
    return ValueError(f"{quoted(text)}: {problem}")

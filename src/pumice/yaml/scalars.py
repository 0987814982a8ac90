"""Resolve unquoted scalars (number, boolean, null or string) exactly as kubectl does.

PyYAML follows YAML 1.1 and differs from kubectl where it matters in a Job file: it reads `1:30` as 90, `2024-01-01` as
a date and `1e3` as a string. A Job must mean the same here and on a cluster, so this module has kubectl's rules: its
words for booleans, octal `0644` and `0o644`, `08` as 8, underscores in numbers, no base 60, dates as strings, and `4.0`
as an integer, because every value passes through JSON on its way to the API server.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

Scalar = str | int | float | bool | None

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_NUMBER_STARTS: Final = frozenset("0123456789+-.")
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))\Z"
)
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
# Patterns of what is rare, compiled when they are first used.
# kubectl also accepts a sign between prefix and digits.
_ODD_BINARY: Final = r"0b([-+][01]+)"
_FLOAT: Final = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
# In a number that starts with its point, underscores count only between two digits.
_POINT_FLOAT: Final = r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?"
# Longer ones are outside the range of integers, and int() takes quadratic time.
_LONGEST_NUMBER: Final = 400
_SMALLEST_INT: Final = -(2**63)
_LARGEST_INT: Final = 2**64 - 1
_JSON_EXPONENT_FROM: Final = 1e21


def resolve(text: str) -> Scalar:
    """Return the value of a plain scalar; NaN and infinities are floats that the caller refuses."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    number = _number(text)
    return text if number is None else number


def _number(text: str) -> int | float | None:
    if text[0] == ".":
        return _float(text.replace("_", "")) if re.fullmatch(_POINT_FLOAT, text) else None
    integer = _integer(text)
    if integer is not None:
        return integer
    plain = text.replace("_", "")
    return _float(plain) if re.fullmatch(_FLOAT, plain) else None


def _integer(text: str) -> int | None:
    if len(text) > _LONGEST_NUMBER:
        return None
    plain = text.replace("_", "")
    match = _INTEGER.match(plain)
    if match is None:
        odd = re.fullmatch(_ODD_BINARY, plain)
        return None if odd is None else _in_range(int(odd[1], 2))
    kind = match.lastgroup or "dec"
    number = int(match[kind], _BASES[kind])
    # Numbers above the signed range are unsigned and cannot have a sign.
    if match["sign"] and number > 2**63 - 1 and not (match["sign"] == "-" and -number == _SMALLEST_INT):
        return None
    return _in_range(-number if match["sign"] == "-" else number)


def _in_range(number: int) -> int | None:
    return number if _SMALLEST_INT <= number <= _LARGEST_INT else None


def _float(plain: str) -> int | float | None:
    number = float(plain)
    if math.isinf(number):
        return None
    return as_json_number(number)


def as_json_number(number: float) -> int | float:
    """Return a whole number below 1e21 as an integer, as a round trip through JSON does."""
    if abs(number) < _JSON_EXPONENT_FROM and number == math.floor(number):
        # From the shortest decimal form, as JSON prints it, not from the exact binary value.
        return int(Decimal(repr(number)))
    return number


def resolve_tagged(kind: str, text: str) -> Scalar:
    """Return the value of a scalar tagged !!str, !!int, !!float, !!bool or !!null, or raise ValueError."""
    if kind == "str":
        return text
    value = resolve(text)
    fits: dict[str, bool] = {
        "null": value is None,
        "bool": isinstance(value, bool),
        # 4.0 and 08 are floats in kubectl's reader, although their values are whole.
        "int": bool(text) and text[0] in _NUMBER_STARTS and _integer(text) is not None,
        "float": isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
    }
    if not fits[kind]:
        raise ValueError(text)
    return value

"""Scalars of JSON and YAML: the name of a value's kind, and whether it fits a scalar type.

The hints cover common mistakes: a port as a quoted number, or a label or variable without quotes, which YAML reads as a
number or a boolean.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

_INT32: Final = 2**31
_INT64: Final = 2**63
# Patterns, compiled when they are first used.
_WHOLE_NUMBER: Final = r"[-+]?[0-9]+"
_TIME: Final = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[-+]\d\d:\d\d)"


class ScalarMisfit(Struct, frozen=True):
    accepted: str
    hint: str = ""


def kind_of(value: object) -> str:
    """Return the kind of the value for a message: `a string`, `a list`."""
    if value is None:
        return "null"
    for types, kind in _KINDS:
        if isinstance(value, types):
            return kind
    return f"a {type(value).__name__}"


_KINDS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (bool, "a boolean"),
    ((int, float), "a number"),
    (str, "a string"),
    (Mapping, "a mapping"),
    (list, "a list"),
)


def plain_text(value: object) -> str:
    """Return the value as YAML writes it: `true`, not `True`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def scalar_misfit(value: object, type_: str) -> ScalarMisfit | None:
    """Return why the value does not fit this scalar type. Raises KeyError for a type that does not exist."""
    return _CHECKS[type_](value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _string(value: object) -> ScalarMisfit | None:
    if isinstance(value, str):
        return None
    if isinstance(value, bool):
        # The word that the file used is not known here.
        return ScalarMisfit("a string", "quote it: YAML takes yes, no, on, off, y and n for true and false")
    return ScalarMisfit("a string", f'quote it: "{value}"' if isinstance(value, (int, float)) else "")


def _whole_number(value: object, bound: int = _INT32) -> ScalarMisfit | None:
    # YAML reads an integer with too many digits as a float.
    if (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer()):
        fits = isinstance(value, int) and -bound <= value < bound
        return None if fits else _range(bound)
    if isinstance(value, str) and re.fullmatch(_WHOLE_NUMBER, value):
        # One of hundreds of digits is a string also without quotes.
        fits = len(value) <= len(str(-bound)) and -bound <= int(value) < bound
        return ScalarMisfit("a whole number", "remove the quotes") if fits else _range(bound)
    return ScalarMisfit("a whole number")


def _range(bound: int) -> ScalarMisfit:
    return ScalarMisfit(f"from {-bound} to {bound - 1}")


def _bool(value: object) -> ScalarMisfit | None:
    if isinstance(value, bool):
        return None
    quoted = isinstance(value, str) and value.lower() in {"true", "false"}
    return ScalarMisfit("true or false", "remove the quotes" if quoted else "")


def _int_or_string(value: object) -> ScalarMisfit | None:
    if isinstance(value, str) or _whole_number(value) is None:
        return None
    return ScalarMisfit("a whole number or a string")


def _time(value: object) -> ScalarMisfit | None:
    if isinstance(value, str) and re.fullmatch(_TIME, value):
        return None
    return ScalarMisfit("a time such as 2026-01-31T12:00:00Z")


def _bytes(value: object) -> ScalarMisfit | None:
    if not isinstance(value, str):
        return ScalarMisfit("a base64 string")
    try:
        binascii.a2b_base64("".join(value.split()).encode(), strict_mode=True)
    except ValueError:
        return ScalarMisfit("a base64 string", "put plain text under stringData instead")
    return None


_CHECKS: Final[Mapping[str, Callable[[object], ScalarMisfit | None]]] = {
    "string": _string,
    "int32": _whole_number,
    "int64": partial(_whole_number, bound=_INT64),
    "bool": _bool,
    "number": lambda value: None if _is_number(value) else ScalarMisfit("a number"),
    "quantity": lambda value: (
        None if isinstance(value, str) or _is_number(value) else ScalarMisfit("a quantity such as 500m or 2Gi")
    ),
    "intOrString": _int_or_string,
    "time": _time,
    "bytes": _bytes,
    "any": lambda _value: None,
}

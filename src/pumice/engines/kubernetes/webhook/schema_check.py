"""Predicts whether the API server will reject an object by its schema.

The server checks the schema after the mutating and before the validating webhooks, and then reports schema errors
only. If the mutating webhook knows that the schema will reject a Job, it can report all findings at once instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}
_LIMITS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "minLength": lambda value, limit: len(value) >= limit,
    "maxLength": lambda value, limit: len(value) <= limit,
    "minItems": lambda value, limit: len(value) >= limit,
    "enum": lambda value, words: value in words,
    "pattern": lambda value, pattern: not isinstance(value, str) or re.search(pattern, value) is not None,
}


def fits(value: Any, schema: Schema) -> bool:
    if value is None:
        return bool(schema.get("nullable"))
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            return False
    elif not _is(value, schema.get("type")):
        return False
    if not all(allowed(value, schema[name]) for name, allowed in _LIMITS.items() if name in schema):
        return False
    if isinstance(value, dict):
        return _object_fits(value, schema)
    items = schema.get("items")
    return not isinstance(value, list) or items is None or all(fits(item, items) for item in value)


def _object_fits(value: Mapping[str, Any], schema: Schema) -> bool:
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, item in value.items():
        # The API server drops unknown fields before it calls webhooks.
        inner = properties.get(key, others)
        if isinstance(inner, Mapping) and not (item is None and "default" in inner) and not fits(item, inner):
            return False
    return all(key in value for key in schema.get("required", ()))


def _is(value: object, type_: str | None) -> bool:
    if type_ is None:
        return True
    if isinstance(value, bool):
        return type_ == "boolean"
    if isinstance(value, float) and type_ == "integer":
        return value.is_integer()
    return isinstance(value, _TYPES[type_])

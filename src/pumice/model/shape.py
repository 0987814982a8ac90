"""Check the shape of a JSON-like value against a schema; report all misfits at once, each with its path.

The schema is compact: object types by name, and a type expression for each field. A type expression is `string`,
`int32`, `int64`, `bool`, `number`, `quantity`, `intOrString`, `time`, `bytes`, `any`, `object`, the name of an object
type, `[]T` for a list or `{}T` for a map from strings. The caller passes the schema.

As in Kubernetes, null means that a field is not set; an item of a list or map cannot be null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from pumice.model.findings import ABSENT, Finding, Path
from pumice.model.scalars import kind_of, plain_text, scalar_misfit
from pumice.model.suggestions import nearest

# The expected type of a field that does not exist.
NO_FIELD: Final = "no field"

# Hints do not repeat longer texts.
_LONGEST_EXAMPLE: Final = 40


class ObjectType(msgspec.Struct, frozen=True):
    """The fields of an object with their types, the required ones, and how server-side apply merges them.

    `merge` names the fields with several owners: a list by the keys that identify its items (`name`, or several with
    commas) or as a `set`; a map with one owner is `atomic`. Other lists have one owner, and so has the whole object if
    it is `atomic`.
    """

    fields: dict[str, str]
    required: tuple[str, ...] = ()
    merge: dict[str, str] = {}
    atomic: bool = False


Schema: TypeAlias = Mapping[str, ObjectType]


class _Level(msgspec.Struct, frozen=True):
    """An object that encloses the current value; a misplaced field may belong to it."""

    type_: ObjectType
    value: Mapping[object, object]
    at: Path
    above: _Level | None


def misfits(value: object, type_: str, schema: Schema, at: Path) -> Iterator[Finding]:
    yield from _Checker(schema).check(value, type_, at, None)


class _Checker:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def check(self, value: object, type_: str, at: Path, above: _Level | None) -> Iterator[Finding]:
        if type_.startswith("[]"):
            yield from self._list(value, type_[2:], at, above)
        elif type_.startswith("{}"):
            yield from self._map(value, type_[2:], at, above)
        elif type_ in self._schema:
            yield from self._object(value, self._schema[type_], at, above)
        elif type_ == "object":
            yield from self._map(value, "any", at, above)
        elif misfit := scalar_misfit(value, type_):
            yield _misfit(value, misfit.accepted, at, misfit.hint, type_)

    def _list(self, value: object, item_type: str, at: Path, above: _Level | None) -> Iterator[Finding]:
        if not isinstance(value, list):
            yield _misfit(value, "a list", at, _as_list_item(value), f"[]{item_type}")
            return
        for index, item in enumerate(value):
            yield from self.check(item, item_type, at / index, above)

    def _map(self, value: object, item_type: str, at: Path, above: _Level | None) -> Iterator[Finding]:
        if not isinstance(value, Mapping):
            hint = "write key: value lines without a leading -" if isinstance(value, list) else ""
            yield _misfit(value, "a mapping", at, hint, f"{{}}{item_type}")
            return
        for key, item in value.items():
            if isinstance(key, str):
                yield from self.check(item, item_type, at / key, above)
            else:
                yield _unquoted_key(key, at)

    def _object(self, value: object, type_: ObjectType, at: Path, above: _Level | None) -> Iterator[Finding]:
        if not isinstance(value, Mapping):
            yield _misfit(value, "a mapping", at, "", "object")
            return
        level = _Level(type_, value, at, above)
        for key, item in value.items():
            if not isinstance(key, str):
                yield _unquoted_key(key, at)
            elif key not in type_.fields:
                yield self._unknown(key, level)
            elif item is not None:
                yield from self.check(item, type_.fields[key], at / key, level)
        for name in type_.required:
            if value.get(name) is None:
                yield Finding(at / name, "is required")

    def _unknown(self, key: str, level: _Level) -> Finding:
        near = nearest(key, level.type_.fields)
        if near is None or near.casefold() != key.casefold():
            above = _above_that_lacks(key, level.above)
            if above is not None:
                owner = str(above.at) or "the top level"
                return _unknown_field(level.at / key, f"it belongs to {owner}", above.at / key)
            below = self._below_that_knows(key, level)
            if below:
                return self._too_high(key, below, level)
        if near is None:
            return _unknown_field(level.at / key, "", None)
        return _unknown_field(
            level.at / key, f"did you mean {near}?", level.at / near if level.value.get(near) is None else None
        )

    def _too_high(self, key: str, below: str, level: _Level) -> Finding:
        owner, inside = level.at / below, level.value.get(below)
        if level.type_.fields[below].startswith("[]"):
            return _unknown_field(level.at / key, f"it belongs to {owner}[]", None)
        is_set = isinstance(inside, Mapping) and key in inside
        return _unknown_field(level.at / key, f"it belongs to {owner}", None if is_set else owner / key)

    def _below_that_knows(self, key: str, level: _Level) -> str:
        """Return the only field whose objects have this key; required fields take precedence."""
        knowing = [name for name, type_ in level.type_.fields.items() if self._knows(type_, key)]
        certain = [name for name in knowing if name in level.type_.required] or knowing
        return certain[0] if len(certain) == 1 else ""

    def _knows(self, type_: str, key: str) -> bool:
        object_type = self._schema.get(type_.removeprefix("[]"))
        return object_type is not None and key in object_type.fields


def _unknown_field(at: Path, hint: str, correct_path: Path | None) -> Finding:
    return Finding(at, "unknown field", hint=hint, correct_path=correct_path, expected_type=NO_FIELD)


def _above_that_lacks(key: str, level: _Level | None) -> _Level | None:
    """Return the nearest enclosing object that has this field and does not set it: the line is indented too far."""
    while level is not None:
        if key in level.type_.fields and key not in level.value:
            return level
        level = level.above
    return None


def _as_list_item(value: object) -> str:
    if isinstance(value, Mapping) and value:
        return f"write it as a list item: - {plain_text(next(iter(value)))}: ..."
    if isinstance(value, str) and len(value) <= _LONGEST_EXAMPLE:
        return "write it as a list, one item a word" if " " in value else f"write it as a list item: - {value}"
    return ""


def _unquoted_key(key: object, at: Path) -> Finding:
    text = plain_text(key)
    return Finding(at / text, f"the key must be a string, found {kind_of(key)}", hint=f'quote it: "{text}"')


def _misfit(value: object, accepted: str, at: Path, hint: str, type_: str) -> Finding:
    message = f"must be {accepted}, found {kind_of(value)}"
    # A whole mapping or list would bury the message; null shows nothing.
    shown = ABSENT if value is None or isinstance(value, (Mapping, list)) else value
    return Finding(at, message, shown, hint, expected_type=type_)

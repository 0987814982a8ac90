"""From a document (as YAML or JSON gave it) to a Job, with every misfit reported and as much as possible decoded.

A Job with a wrong type somewhere can still be checked elsewhere, so that its author sees all that is wrong at once:
what is plainly meant (`replicas: "2"`) is taken as meant, what is not is left out; either way it stays reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from msgspec import inspect

from pumice.model.findings import ABSENT, ROOT, SPEC, Finding, Path
from pumice.model.job import Job
from pumice.model.shape import UNKNOWN, ObjectType, Schema, misfits

Edit = Callable[[object], object]

# Kubernetes' own parts of a Job are checked by whoever has its schema, not here.
_OPAQUE: Final = ("template", "volumeClaim")
_LISTS: Final = (("tasks",), ("policies",), ("volumes",))
_PLUGINS: Final = SPEC / "plugins"


@dataclass(frozen=True, slots=True)
class Decoded:
    job: Job
    findings: tuple[Finding, ...]
    # Places that could not be read, so that what depends on them cannot be judged.
    left_out: tuple[Path, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.left_out


def decode(document: Mapping[str, Any], kubernetes: Schema) -> Decoded:
    """Decode a Job that a person wrote; `kubernetes` knows the types of an object's metadata."""
    schema = {**JOB_TYPES, **kubernetes}
    value = _with_empty_plugins(dict(document))
    value.pop("status", None)
    found = tuple(map(_without_keys, misfits(value, "Job", schema, ROOT)))
    if not found:
        return Decoded(msgspec.convert(_without_nulls(value), Job), found)
    value = _edited(value, {finding.path: _meaning_of(finding) for finding in found})
    still = tuple(misfits(value, "Job", schema, ROOT))
    value = _edited(value, {finding.path: _remains_of(finding) for finding in still})
    unknown = {finding.path for finding in found if finding.message == UNKNOWN}
    left_out = tuple(finding.path for finding in still if finding.path not in unknown)
    return Decoded(msgspec.convert(_without_nulls(value), Job), found, left_out)


def _without_keys(finding: Finding) -> Finding:
    """Arguments of plugins may be private keys, so a misplaced one is not shown."""
    if finding.path[:2] != _PLUGINS or finding.value is ABSENT:
        return finding
    return replace(finding, value=ABSENT, hint="each argument is a string in a list" if finding.hint else "")


def _job_types() -> dict[str, ObjectType]:
    """The shape of a Job, read off the model."""
    types: dict[str, ObjectType] = {}

    def expression(kind: inspect.Type) -> str:
        if isinstance(kind, inspect.Metadata):
            return expression(kind.type)
        if isinstance(kind, inspect.UnionType):
            return expression(next(part for part in kind.types if not isinstance(part, inspect.NoneType)))
        if isinstance(kind, inspect.ListType):
            return "[]" + expression(kind.item_type)
        if isinstance(kind, inspect.DictType):
            return "object" if isinstance(kind.value_type, inspect.AnyType) else "{}" + expression(kind.value_type)
        if isinstance(kind, inspect.StructType):
            fields = {field.encode_name: expression(field.type) for field in kind.fields}
            types[kind.cls.__name__] = ObjectType(fields)
            return kind.cls.__name__
        scalars = {inspect.StrType: "string", inspect.IntType: "int32", inspect.BoolType: "bool"}
        return scalars[type(kind)]

    expression(inspect.type_info(Job))
    types["Job"].fields.update(metadata="ObjectMeta", status="object")
    return types


JOB_TYPES: Final[Schema] = _job_types()


def _with_empty_plugins(document: dict[str, Any]) -> dict[str, Any]:
    """`svc:` with nothing behind it asks for the plugin without arguments."""
    spec = document.get("spec")
    plugins = spec.get("plugins") if isinstance(spec, dict) else None
    if isinstance(spec, dict) and isinstance(plugins, dict):
        filled = {name: [] if args is None else args for name, args in plugins.items()}
        return {**document, "spec": {**spec, "plugins": filled}}
    return document


def _meaning_of(misfit: Finding) -> Edit:
    return _as_list_meant if misfit.message.startswith("must be a list,") else _as_meant


def _remains_of(misfit: Finding) -> Edit:
    # A task or policy that cannot be read is emptied, not removed: the places of those behind it must not move.
    # A plugin may be called like one of these lists.
    is_part = misfit.path[:2] != _PLUGINS and misfit.path[-2:-1] in _LISTS
    return _emptied if is_part else _removed


def _as_meant(value: object) -> object:
    """A value of the wrong type as its author probably meant it."""
    if isinstance(value, str):
        if value in ("true", "false"):
            return value == "true"
        return int(value) if re.fullmatch(r"-?[0-9]{1,9}", value) else value
    return str(value).lower() if isinstance(value, bool | int | float) else value


def _as_list_meant(value: object) -> object:
    """One item where a list belongs."""
    return [value] if isinstance(value, dict | str) else value


def _emptied(_value: object) -> object:
    return {}


def _removed(_value: object) -> object:
    return None


def _edited(value: Any, edits: Mapping[Path, Edit]) -> Any:
    """A copy of the document in which the values at some paths are changed; each level is copied but once."""
    if ROOT in edits:
        return edits[ROOT](value)
    below: dict[str | int, dict[Path, Edit]] = {}
    for path, edit in edits.items():
        below.setdefault(path[0], {})[Path(path[1:])] = edit
    if isinstance(value, dict):
        return {key: _edited(item, below[key]) if key in below else item for key, item in value.items()}
    if isinstance(value, list):
        return [_edited(item, below[index]) if index in below else item for index, item in enumerate(value)]
    return value


def _without_nulls(value: Any) -> Any:
    """A null means that the field is not set. Templates and claims are passed on as they were written.

    Keys that are not strings have been reported; nothing in a Job could hold them.
    """
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if item is not None and isinstance(key, str)}
        return {key: _string_keyed(item) if key in _OPAQUE else _without_nulls(item) for key, item in kept.items()}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def _string_keyed(value: Any) -> Any:
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return {key: item for key, item in value.items() if isinstance(key, str)}
    return value

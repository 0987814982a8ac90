"""Decode a document into a Job, report every misfit, and decode as much as possible.

A Job with a wrong type in one field can still be checked elsewhere, so that its author sees all errors at once. A value
whose intent is clear (`replicas: "2"`) is converted, any other is left out; both are reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from pumice.model.findings import ABSENT, MOST_FINDINGS, ROOT, SPEC, Finding, Path
from pumice.model.job import Job, JobSpec
from pumice.model.shape import NO_FIELD, ObjectType, Schema, misfits

Edit = Callable[[object], object]

# Made when the module loads: msgspec crashes if two threads are the first to use a type at the same time.
_PREPARED: Final = msgspec.json.Decoder(Job)
_PLUGINS: Final = SPEC / "plugins"
# Lists of objects, by the keys on the way to them. An item that cannot be read is emptied instead of removed, so that
# the indexes of the items after it stay right.
_OBJECT_LISTS: Final = {("spec", "tasks"), ("spec", "policies"), ("spec", "volumes"), ("spec", "tasks", "policies")}


class Decoded(Struct, frozen=True):
    job: Job
    findings: tuple[Finding, ...]
    # Paths of values that could not be read. Rules that depend on them do not run.
    left_out: tuple[Path, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.left_out


def decode(document: Mapping[str, Any], kubernetes: Schema) -> Decoded:
    """Decode a Job as a user wrote it; `kubernetes` has the types of an object's metadata."""
    schema = {**JOB_TYPES, **kubernetes}
    value = _with_empty_plugins(dict(document))
    value.pop("status", None)
    found = tuple(map(_without_keys, islice(misfits(value, "Job", schema, ROOT), MOST_FINDINGS)))
    if len(found) == MOST_FINDINGS:
        return Decoded(Job(), found, (ROOT,))
    left_out: tuple[Path, ...] = ()
    if found:
        value = _edited(
            value,
            {
                finding.path: _as_list_item if finding.expected_type.startswith("[]") else _as_scalar
                for finding in found
            },
        )
        unreadable = tuple(misfits(value, "Job", schema, ROOT))
        value = _edited(value, {finding.path: _replacement(finding) for finding in unreadable})
        left_out = tuple(finding.path for finding in unreadable if finding.expected_type != NO_FIELD)
    return Decoded(msgspec.convert(_without_nulls(value, "Job", schema), Job), found, left_out)


def _without_keys(finding: Finding) -> Finding:
    """Hide the value of a misplaced plugin argument, which may be a private key."""
    if finding.path[:2] != _PLUGINS or finding.value is ABSENT:
        return finding
    return replace(finding, value=ABSENT, hint="each argument is a string in a list" if finding.hint else "")


def struct_types(*roots: type[Struct], integer: str = "int32") -> dict[str, ObjectType]:
    """Derive the types of structs, and of all structs in their fields, by name."""
    types: dict[str, ObjectType] = {}
    scalars: Mapping[type, str] = {str: "string", int: integer, bool: "bool"}

    def expression(kind: Any) -> str:
        if isinstance(kind, type) and issubclass(kind, Struct):
            own = fields(kind)
            required = tuple(field.encode_name for field in own if field.required)
            types[kind.__name__] = ObjectType({field.encode_name: expression(field.type) for field in own}, required)
            return kind.__name__
        origin, parts = get_origin(kind), get_args(kind)
        if origin is list:
            return "[]" + expression(parts[0])
        if origin is dict:
            return "object" if parts[1] is Any else "{}" + expression(parts[1])
        # Annotated, and optional: the type is the first part.
        return expression(parts[0]) if parts else scalars.get(kind, "any")

    for root in roots:
        expression(root)
    return types


JOB_TYPES: Final[Schema] = struct_types(JobSpec) | {
    "Job": ObjectType(
        {"apiVersion": "string", "kind": "string", "metadata": "ObjectMeta", "spec": "JobSpec", "status": "object"}
    )
}


def _with_empty_plugins(document: dict[str, Any]) -> dict[str, Any]:
    """Read `svc:` without a value as the plugin without arguments."""
    spec = document.get("spec")
    plugins = spec.get("plugins") if isinstance(spec, dict) else None
    if isinstance(spec, dict) and isinstance(plugins, dict):
        filled = {name: [] if args is None else args for name, args in plugins.items()}
        return {**document, "spec": {**spec, "plugins": filled}}
    return document


def _replacement(misfit: Finding) -> Edit:
    """Replace a value that cannot be read: an item of a list of objects by an empty object, everything else by null."""
    keys = tuple(step for step in misfit.path if isinstance(step, str))
    is_item = isinstance(misfit.path[-1], int) and keys in _OBJECT_LISTS
    return lambda _value: {} if is_item else None


def _as_scalar(value: object) -> object:
    """Convert between text and the other scalars: `"2"` to 2, `5` to `"5"`."""
    if isinstance(value, str):
        if value in ("true", "false"):
            return value == "true"
        return int(value) if re.fullmatch(r"-?[0-9]{1,9}", value) else value
    return str(value).lower() if isinstance(value, bool | int | float) else value


def _as_list_item(value: object) -> object:
    """Wrap a single item in the list that the field expects."""
    return [value] if isinstance(value, dict | str) else value


def _edited(value: Any, edits: Mapping[Path, Edit]) -> Any:
    """Copy the document with the values at some paths edited; copy each level only once."""
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


def _without_nulls(value: Any, type_: str, schema: Schema) -> Any:
    """Remove nulls, which mean that a field is not set, and keys that are not strings, which are reported already.

    The schema says what a key means: `template` is a field of a task, but may also name a plugin. Pod templates and
    claims (type `object`) stay as they are written, except for such keys at their top level.
    """
    if isinstance(value, list):
        return [_without_nulls(item, type_.removeprefix("[]"), schema) for item in value if item is not None]
    if not isinstance(value, dict):
        return value
    by_name = {key: item for key, item in value.items() if isinstance(key, str)}
    if type_ in schema:
        types: Mapping[str, str] = schema[type_].fields
    elif type_.startswith("{}"):
        types = dict.fromkeys(by_name, type_[2:])
    else:
        return by_name
    return {key: _without_nulls(item, types[key], schema) for key, item in by_name.items() if item is not None}

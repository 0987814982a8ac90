"""Builds docs/reference/job.md: every field of a Job, with its description in the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from pumice.model.job import Job, JobSpec
from scripts.docs_text import code, plain, table

INTRODUCTION = """\
# The Job

`batch.volcano.sh/v1alpha1`, kind `Job`: the fields are Volcano's. Only Pumice supports those marked *Pumice only*;
`pumice validate --volcano` reports them. Any other field is an error. `pumice schema` prints the same as JSON Schema. A
field without a default is optional and has no effect if it is missing, unless its description says otherwise.

"""
# Types of Kubernetes are linked, not described here.
KUBERNETES = "https://kubernetes.io/docs/reference/kubernetes-api"
FOREIGN = {
    "PodTemplateSpec": f"{KUBERNETES}/workload-resources/pod-template-v1/",
    "PersistentVolumeClaimSpec": f"{KUBERNETES}/config-and-storage-resources/persistent-volume-claim-v1/",
}
SCALARS = {inspect.StrType: "string", inspect.IntType: "int", inspect.BoolType: "bool"}
METADATA = """\
Kubernetes' own object metadata. `name` (or `generateName`) is required: at most 63 lower-case letters, digits and `-`,
since the names of pods, Service and volumes contain it. Pumice uses `name`, `namespace`, `labels` and `annotations`,
and accepts every other field of Kubernetes' `ObjectMeta`.
"""
STATUS = """\
The controller writes the status. Offline commands ignore it.
"""


def page() -> str:
    sections = [INTRODUCTION.rstrip("\n") + "\n", _section(Job, "Job"), _section(JobSpec, "spec")]
    sections += [_section(kind, path) for kind, path in _parts(JobSpec, "spec")]
    sections += [f"## metadata\n\n{METADATA}", f"## status\n\n{STATUS}"]
    return "\n".join(sections)


def _parts(kind: type, path: str) -> Iterator[tuple[type, str]]:
    """Return the structures below one, in the order of the page; each once, with all its paths."""
    paths: dict[type, list[str]] = {}
    waiting = [(kind, path)]
    while waiting:
        kind, path = waiting.pop(0)
        for field in msgspec.structs.fields(kind):
            inner, suffix = _struct_in(inspect.type_info(field.type))
            if inner is not None:
                where = f"{path}.{field.encode_name}{suffix}"
                paths.setdefault(inner, []).append(where)
                waiting.append((inner, where))
    for inner, wheres in paths.items():
        yield inner, ", ".join(wheres)


def _struct_in(kind: inspect.Type) -> tuple[type | None, str]:
    if isinstance(kind, inspect.Metadata):
        return _struct_in(kind.type)
    if isinstance(kind, inspect.UnionType):
        return next((found for part in kind.types if (found := _struct_in(part))[0]), (None, ""))
    if isinstance(kind, inspect.ListType):
        return _struct_in(kind.item_type)[0], "[]"
    return (kind.cls, "") if isinstance(kind, inspect.StructType) else (None, "")


def _section(kind: type, path: str) -> str:
    rows = [_row(field) for field in msgspec.structs.fields(kind)]
    heads = ("Field", "Type", "Default", "Meaning", "Accepted")
    return f"## {path}\n\n{table(heads, rows)}"


def _row(field: msgspec.structs.FieldInfo) -> tuple[str, ...]:
    kind = inspect.type_info(field.type)
    if not isinstance(kind, inspect.Metadata):
        raise TypeError(f"{field.name} has no description")
    schema: dict[str, Any] = kind.extra_json_schema or {}
    meaning, default = _meaning(schema["description"])
    return code(field.encode_name), _type(kind), default, meaning, _accepted(schema | _of_items(kind.type))


def _of_items(kind: inspect.Type) -> dict[str, Any]:
    """Return the schema of the items of a list."""
    item = kind.item_type if isinstance(kind, inspect.ListType) else kind
    return (item.extra_json_schema or {}) if isinstance(item, inspect.Metadata) else {}


def _meaning(description: str) -> tuple[str, str]:
    """Split a description into the text without its default, and the default."""
    match = re.search(r"; default ([^;]+)", description)
    text = description if match is None else description.replace(match[0], "")
    return plain(text).replace("Pumice only", "*Pumice only*"), "" if match is None else _default(match[1])


def _default(text: str) -> str:
    """Format a default: a value as code, a phrase as text."""
    return text if " " in text else code(text)


def _type(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        name = (kind.extra or {}).get("kubernetes")
        return f"[{name}]({FOREIGN[name]})" if name else _type(kind.type)
    if isinstance(kind, inspect.UnionType):
        return next(_type(part) for part in kind.types if not isinstance(part, inspect.NoneType))
    if isinstance(kind, inspect.ListType):
        return f"list of {_type(kind.item_type)}"
    if isinstance(kind, inspect.DictType):
        return f"map of {_type(kind.value_type)}"
    return SCALARS.get(type(kind), "object")


def _accepted(schema: dict[str, Any]) -> str:
    if choices := schema.get("enum"):
        return ", ".join(code(choice) for choice in choices)
    limits = {"minimum": "{} or more", "maxLength": "at most {} characters", "minItems": "at least {}"}
    return ", ".join(text.format(schema[key]) for key, text in limits.items() if key in schema)

"""docs/reference/job.md: every field of a Job, with the descriptions that the model gives it."""

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

`batch.volcano.sh/v1alpha1`, kind `Job`: the fields are Volcano's. Those marked *Pumice only* go beyond it, and
`pumice validate --volcano` points them out. Any other field is an error. `pumice schema` prints the same as JSON
Schema. A field without a default may be left out and then means nothing, unless its meaning says otherwise.

"""
# What is Kubernetes' own is named, not repeated.
KUBERNETES = "https://kubernetes.io/docs/reference/kubernetes-api"
FOREIGN = {
    "PodTemplateSpec": f"{KUBERNETES}/workload-resources/pod-template-v1/",
    "PersistentVolumeClaimSpec": f"{KUBERNETES}/config-and-storage-resources/persistent-volume-claim-v1/",
}
SCALARS = {inspect.StrType: "string", inspect.IntType: "int", inspect.BoolType: "bool"}
METADATA = """\
Kubernetes' own object metadata. `name` (or `generateName`) is required: at most 63 lower-case letters, digits and `-`,
since the names of pods, Service and volumes are made from it. Pumice itself uses `name`, `namespace`, `labels` and
`annotations`; every other field of Kubernetes' `ObjectMeta` is accepted.
"""
STATUS = """\
Written by the controller. The commands that work offline ignore it.
"""


def page() -> str:
    sections = [INTRODUCTION.rstrip("\n") + "\n", _section(Job, "Job"), _section(JobSpec, "spec")]
    sections += [_section(kind, path) for kind, path in _parts(JobSpec, "spec")]
    sections += [f"## metadata\n\n{METADATA}", f"## status\n\n{STATUS}"]
    return "\n".join(sections)


def _parts(kind: type, path: str) -> Iterator[tuple[type, str]]:
    """The structures below one, in the order in which a reader comes to them; each once, with all its paths."""
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
    """What is accepted in a list is said of its items."""
    item = kind.item_type if isinstance(kind, inspect.ListType) else kind
    return (item.extra_json_schema or {}) if isinstance(item, inspect.Metadata) else {}


def _meaning(description: str) -> tuple[str, str]:
    """A description without its default, and the default."""
    match = re.search(r"; default ([^;]+)", description)
    text = description if match is None else description.replace(match[0], "")
    return plain(text).replace("Pumice only", "*Pumice only*"), "" if match is None else _default(match[1])


def _default(text: str) -> str:
    """A value as code; a default that takes words to say as words."""
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

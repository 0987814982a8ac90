"""What variables and volumes of a pod refer to: ConfigMaps, Secrets and claims, decoded, and the downward API.

The objects come from the job's plugins and from the user's files, in the form in which an API server accepts them. The
downward API has the values of `fieldRef` and `resourceFieldRef`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.model.problem import Option, Problem
from pumice.model.quantity import Quantity
from pumice.model.resources import resource_list
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import config_key_error

_SUBSCRIPTED: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)
_ONE: Final = Quantity.parse(1)
_ZERO: Final = Quantity()
_SHORT_ESCAPES: Final = dict(zip('\a\b\f\n\r\t\v"\\', 'abfnrtv"\\', strict=True))


class ConfigSources(Struct, frozen=True):
    """`binary` holds a ConfigMap's binaryData, which cannot become a variable."""

    config_maps: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    binary: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    claims: Mapping[str, Path] = field(default_factory=dict)  # the directory of each claim
    real_paths: Mapping[str, str] = field(default_factory=dict)  # where each path of this machine leads

    def config_map_files(self, name: str) -> Mapping[str, bytes] | None:
        """Return all entries of a ConfigMap; None if there is no such ConfigMap."""
        if name not in self.config_maps:
            return None
        return {**self.config_maps[name], **self.binary.get(name, {})}


def read_config_sources(
    manifests: Iterable[Manifest], claims: Mapping[str, Path], real_paths: Mapping[str, str] | None = None
) -> tuple[ConfigSources, list[Problem]]:
    """Return what the manifests contain, without the entries that have a problem."""
    config_maps: dict[str, dict[str, bytes]] = {}
    binary: dict[str, dict[str, bytes]] = {}
    secrets: dict[str, dict[str, bytes]] = {}
    problems: list[Problem] = []
    for manifest in manifests:
        kind, name = manifest.get("kind"), str((manifest.get("metadata") or {}).get("name"))
        if kind == "ConfigMap":
            config_maps[name] = _texts(manifest, "data", problems)
            binary[name] = _encoded(manifest, "binaryData", problems)
        elif kind == "Secret":
            secrets[name] = {**_encoded(manifest, "data", problems), **_texts(manifest, "stringData", problems)}
    return ConfigSources(config_maps, binary, secrets, dict(claims), real_paths or {}), problems


def missing_source(where: str, kind: str, name: object) -> Problem:
    hint = f"add the {kind} to the job's file, pass it with ", Option("with", "FILE"), ", or set optional: true"
    return Problem(f"{where}: there is no {kind} {name}", hint)


def missing_key(where: str, source: str, key: str, entries: Iterable[str]) -> Problem:
    listed = f"it has {', '.join(sorted(entries))}" if entries else "it is empty"
    hint = f"{did_you_mean(key, entries)} {listed}; correct the key, or set optional: true".lstrip()
    return Problem(f"{where}: {source} has no key {key}", hint)


def _texts(manifest: Manifest, field_name: str, problems: list[Problem]) -> dict[str, bytes]:
    # Bytes of a file that are not UTF-8 were read as lone surrogates; this restores them.
    entries = _entries(manifest, field_name, problems)
    return {key: value.encode("utf-8", "surrogateescape") for key, value in entries}


def _encoded(manifest: Manifest, field_name: str, problems: list[Problem]) -> dict[str, bytes]:
    entries = {}
    for key, value in _entries(manifest, field_name, problems):
        try:
            entries[key] = base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            hint = "encode it with base64, or put it under stringData as it is" if field_name == "data" else ""
            problems.append(Problem(f"{_entry_path(manifest, field_name, key)}: is not base64", hint))
    return entries


def _entries(manifest: Manifest, field_name: str, problems: list[Problem]) -> Iterable[tuple[str, str]]:
    for key, value in (manifest.get(field_name) or {}).items():
        message = config_key_error(str(key)) if isinstance(value, str) else "must be a string"
        if message:
            hint = "" if isinstance(value, str) else "put quotes around it"
            problems.append(Problem(f"{_entry_path(manifest, field_name, key)}: {message}", hint))
        else:
            yield str(key), value


def _entry_path(manifest: Manifest, field_name: str, key: object) -> str:
    return f"{manifest['kind']} {(manifest.get('metadata') or {}).get('name')}: {field_name}.{key}"


class PodFacts(Struct, frozen=True, kw_only=True):
    """What a scheduled pod may read about itself beyond its manifest."""

    name: str
    namespace: str
    uid: str
    ip: str
    hostname: str
    node_name: str
    host_ip: str
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)  # stands in for a missing limit


def field_value(path: str, manifest: Manifest, facts: PodFacts) -> str | None:
    """Return the value of a pod's field; None for a path that the downward API does not know."""
    metadata = manifest.get("metadata") or {}
    if match := _SUBSCRIPTED.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        # Sorted `key="value"` lines, quoted as Go quotes them: programs parse these files.
        entries = metadata.get(path.removeprefix("metadata.")) or {}
        escaped = {key: "".join(map(_escaped, str(value))) for key, value in sorted(entries.items())}
        return "\n".join(f'{key}="{value}"' for key, value in escaped.items())
    spec = manifest.get("spec") or {}
    known = {
        "metadata.name": facts.name,
        "metadata.namespace": facts.namespace,
        "metadata.uid": facts.uid,
        "spec.nodeName": facts.node_name,
        "spec.host": facts.node_name,
        "spec.serviceAccountName": str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"),
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
        "status.podIP": facts.ip,
        "status.podIPs": facts.ip,
    }
    return known.get(path)


def resource_value(ref: Mapping[str, Any], container: Manifest, manifest: Manifest, facts: PodFacts) -> str | None:
    """Return a container's limit or request in units of `divisor`; None if the downward API has no such resource."""
    kind, _, name = str(ref.get("resource")).partition(".")
    if kind not in {"limits", "requests"} or not (
        name in {"cpu", "memory", "ephemeral-storage"} or name.startswith("hugepages-")
    ):
        return None
    spec = manifest.get("spec") or {}
    named = (each for each in all_containers(spec) if each.get("name") == ref.get("containerName"))
    amount = _amount(kind, name, (next(named, container), spec))
    if amount is None:
        amount = facts.allocatable.get(name, _ZERO) if kind == "limits" else _ZERO
    divisor = _ONE
    with suppress(ValueError):
        given = Quantity.parse(ref.get("divisor"))
        divisor = _ONE if given.is_zero else given
    return str(-(-amount.nanos // divisor.nanos))


def _amount(kind: str, name: str, owners: Sequence[Manifest]) -> Quantity | None:
    """Return the first owner's amount that is not zero. A limit serves as request; zero means no limit."""
    for owner in owners:
        for which in ("limits",) if kind == "limits" else ("requests", "limits"):
            amount = resource_list(owner, which).get(name, _ZERO)
            if not amount.is_zero:
                return amount
    return None


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _SHORT_ESCAPES:
        return f"\\{_SHORT_ESCAPES[character]}"
    if character.isprintable():
        return character
    if code < 0x80:  # noqa: PLR2004 - ASCII
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four digits

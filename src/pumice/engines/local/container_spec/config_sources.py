"""The ConfigMaps, Secrets and claims that the pods of a job may refer to, ready to be read.

They come from the job's plugins and from the user's files, in the form in which an API server takes them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pumice.model.job import Manifest
from pumice.model.problem import Problem
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import config_key_fault


@dataclass(frozen=True, slots=True)
class ConfigSources:
    """`config_maps` have text and `binary` bytes, because only text can become a variable."""

    config_maps: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    binary: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    claims: Mapping[str, Path] = field(default_factory=dict)  # the directory that each claim is here

    def config_map_files(self, name: str) -> Mapping[str, bytes] | None:
        """All entries of a ConfigMap, as files; None if there is no such ConfigMap."""
        if name not in self.config_maps:
            return None
        return {**self.config_maps[name], **self.binary.get(name, {})}


def read_config_sources(
    manifests: Iterable[Manifest], claims: Mapping[str, Path]
) -> tuple[ConfigSources, list[Problem]]:
    """What the manifests hold; entries that cannot be read are left out and told."""
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
    return ConfigSources(config_maps, binary, secrets, dict(claims)), problems


def known_keys(key: str, entries: Iterable[str]) -> str:
    """The hint for a key that is missing in a ConfigMap or Secret."""
    listed = f"it has {', '.join(sorted(entries))}" if entries else "it is empty"
    return f"{did_you_mean(key, entries)} {listed}; mend the key, or set optional: true".lstrip()


def _texts(manifest: Manifest, field_name: str, problems: list[Problem]) -> dict[str, bytes]:
    entries = {}
    for key, value in _entries(manifest, field_name, problems):
        # Bytes that were no UTF-8 come from a file as lone surrogates; they go on as the bytes they were.
        entries[key] = value.encode("utf-8", "surrogateescape")
    return entries


def _encoded(manifest: Manifest, field_name: str, problems: list[Problem]) -> dict[str, bytes]:
    entries = {}
    for key, value in _entries(manifest, field_name, problems):
        try:
            entries[key] = base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            hint = "encode it with base64, or give it as it is under stringData" if field_name == "data" else ""
            problems.append(Problem(f"{_place(manifest, field_name, key)}: is not base64", hint))
    return entries


def _entries(manifest: Manifest, field_name: str, problems: list[Problem]) -> Iterable[tuple[str, str]]:
    for key, value in (manifest.get(field_name) or {}).items():
        fault = config_key_fault(str(key)) if isinstance(value, str) else "must be a text"
        if fault:
            hint = "" if isinstance(value, str) else "put quotes around it"
            problems.append(Problem(f"{_place(manifest, field_name, key)}: {fault}", hint))
        else:
            yield str(key), value


def _place(manifest: Manifest, field_name: str, key: object) -> str:
    return f"{manifest['kind']} {(manifest.get('metadata') or {}).get('name')}: {field_name}.{key}"

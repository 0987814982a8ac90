"""ConfigMaps, Secrets and claims that the pods of a job may refer to, decoded.

They come from the job's plugins and from the user's files, in the form in which an API server accepts them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field

from pumice.model.job import Manifest
from pumice.model.problem import Option, Problem
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import config_key_error


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

"""The files of volumes that consist of data: configMap, secret, downwardAPI and projected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from msgspec import Struct, field

from pumice.engines.local.container_env.references import (
    ConfigSources,
    PodFacts,
    field_value,
    missing_key,
    missing_source,
    resource_value,
)
from pumice.model.job import Manifest
from pumice.model.problem import Problem

KINDS: Final = ("configMap", "secret", "downwardAPI", "projected")
_DEFAULT_MODE: Final = 0o644


class Entry(Struct, frozen=True):
    data: bytes
    mode: int = _DEFAULT_MODE


class DataVolume(Struct):
    """Collects the files of one volume."""

    volume: str
    manifest: Manifest
    facts: PodFacts
    config_sources: ConfigSources
    files: dict[str, Entry] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def read(self, kind: str, source: Mapping[str, Any]) -> None:
        mode = _mode(source.get("defaultMode"), _DEFAULT_MODE)
        parts = [(kind, source)]
        if kind == "projected":
            parts = [part for projection in source.get("sources") or [] for part in projection.items()]
        for part, value in parts:
            self._read_part(part, value or {}, mode)

    def _read_part(self, kind: str, source: Mapping[str, Any], mode: int) -> None:
        if kind == "configMap":
            name = str(source.get("name"))
            self._read_keys(source, "ConfigMap", name, self.config_sources.config_map_files(name), mode)
        elif kind == "secret":
            # A volume has secretName, a projection has name.
            name = str(source.get("secretName") or source.get("name"))
            self._read_keys(source, "Secret", name, self.config_sources.secrets.get(name), mode)
        elif kind == "downwardAPI":
            self._read_downward(source, mode)
        else:
            path = f" ({source['path']})" if source.get("path") else ""
            message = f"volume {self.volume}: {kind}{path} is left out: there is no API server to ask for it"
            self.problems.append(Problem(message, fatal=False))

    def _read_keys(
        self, source: Mapping[str, Any], kind: str, name: str, entries: Mapping[str, bytes] | None, mode: int
    ) -> None:
        where, optional = f"volume {self.volume}", bool(source.get("optional"))
        if entries is None:
            if not optional:
                self.problems.append(missing_source(where, kind, name))
            return
        for item in source.get("items") or [{"key": key, "path": key} for key in entries]:
            key = str(item.get("key"))
            if key in entries:
                self._add(str(item.get("path")), Entry(entries[key], _mode(item.get("mode"), mode)))
            elif not optional:
                self.problems.append(missing_key(where, f"{kind} {name}", key, entries))

    def _read_downward(self, source: Mapping[str, Any], mode: int) -> None:
        for item in source.get("items") or []:
            path, ref = str(item.get("path")), item.get("fieldRef")
            if ref is not None:
                what = str(ref.get("fieldPath"))
                value = field_value(what, self.manifest, self.facts)
            else:
                resource: Mapping[str, Any] = item.get("resourceFieldRef") or {}
                what = str(resource.get("resource"))
                value = resource_value(resource, {}, self.manifest, self.facts)
            if value is None:
                self.problems.append(Problem(f"volume {self.volume}: {path}: {what}: a pod has no such field"))
            else:
                self._add(path, Entry(value.encode("utf-8", "surrogateescape"), _mode(item.get("mode"), mode)))

    def _add(self, path: str, entry: Entry) -> None:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts:
            self.problems.append(Problem(f"volume {self.volume}: {path}: must be a path within the volume"))
        else:
            # A later source of a projected volume wins, as on a cluster.
            self.files["/".join(parts)] = entry


def is_shared(kind: str, source: Mapping[str, Any]) -> bool:
    """Return whether all pods of a job see the same files."""
    if kind == "projected":
        return not any("downwardAPI" in projection for projection in source.get("sources") or [])
    return kind != "downwardAPI"


def _mode(found: object, default: int) -> int:
    return found & 0o777 if isinstance(found, int) else default

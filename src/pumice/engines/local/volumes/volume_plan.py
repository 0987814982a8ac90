"""Plans the volumes of a container: mounts for the sandbox, and the steps that prepare what is mounted.

This module changes nothing; `apply.VolumeFiles` executes the steps. All volumes of a job are in its scratch directory:
data that all pods share once, everything else per pod. A memory volume is on disk if only parts of it are mounted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from pumice.engines.local.container_env import (
    ConfigSources,
    PodFacts,
    container_env,
    expand,
    field_value,
    missing_key,
    missing_source,
    resource_value,
    unknown_references,
)
from pumice.engines.local.host_access.consent import SHARED_MEMORY, normal_path
from pumice.engines.local.sandbox.specs import Mount, Tmpfs
from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.model.problem import Option, Problem
from pumice.model.quantity import Quantity
from pumice.store.disk_use import tree_size
from pumice.store.never_shared import is_never_shared, why_not

_EMPTY: Final = "emptyDir"
_EMPTY_MODE: Final = 0o777
KINDS: Final = ("configMap", "secret", "downwardAPI", "projected")
_DEFAULT_MODE: Final = 0o644


class Entry(Struct, frozen=True):
    data: bytes
    mode: int = _DEFAULT_MODE


def volume_excess(spec: Manifest, scratch: Path, uid: str) -> Callable[[], str] | None:
    """Return a function that says which volume of a pod is too large, "" if none is; None without any limit."""
    limits = {
        str(volume["name"]): limit
        for volume in spec.get("volumes") or []
        if (limit := size_limit(volume.get("emptyDir") or {})) is not None
    }

    def excess() -> str:
        for name, limit in limits.items():
            # A volume in memory has no directory, and the kernel limits it.
            if tree_size(pod_directory(scratch, uid) / "volumes" / name) > limit:
                given = next(each["emptyDir"]["sizeLimit"] for each in spec["volumes"] if each["name"] == name)
                return f'Usage of EmptyDir volume "{name}" exceeds the limit "{given}"'
        return ""

    return excess if limits else None


class MakeDirectory(Struct, frozen=True):
    """Make the directory unless it exists; `group` gets write access to all of it."""

    path: Path
    mode: int
    group: int | None = None


class WriteFiles(Struct, frozen=True):
    """Fill the directory with exactly these files; `group` gets read access."""

    path: Path
    files: tuple[tuple[str, Entry], ...]
    group: int | None = None


class HostPath(Struct, frozen=True):
    """Check that a real path of the host has the type that the pod declares."""

    path: Path
    type: str
    volume: str


class SubPath(Struct, frozen=True):
    """Make a directory within a volume unless it exists; symbolic links must not lead out of the volume."""

    base: Path
    within: str
    volume: str


Step: TypeAlias = MakeDirectory | WriteFiles | HostPath | SubPath


class Volumes(Struct, frozen=True):
    """What one container mounts. Execute the steps in order before mounting."""

    mounts: tuple[Mount | Tmpfs, ...] = ()
    steps: tuple[Step, ...] = ()
    problems: tuple[Problem, ...] = ()


def pod_directory(scratch: Path, uid: str) -> Path:
    """Return the directory of a pod's own volumes, which is removed with the pod."""
    return scratch / "pods" / uid


def shared_directory(scratch: Path) -> Path:
    return scratch / "shared"


def fs_group(manifest: Manifest) -> int | None:
    """Return the group that owns the pod's volumes."""
    found = ((manifest.get("spec") or {}).get("securityContext") or {}).get("fsGroup")
    return None if found is None else int(found)


def volume_mounts(
    container: Manifest, manifest: Manifest, facts: PodFacts, config_sources: ConfigSources, scratch: Path
) -> Volumes:
    planner = _Planner(container, manifest, facts, config_sources, scratch, fs_group(manifest))
    for mount in container.get("volumeMounts") or []:
        planner.add_mount(mount)
    # A mount below another must come after it, or it would be hidden.
    ordered = sorted(planner.mounts, key=lambda mount: PurePosixPath(mount.target).parts)
    return Volumes(tuple(ordered), tuple(planner.steps), tuple(planner.problems))


class _Planner(Struct):
    container: Manifest
    manifest: Manifest
    facts: PodFacts
    config_sources: ConfigSources
    scratch: Path
    group: int | None
    mounts: list[Mount | Tmpfs] = field(default_factory=list)
    steps: dict[Step, None] = field(default_factory=dict)  # an ordered set
    problems: dict[Problem, None] = field(default_factory=dict)

    def add_mount(self, mount: Manifest) -> None:
        name, target = str(mount.get("name")), normal_path(f"/{mount.get('mountPath')}")
        volumes = (self.manifest.get("spec") or {}).get("volumes") or []
        volume = next((volume for volume in volumes if volume.get("name") == name), None)
        if volume is None:
            self._report(Problem(f"volumeMounts: the pod has no volume {name}"))
            return
        if target == "/":
            self._report(Problem(f"volumeMounts: {name}: cannot mount over /"))
            return
        kind = next((key for key, value in volume.items() if key != "name" and value is not None), _EMPTY)
        source: Mapping[str, Any] = volume.get(kind) or {}
        if kind == _EMPTY and source.get("medium") == "Memory" and self._is_mounted_whole(name):
            read_only = bool(mount.get("readOnly"))
            self.mounts.append(Tmpfs(target, name, size_limit(source), _mode(source), read_only, self.group))
            return
        if kind == "hostPath" and normal_path(str(source.get("path"))) == str(SHARED_MEMORY):
            self.mounts.append(Tmpfs(target, name, read_only=bool(mount.get("readOnly"))))
            return
        path, within = self._path(name, kind, source), self._sub_path(mount)
        if path is None or within is None:
            return
        read_only = bool(mount.get("readOnly") or source.get("readOnly")) or kind in KINDS
        # In a real path there is no link, unless a pod has made one since.
        volume = "/" if kind == "hostPath" else str(path) if within else ""
        if within:
            self._step(SubPath(path, within, name))
        self.mounts.append(Mount(str(path / within), target, read_only, volume))

    def _sub_path(self, mount: Manifest) -> str | None:
        """Return the mounted part of the volume, "" for all of it; None if it is invalid."""
        text = str(mount.get("subPath") or "")
        if expression := mount.get("subPathExpr"):
            env, _ = container_env(self.container, self.manifest, self.facts, self.config_sources)
            if missing := unknown_references(str(expression), env):
                self._report(Problem(f"volumeMounts: {mount['name']}: subPathExpr: there is no variable {missing[0]}"))
                return None
            text = expand(str(expression), env)
        parts = PurePosixPath(text).parts
        if text.startswith("/") or ".." in parts:
            self._report(Problem(f"volumeMounts: {mount['name']}: subPath: {text}: must be a path within the volume"))
            return None
        return "/".join(parts)

    def _path(self, name: str, kind: str, source: Mapping[str, Any]) -> Path | None:
        """Return the volume's path on this machine; None, with a problem, if it has none."""
        own = pod_directory(self.scratch, self.facts.uid) / "volumes" / name
        if kind in KINDS:
            return self._data_volume(name, kind, source, own)
        if kind == "hostPath":
            path = Path(normal_path(str(source.get("path"))))
            if not path.is_absolute():
                self._report(Problem(f"volume {name}: hostPath {path}: must be an absolute path", f"write /{path}"))
                return None
            if is_never_shared(path):
                hint = "name the directory in it that the job needs"
                self._report(Problem(f"volume {name}: hostPath: {why_not(path)}", hint))
                return None
            real = self.config_sources.real_paths.get(str(path))
            if real is None:
                # Consent is for where a path leads before the first pod runs.
                self._report(Problem(f"volume {name}: hostPath {path}: was not checked when the run started"))
                return None
            self._step(HostPath(Path(real), str(source.get("type") or ""), name))
            return Path(real)
        if kind == "persistentVolumeClaim":
            claim = str(source.get("claimName"))
            directory = self.config_sources.claims.get(claim)
            if directory is None:
                hint = "add the PersistentVolumeClaim to the job's file, or pass it with "
                message = f"volume {name}: there is no PersistentVolumeClaim {claim}"
                self._report(Problem(message, (hint, Option("with", "FILE"))))
            else:
                self._step(MakeDirectory(directory, _EMPTY_MODE, self.group))
            return directory
        for message, hint in _differences(name, kind, source):
            self._report(Problem(message, hint, fatal=False))
        self._step(MakeDirectory(own, _mode(source), self.group))
        return own

    def _data_volume(self, name: str, kind: str, source: Mapping[str, Any], own: Path) -> Path:
        """Plan a volume that consists of data; all pods of a job that see the same files share one directory."""
        parts = [(kind, source)]
        if kind == "projected":
            parts = [part for projection in source.get("sources") or [] for part in projection.items()]
        default = source["defaultMode"] if isinstance(source.get("defaultMode"), int) else _DEFAULT_MODE
        files: dict[str, Entry] = {}
        for part, value in parts:
            for path, data, mode in self._data_files(f"volume {name}", part, value or {}):
                steps = PurePosixPath(path).parts
                if not steps or path.startswith("/") or ".." in steps:
                    self._report(Problem(f"volume {name}: {path}: must be a path within the volume"))
                else:
                    # A later source of a projected volume wins, as on a cluster.
                    files["/".join(steps)] = Entry(data, (mode if isinstance(mode, int) else default) & 0o777)
        directory = own
        if not any(part == "downwardAPI" for part, _ in parts):
            text = json.dumps([kind, source, self.group], sort_keys=True)
            directory = shared_directory(self.scratch) / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        self._step(WriteFiles(directory, tuple(files.items()), self.group))
        return directory

    def _data_files(self, where: str, kind: str, source: Mapping[str, Any]) -> Iterator[tuple[str, bytes, object]]:
        """Yield path, content and mode of each file of a source."""
        if kind == "configMap":
            name = str(source.get("name"))
            yield from self._key_files(where, source, f"ConfigMap {name}", self.config_sources.config_map_files(name))
        elif kind == "secret":
            # A volume has secretName, a projection has name.
            name = str(source.get("secretName") or source.get("name"))
            yield from self._key_files(where, source, f"Secret {name}", self.config_sources.secrets.get(name))
        elif kind == "downwardAPI":
            yield from self._downward_files(where, source)
        else:
            path = f" ({source['path']})" if source.get("path") else ""
            message = f"{where}: {kind}{path} is left out: there is no API server to ask for it"
            self._report(Problem(message, fatal=False))

    def _downward_files(self, where: str, source: Mapping[str, Any]) -> Iterator[tuple[str, bytes, object]]:
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
                self._report(Problem(f"{where}: {path}: {what}: a pod has no such field"))
            else:
                yield path, value.encode("utf-8", "surrogateescape"), item.get("mode")

    def _key_files(
        self, where: str, source: Mapping[str, Any], owner: str, entries: Mapping[str, bytes] | None
    ) -> Iterator[tuple[str, bytes, object]]:
        optional = bool(source.get("optional"))
        if entries is None:
            if not optional:
                self._report(missing_source(where, *owner.split(" ", 1)))
            return
        for item in source.get("items") or [{"key": key, "path": key} for key in entries]:
            key = str(item.get("key"))
            if key in entries:
                yield str(item.get("path")), entries[key], item.get("mode")
            elif not optional:
                self._report(missing_key(where, owner, key, entries))

    def _is_mounted_whole(self, name: str) -> bool:
        containers = all_containers(self.manifest.get("spec") or {})
        mounts = [each for container in containers for each in container.get("volumeMounts") or []]
        return not any(each.get("subPath") or each.get("subPathExpr") for each in mounts if each.get("name") == name)

    def _step(self, step: Step) -> None:
        self.steps[step] = None

    def _report(self, problem: Problem) -> None:
        self.problems[problem] = None


def _differences(name: str, kind: str, source: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield message and hint for what an empty directory lacks compared to the volume."""
    if kind == _EMPTY:
        if source.get("medium") == "Memory":
            yield f"volume {name}: medium Memory: is on disk, because parts of it are mounted", ""
        elif source.get("medium"):
            yield f"volume {name}: medium {source['medium']}: is on disk", ""
    elif kind == "ephemeral":
        yield f"volume {name}: is a plain directory, so its claim's size and storage class have no effect", ""
    else:
        hint = "put the data into a directory and mount that with hostPath, a PersistentVolumeClaim or --mount"
        yield f"volume {name}: {kind} is not supported; an empty directory is mounted instead", hint


def size_limit(source: Mapping[str, Any]) -> int | None:
    """Return the size limit of an emptyDir in bytes."""
    try:
        size = Quantity.parse(source.get("sizeLimit")).value()
    except ValueError:
        return None
    return size if size > 0 else None


def _mode(source: Mapping[str, Any]) -> int:
    mode = source.get("mode")
    return mode & 0o1777 if isinstance(mode, int) else _EMPTY_MODE

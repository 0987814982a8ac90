"""What a container's volumeMounts become here: mounts for the sandbox, and steps that make ready what is mounted.

Nothing is touched here; `volume_files.VolumeFiles` takes the steps. All of a job's volumes live in its scratch
directory: data that all pods share once, the rest by pod. A memory volume lies on disk if only parts of it are mounted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pumice.engines.local.container_spec.config_sources import ConfigSources
from pumice.engines.local.container_spec.downward_api import PodFacts
from pumice.engines.local.container_spec.env import container_env
from pumice.engines.local.container_spec.expansion import expand, unknown_references
from pumice.engines.local.container_spec.users import fs_group
from pumice.engines.local.sandbox.specs import Mount, Tmpfs
from pumice.engines.local.volumes.data_sources import KINDS, Contents, is_shared
from pumice.engines.local.volumes.steps import HostPath, MakeDirectory, Step, SubPath, WriteFiles
from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.model.problem import Problem
from pumice.model.quantity import Quantity

_EMPTY: Final = "emptyDir"
_EMPTY_MODE: Final = 0o777


@dataclass(frozen=True, slots=True)
class Volumes:
    """What one container mounts. The steps must be taken, in order, before the mounts are made."""

    mounts: tuple[Mount | Tmpfs, ...] = ()
    steps: tuple[Step, ...] = ()
    problems: tuple[Problem, ...] = ()


def pod_directory(scratch: Path, uid: str) -> Path:
    """Where a pod's own volumes are; it goes when the pod goes."""
    return scratch / "pods" / uid


def shared_directory(scratch: Path) -> Path:
    return scratch / "shared"


def volume_mounts(
    container: Manifest, manifest: Manifest, facts: PodFacts, config_sources: ConfigSources, scratch: Path
) -> Volumes:
    reading = _Reading(container, manifest, facts, config_sources, scratch)
    for mount in container.get("volumeMounts") or []:
        reading.take(mount)
    return reading.result()


@dataclass
class _Reading:
    """One pass over a container's mounts."""

    container: Manifest
    manifest: Manifest
    facts: PodFacts
    config_sources: ConfigSources
    scratch: Path
    mounts: list[Mount | Tmpfs] = field(default_factory=list)
    steps: dict[Step, None] = field(default_factory=dict)  # in order, each once
    problems: dict[Problem, None] = field(default_factory=dict)

    @property
    def _group(self) -> int | None:
        return fs_group(self.manifest)

    def result(self) -> Volumes:
        # A mount below another one must come after it, or it would be hidden.
        ordered = sorted(self.mounts, key=lambda mount: PurePosixPath(mount.target).parts)
        return Volumes(tuple(ordered), tuple(self.steps), tuple(self.problems))

    def take(self, mount: Manifest) -> None:
        name, target = str(mount.get("name")), _absolute(str(mount.get("mountPath")))
        volumes = (self.manifest.get("spec") or {}).get("volumes") or []
        volume = next((volume for volume in volumes if volume.get("name") == name), None)
        if volume is None:
            self._tell(Problem(f"volumeMounts: the pod has no volume {name}"))
            return
        if target == "/":
            self._tell(Problem(f"volumeMounts: {name}: / cannot be mounted over"))
            return
        kind = next((key for key, value in volume.items() if key != "name" and value is not None), _EMPTY)
        source: Mapping[str, Any] = volume.get(kind) or {}
        if kind == _EMPTY and source.get("medium") == "Memory" and self._is_mounted_whole(name):
            read_only = bool(mount.get("readOnly"))
            self.mounts.append(Tmpfs(target, name, _size(source), _mode(source), read_only, self._group))
            return
        place = self._place(name, kind, source)
        if place is not None:
            self._mount(place, mount, target, kind, source)

    def _mount(self, place: Path, mount: Manifest, target: str, kind: str, source: Mapping[str, Any]) -> None:
        read_only = bool(mount.get("readOnly") or source.get("readOnly")) or kind in KINDS
        within = self._sub_path(mount)
        if within is None:
            return
        if within:
            self._step(SubPath(place, within, str(mount.get("name"))))
            place = place / within
        self.mounts.append(Mount(str(place), target, read_only))

    def _sub_path(self, mount: Manifest) -> str | None:
        """The part of the volume that is mounted, "" for all of it; None if it cannot be."""
        text = str(mount.get("subPath") or "")
        if expression := mount.get("subPathExpr"):
            env, _ = container_env(self.container, self.manifest, self.facts, self.config_sources)
            if missing := unknown_references(str(expression), env):
                self._tell(Problem(f"volumeMounts: {mount['name']}: subPathExpr: there is no variable {missing[0]}"))
                return None
            text = expand(str(expression), env)
        parts = PurePosixPath(text).parts
        if text.startswith("/") or ".." in parts:
            self._tell(Problem(f"volumeMounts: {mount['name']}: subPath: {text}: must be a path within the volume"))
            return None
        return "/".join(parts)

    def _place(self, name: str, kind: str, source: Mapping[str, Any]) -> Path | None:
        """Where the volume is on this machine; None, with a problem, if it is nowhere."""
        if kind in KINDS:
            return self._contents(name, kind, source)
        if kind == "hostPath":
            path = Path(_absolute(str(source.get("path"))))
            self._step(HostPath(path, str(source.get("type") or ""), name))
            return path
        if kind == "persistentVolumeClaim":
            return self._claim(name, str(source.get("claimName")))
        for problem in _not_honoured(name, kind, source):
            self._tell(problem)
        path = pod_directory(self.scratch, self.facts.uid) / "volumes" / name
        self._step(MakeDirectory(path, _mode(source), self._group))
        return path

    def _contents(self, name: str, kind: str, source: Mapping[str, Any]) -> Path:
        contents = Contents(name, self.manifest, self.facts, self.config_sources)
        contents.read(kind, source)
        for problem in contents.problems:
            self._tell(problem)
        if is_shared(kind, source):
            spelled = json.dumps([kind, source, self._group], sort_keys=True)
            path = shared_directory(self.scratch) / f"{name}-{hashlib.sha256(spelled.encode()).hexdigest()[:16]}"
        else:
            path = pod_directory(self.scratch, self.facts.uid) / "volumes" / name
        self._step(WriteFiles(path, tuple(contents.files.items()), self._group))
        return path

    def _claim(self, name: str, claim: str) -> Path | None:
        place = self.config_sources.claims.get(claim)
        if place is None:
            hint = "put the PersistentVolumeClaim into the job's file or give it with --with FILE"
            self._tell(Problem(f"volume {name}: there is no PersistentVolumeClaim {claim}", hint))
            return None
        self._step(MakeDirectory(place, _EMPTY_MODE, self._group))
        return place

    def _is_mounted_whole(self, name: str) -> bool:
        containers = all_containers(self.manifest.get("spec") or {})
        mounts = [each for container in containers for each in container.get("volumeMounts") or []]
        return not any(each.get("subPath") or each.get("subPathExpr") for each in mounts if each.get("name") == name)

    def _step(self, step: Step) -> None:
        self.steps[step] = None

    def _tell(self, problem: Problem) -> None:
        self.problems[problem] = None


def _not_honoured(name: str, kind: str, source: Mapping[str, Any]) -> Iterator[Problem]:
    """What an empty directory of the pod's own does not give of what the volume asks for."""
    if kind == _EMPTY:
        if source.get("medium") == "Memory":
            yield Problem(f"volume {name}: medium Memory: lies on disk, because parts of it are mounted", fatal=False)
        elif source.get("medium"):
            yield Problem(f"volume {name}: medium {source['medium']}: lies on disk", fatal=False)
        if source.get("sizeLimit") is not None:
            yield Problem(f"volume {name}: sizeLimit {source['sizeLimit']} is not enforced", fatal=False)
    elif kind == "ephemeral":
        yield Problem(
            f"volume {name}: is a plain directory, so its claim's size and storage class have no effect", fatal=False
        )
    else:
        yield Problem(
            f"volume {name}: {kind} is not mounted, an empty directory is there instead",
            "put the data into a directory and mount that with hostPath or a PersistentVolumeClaim, or with --mount",
            fatal=False,
        )


def _size(source: Mapping[str, Any]) -> int | None:
    try:
        size = Quantity.parse(source.get("sizeLimit")).value()
    except ValueError:
        return None
    return size if size > 0 else None


def _mode(source: Mapping[str, Any]) -> int:
    mode = source.get("mode")
    return mode & 0o1777 if isinstance(mode, int) else _EMPTY_MODE


def _absolute(path: str) -> str:
    """The path from the root, without steps back: `/a/../../b` is `/b`, as in the container itself."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            parts.append(part)
    return "/" + "/".join(parts)

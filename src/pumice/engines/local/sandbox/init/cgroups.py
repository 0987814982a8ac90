"""Limits by control groups, where this process may make any: as root, or in a part that systemd has delegated.

Both versions are in use. New groups go below the one that this process is in, so that limits put on Pumice itself
hold for its pods too. Under version 2 a group with processes in it cannot pass controllers on: if nobody but the
engine is in there, it moves into a group of its own first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

from pumice.engines.local.sandbox.rootfs import mount_table
from pumice.engines.local.sandbox.sandbox_errors import LIMITS, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec

CONTROLLERS = ("memory", "cpu", "pids")
_ENGINE_GROUP = "pumice-engine"
_PERIOD = 100_000


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where groups for one controller are made."""

    parent: str
    version: int


def find(mountinfo: Iterable[str], membership: Iterable[str]) -> dict[str, Hierarchy]:
    """The group of this process for each controller, from lines of /proc/self/mountinfo and /proc/self/cgroup."""
    paths = {}
    for line in membership:
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name] = path
    found: dict[str, Hierarchy] = {}
    unified = ""
    for line in mountinfo:
        before, _, after = line.partition(" - ")
        root, place = before.split(" ")[3], mount_table.mount_point(line)
        # What is mounted may have an empty name.
        kind, _, options = after.split(" ")[:3]
        if kind == "cgroup2":
            unified = _below(place, root, paths.get("", "/"))
        elif kind == "cgroup":
            for name in set(CONTROLLERS) & set(options.split(",")):
                found[name] = Hierarchy(_below(place, root, paths.get(name, "/")), 1)
    if unified:
        parent = os.path.dirname(unified) if os.path.basename(unified) == _ENGINE_GROUP else unified
        for name in CONTROLLERS:
            found.setdefault(name, Hierarchy(parent, 2))
    return found


def _below(place: str, root: str, path: str) -> str:
    relative = os.path.relpath(path, root)
    return place if relative == "." or relative.startswith("..") else f"{place}/{relative}"


class Cgroups:
    def __init__(self, name: str, hierarchies: dict[str, Hierarchy]) -> None:
        self._name = name
        self._hierarchies = hierarchies
        self._made = 0

    @property
    def controllers(self) -> list[str]:
        return sorted(self._hierarchies)

    def group(self, spec: ContainerSpec) -> Group:
        """A group for what the spec limits and this machine can; empty if there is nothing to do."""
        self._made += 1
        group = Group()
        for controller, limit in (("memory", spec.memory), ("cpu", spec.cpu_quota), ("pids", spec.pids)):
            hierarchy = self._hierarchies.get(controller)
            if limit is not None and hierarchy is not None:
                try:
                    group.limit(hierarchy, f"pumice-{self._name}-{self._made}", controller, limit)
                except OSError as error:
                    group.remove()
                    raise StartError(LIMITS, f"cannot limit {controller} to {limit}: {error.strerror}") from error
        return group

    def remove_all(self) -> None:
        """What is left of this job: nothing, unless job-init was killed."""
        for parent in {hierarchy.parent for hierarchy in self._hierarchies.values()}:
            for entry in os.listdir(parent):
                if entry.startswith(f"pumice-{self._name}-"):
                    _remove(f"{parent}/{entry}")


class Group:
    """One container's groups: a directory for each hierarchy."""

    def __init__(self) -> None:
        self.directories: list[str] = []
        self._memory = ""

    @property
    def limits_memory(self) -> bool:
        return bool(self._memory)

    def limit(self, hierarchy: Hierarchy, name: str, controller: str, value: float) -> None:
        directory = f"{hierarchy.parent}/{name}"
        if directory not in self.directories:
            os.mkdir(directory)
            self.directories.append(directory)
        settings = _settings(controller, value, hierarchy.version)
        for file, content in settings.items():
            if file in _OPTIONAL and not os.path.exists(f"{directory}/{file}"):
                continue
            _write(f"{directory}/{file}", content)
        if controller == "memory":
            self._memory = f"{directory}/{'memory.oom_control' if hierarchy.version == 1 else 'memory.events'}"

    def out_of_memory(self) -> bool:
        if not self._memory:
            return False
        with open(self._memory) as file:
            counts = dict(line.split()[:2] for line in file)
        return int(counts.get("oom_kill", 0)) > 0

    def alarm(self) -> int | None:
        """A descriptor that is readable once memory has run out; version 2 kills the whole group without our help."""
        if not self._memory.endswith("memory.oom_control"):
            return None
        descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            with open(self._memory) as file:
                _write(f"{os.path.dirname(self._memory)}/cgroup.event_control", f"{descriptor} {file.fileno()}")
        except OSError:
            # A kernel that no longer tells. It still kills, and the count is read at the end.
            os.close(descriptor)
            return None
        return descriptor

    def remove(self) -> None:
        for directory in self.directories:
            _remove(directory)
        self.directories = []


# Kernels may be built, or started, without accounting of swap.
_OPTIONAL = frozenset({"memory.memsw.limit_in_bytes", "memory.swap.max", "memory.oom.group"})


def _settings(controller: str, value: float, version: int) -> dict[str, str]:
    if controller == "memory":
        amount = str(int(value))
        if version == 1:
            return {"memory.limit_in_bytes": amount, "memory.memsw.limit_in_bytes": amount}
        return {"memory.max": amount, "memory.swap.max": "0", "memory.oom.group": "1"}
    if controller == "cpu":
        quota = str(max(1000, int(value * _PERIOD)))
        if version == 1:
            return {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": quota}
        return {"cpu.max": f"{quota} {_PERIOD}"}
    return {"pids.max": str(int(value))}


def available(engine: int) -> dict[str, Hierarchy]:
    """The hierarchies in which groups can be made now. To be called outside of any new pid namespace."""
    try:
        found = find(mount_table.read_lines("/proc/self/mountinfo"), mount_table.read_lines("/proc/self/cgroup"))
    except OSError:
        # A kernel without groups has no such file, and a container may cover it.
        return {}
    unified = {hierarchy.parent for hierarchy in found.values() if hierarchy.version != 1}
    passed_on = {parent: pass_on(parent, {engine, os.getpid()}) for parent in unified}
    return {
        name: hierarchy
        for name, hierarchy in found.items()
        if os.access(hierarchy.parent, os.W_OK) and (hierarchy.version == 1 or name in passed_on[hierarchy.parent])
    }


def pass_on(parent: str, own: set[int]) -> set[str]:
    """The controllers that groups below `parent` have, after trying to have all that we know."""
    passed_on = f"{parent}/cgroup.subtree_control"
    try:
        wanted = set(_words(f"{parent}/cgroup.controllers")) & set(CONTROLLERS)
        if not wanted <= set(_words(passed_on)) and os.access(parent, os.W_OK):
            _make_room(parent, own)
            with contextlib.suppress(OSError):
                # Somebody else's processes are in there, or it is not ours to change: what is passed on must do.
                _write(passed_on, " ".join(f"+{name}" for name in sorted(wanted)))
        return set(_words(passed_on))
    except OSError:
        return set()


def _make_room(parent: str, own: set[int]) -> None:
    inside = set(map(int, _words(f"{parent}/cgroup.procs")))
    if inside and inside <= own:
        os.makedirs(f"{parent}/{_ENGINE_GROUP}", exist_ok=True)
        for process in inside:
            _write(f"{parent}/{_ENGINE_GROUP}/cgroup.procs", str(process))


def _words(path: str) -> Iterable[str]:
    with open(path) as file:
        return file.read().split()


def _write(path: str, value: str) -> None:
    with open(path, "w") as file:
        file.write(value)


def _remove(directory: str) -> None:
    try:
        os.rmdir(directory)
    except OSError:
        # Somebody is still dying in there. The keeper tries again at the end.
        return

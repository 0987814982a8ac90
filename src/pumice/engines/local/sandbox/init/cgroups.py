"""Limits by control groups, where this process may create them: as root, or in a subtree delegated by systemd.

Supports versions 1 and 2. New groups are created below the one of this process, so limits set on Pumice itself apply
to its pods too. In version 2, a group that contains processes cannot delegate controllers: if the engine is alone in
its group, it first moves into a child group.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import NamedTuple, Self

from pumice.engines.local.sandbox import kernel_files
from pumice.engines.local.sandbox.sandbox_errors import LIMITS, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec

CONTROLLERS = ("memory", "cpu", "pids")
_ENGINE_GROUP = "pumice-engine"
_PERIOD = 100_000


class Hierarchy(NamedTuple):
    """The group below which new groups for one controller are created."""

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
        root, mounted = before.split(" ")[3], kernel_files.mount_point(line)
        # The source may be empty.
        kind, _, options = after.split(" ")[:3]
        if kind == "cgroup2":
            unified = _below(mounted, root, paths.get("", "/"))
        elif kind == "cgroup":
            for name in set(CONTROLLERS) & set(options.split(",")):
                found[name] = Hierarchy(_below(mounted, root, paths.get(name, "/")), 1)
    if unified:
        parent = os.path.dirname(unified) if os.path.basename(unified) == _ENGINE_GROUP else unified
        for name in CONTROLLERS:
            found.setdefault(name, Hierarchy(parent, 2))
    return found


def _below(mounted: str, root: str, path: str) -> str:
    relative = os.path.relpath(path, root)
    return mounted if relative == "." or relative.startswith("..") else f"{mounted}/{relative}"


class GroupLimits(NamedTuple):
    memory: int | None = None  # bytes
    cpu: float | None = None
    pids: int | None = None  # of the pod
    pod: str = ""

    @classmethod
    def of(cls, spec: ContainerSpec) -> Self:
        return cls(spec.memory, spec.cpu_quota, spec.pids, spec.pod)


class Cgroups:
    def __init__(self, name: str, hierarchies: dict[str, Hierarchy]) -> None:
        self._name = name
        self._hierarchies = hierarchies
        self._made = 0
        self._pods: dict[str, int] = {}

    @property
    def controllers(self) -> list[str]:
        return sorted(self._hierarchies)

    def group(self, limits: GroupLimits) -> Group:
        """Create a group with the limits that this machine supports; empty if there are none.

        The containers of a pod share the limit of processes.
        """
        self._made += 1
        group = Group()
        own = f"pumice-{self._name}-{self._made}"
        for controller, limit in (("pids", limits.pids), ("memory", limits.memory), ("cpu", limits.cpu)):
            hierarchy = self._hierarchies.get(controller)
            if limit is not None and hierarchy is not None:
                try:
                    if controller == "pids":
                        number = self._pods.setdefault(limits.pod, len(self._pods))
                        group.limit_pod(hierarchy, f"pumice-{self._name}-pod{number}", own, int(limit))
                    else:
                        group.limit(hierarchy, own, controller, limit)
                except OSError as error:
                    group.remove()
                    raise StartError(LIMITS, f"cannot limit {controller} to {limit}: {error.strerror}") from error
        return group

    def remove_all(self) -> None:
        """Remove what is left of this job, which is nothing unless job-init was killed."""
        _remove_all(self._name, self._hierarchies)


def remove_groups(name: str) -> None:
    """Remove what is left of a job whose processes were all killed."""
    with contextlib.suppress(OSError):
        _remove_all(name, _find_own())


def _remove_all(name: str, hierarchies: dict[str, Hierarchy]) -> None:
    for parent in {hierarchy.parent for hierarchy in hierarchies.values()}:
        for entry in os.listdir(parent):
            if entry.startswith(f"pumice-{name}-"):
                for inner in os.scandir(f"{parent}/{entry}"):
                    if inner.is_dir(follow_symlinks=False):
                        _remove(inner.path)
                _remove(f"{parent}/{entry}")


def _find_own() -> dict[str, Hierarchy]:
    """Raises OSError where the kernel has no control groups, or a container covers the files that list them."""
    return find(kernel_files.read_lines("/proc/self/mountinfo"), kernel_files.read_lines("/proc/self/cgroup"))


class Group:
    """The groups of one container: a directory for each hierarchy."""

    def __init__(self) -> None:
        self.directories: list[str] = []  # that the processes join
        self.memory = ""  # the file that counts how often memory ran out
        self.limits_processes = False
        self._pod = ""  # in version 2, the group of the pod that contains this one

    @property
    def limits_memory(self) -> bool:
        return bool(self.memory)

    def open_members(self) -> list[int]:
        """Return descriptors to which a process writes "0" to join the group."""
        return [os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for path in self.directories]

    def limit_pod(self, hierarchy: Hierarchy, pod: str, name: str, pids: int) -> None:
        """Limit the processes of a pod. In version 2 a process is in one group only, so the container's is inside."""
        directory = f"{hierarchy.parent}/{pod}"
        if not os.path.isdir(directory):
            _make(directory)
        kernel_files.write(f"{directory}/pids.max", str(pids))
        self.limits_processes = True
        if hierarchy.version == 1:
            self.directories.append(directory)
            return
        self._pod = directory
        delegate(directory, set())
        _make(f"{directory}/{name}")
        self.directories.append(f"{directory}/{name}")

    def limit(self, hierarchy: Hierarchy, name: str, controller: str, value: float) -> None:
        directory = f"{self._pod if self._pod and hierarchy.version != 1 else hierarchy.parent}/{name}"
        if directory not in self.directories:
            _make(directory)
            self.directories.append(directory)
        settings = _settings(controller, value, hierarchy.version)
        for file, content in settings.items():
            if file in _OPTIONAL and not os.path.exists(f"{directory}/{file}"):
                continue
            kernel_files.write(f"{directory}/{file}", content)
        if controller == "memory":
            self.memory = f"{directory}/{'memory.oom_control' if hierarchy.version == 1 else 'memory.events'}"

    def out_of_memory(self) -> bool:
        if not self.memory:
            return False
        counts = dict(line.split()[:2] for line in kernel_files.read_lines(self.memory))
        return int(counts.get("oom_kill", 0)) > 0

    def oom_event(self) -> int | None:
        """A descriptor that becomes readable when memory runs out; None in version 2, which kills the whole group."""
        if not self.memory.endswith("memory.oom_control"):
            return None
        descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            with open(self.memory) as file:
                kernel_files.write(
                    f"{os.path.dirname(self.memory)}/cgroup.event_control", f"{descriptor} {file.fileno()}"
                )
        except OSError:
            # Not supported by this kernel. It still kills, and `out_of_memory` reads the count at the end.
            os.close(descriptor)
            return None
        return descriptor

    def remove(self) -> None:
        # Another container of the pod may still be in the pod's group; then the kernel keeps it.
        for directory in (*self.directories, *([self._pod] if self._pod else [])):
            _remove(directory)
        self.directories = []


# Absent where swap accounting is off.
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
    """The hierarchies in which groups can be created now. Call it outside of any new pid namespace."""
    try:
        found = _find_own()
    except OSError:
        return {}
    unified = {hierarchy.parent for hierarchy in found.values() if hierarchy.version != 1}
    delegated = {parent: delegate(parent, {engine, os.getpid()}) for parent in unified}
    return {
        name: hierarchy
        for name, hierarchy in found.items()
        if os.access(hierarchy.parent, os.W_OK) and (hierarchy.version == 1 or name in delegated[hierarchy.parent])
    }


def delegate(parent: str, own: set[int]) -> set[str]:
    """Enable all known controllers for the groups below `parent` if possible; return those that are enabled."""
    enabled = f"{parent}/cgroup.subtree_control"
    try:
        wanted = set(_words(f"{parent}/cgroup.controllers")) & set(CONTROLLERS)
        if not wanted <= set(_words(enabled)) and os.access(parent, os.W_OK):
            inside = set(map(int, _words(f"{parent}/cgroup.procs")))
            if inside and inside <= own:
                os.makedirs(f"{parent}/{_ENGINE_GROUP}", exist_ok=True)
                for process in inside:
                    kernel_files.write(f"{parent}/{_ENGINE_GROUP}/cgroup.procs", str(process))
            with contextlib.suppress(OSError):
                # Refused if other processes are in the group: then what is enabled already must do.
                kernel_files.write(enabled, " ".join(f"+{name}" for name in sorted(wanted)))
        return set(_words(enabled))
    except OSError:
        return set()


def _words(path: str) -> list[str]:
    return kernel_files.read(path).split()


def _remove(directory: str) -> None:
    with contextlib.suppress(OSError):
        # A process in it may still be dying. The supervisor tries again at the end.
        os.rmdir(directory)


def _make(directory: str) -> None:
    """Make a group that all may read: pid 1 of the job, another user in a run by root, reads its counts."""
    os.mkdir(directory)
    os.chmod(directory, 0o755)  # noqa: S103 - of a directory of the kernel; the umask of the caller may be 077

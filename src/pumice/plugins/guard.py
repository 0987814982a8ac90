"""Guard third-party plugins: report what they raise under the plugin's name.

An exception in a built-in plugin is a bug in Pumice and stays visible. One in a third-party plugin must not stop the
program or other jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from pumice.model.findings import Finding, Path
from pumice.model.job import Job, Manifest
from pumice.model.objects import Once, OwnedObject
from pumice.model.pod import Pod
from pumice.model.slot import Slot
from pumice.plugins.base import Base, PluginError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Guarded(Base):
    name: ClassVar[str] = "guarded"
    inner: Base

    def check(self, job: Job) -> Iterable[Finding]:
        try:
            return _run(self.inner, lambda: [_checked_finding(found) for found in self.inner.check(self._own(job))])
        except PluginError as error:
            return [error.finding()]

    def objects(self, job: Job) -> Iterable[OwnedObject]:
        return _run(self.inner, lambda: [_checked_object(made) for made in self.inner.objects(self._own(job))])

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        copy = Pod(deepcopy(pod.manifest))
        return _run(self.inner, lambda: _checked_pod(pod, self.inner.shape_pod(copy, self._own_slot(slot))))

    def why(self, slot: Slot) -> Mapping[str, str]:
        return _run(self.inner, lambda: dict(self.inner.why(self._own_slot(slot))))

    def _own(self, job: Job) -> Job:
        """Return a copy for this plugin, so that editing it in place has no effect on others."""
        return job.derived(("own copy", self.name), deepcopy)

    def _own_slot(self, slot: Slot) -> Slot:
        job = self._own(slot.job)
        return Slot(job, job.task(slot.task.name) or slot.task, slot.index)


def guarded(kind: type[Base], args: Sequence[str]) -> tuple[Base | None, list[Finding]]:
    """Parse the arguments of a third-party plugin; None if that fails."""

    def parse() -> tuple[Base, list[Finding]]:
        plugin, findings = kind.parse(args)
        return guard(plugin), [_checked_finding(found) for found in findings]

    try:
        return _run(kind, parse)
    except PluginError as error:
        return None, [error.finding()]


def guard(plugin: Base) -> Base:
    # `name` is an attribute of the class, and the guard must have the name of its plugin.
    kind = type("Guarded", (_Guarded,), {"name": plugin.name, "requires": plugin.requires, "__slots__": ()})
    guarded_plugin: Base = kind(plugin)
    return guarded_plugin


def _run(plugin: Base | type[Base], hook: Callable[[], T]) -> T:
    try:
        return hook()
    except (Exception, SystemExit) as error:
        raise PluginError(plugin.name, f"{type(error).__name__}: {error}") from error


def _checked_finding(found: object) -> Finding:
    if not isinstance(found, Finding) or not isinstance(found.path, Path):
        raise TypeError("a finding must be a pumice.Finding with a pumice.Path")
    return found


def _checked_object(made: object) -> OwnedObject:
    manifest = made.manifest if isinstance(made, Once) else _mapping(made, "an object")
    _plain(manifest)
    metadata = _mapping(manifest.get("metadata"), "metadata")
    needed = (manifest.get("apiVersion"), manifest.get("kind"), metadata.get("name"))
    if not all(isinstance(text, str) for text in needed):
        raise TypeError("an object needs apiVersion, kind and metadata.name")
    for field in ("data", "stringData"):
        if not all(isinstance(value, str) for value in _mapping(manifest.get(field) or {}, field).values()):
            raise TypeError(f"{field} must hold strings")
    return made if isinstance(made, Once) else manifest


def _checked_pod(before: Pod, after: object) -> Pod:
    if not isinstance(after, Pod):
        raise TypeError(f"shape_pod must return a Pod, it returned a {type(after).__name__}")
    _plain(after.manifest)
    for field in ("containers", "initContainers"):
        own = [container["name"] for container in before.spec.get(field) or []]
        if [container["name"] for container in after.spec.get(field) or []][: len(own)] != own:
            raise ValueError(f"{field} of the pod were removed, renamed or moved")
        for container in after.spec.get(field) or []:
            # The keys by which later steps read the pod.
            for entries, key in (("env", "name"), ("ports", "containerPort"), ("volumeMounts", "mountPath")):
                if not all(isinstance(entry, dict) and key in entry for entry in container.get(entries) or []):
                    raise ValueError(f"{entries} of container {container['name']} has an entry without {key}")
    if after.name != before.name:
        raise ValueError("the pod was renamed")
    return after


def _mapping(value: object, what: str) -> Manifest:
    if not isinstance(value, dict):
        raise TypeError(f"{what} must be a mapping, not a {type(value).__name__}")
    return value


def _plain(value: object) -> None:
    """Check that a value can be written as JSON."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} must be a string")
            _plain(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _plain(item)
    elif value is not None and not isinstance(value, str | int | float):
        raise TypeError(f"a {type(value).__name__} cannot be written as YAML")

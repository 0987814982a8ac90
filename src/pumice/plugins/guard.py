"""A fence around plugins of third parties: whatever they raise is reported under their name.

A built-in plugin that raises is a defect of Pumice and should be seen as one. A third party's must not take the
program, or other people's jobs, down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from pumice.model.findings import SPEC, Finding
from pumice.model.job import Job
from pumice.model.objects import Companion, Once
from pumice.model.pod import Pod
from pumice.model.slot import Slot
from pumice.plugins.base import Base

T = TypeVar("T")


class PluginError(Exception):
    """A third party's plugin failed while a pod or an object was being made."""

    def __init__(self, plugin: str, problem: str) -> None:
        super().__init__(f"plugin {plugin} failed: {problem}")
        self.plugin = plugin

    def finding(self) -> Finding:
        return Finding(SPEC / "plugins" / self.plugin, str(self))


@dataclass(frozen=True, slots=True)
class _Guarded(Base):
    name: ClassVar[str] = "guarded"
    inner: Base

    def check(self, job: Job) -> Iterable[Finding]:
        try:
            return _run(self.inner, lambda: _all_of(self.inner.check(job), Finding))
        except PluginError as error:
            return [error.finding()]

    def objects(self, job: Job) -> Iterable[Companion]:
        return _run(self.inner, lambda: _all_of(self.inner.objects(job), (dict, Once)))

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        return _run(self.inner, lambda: _all_of([self.inner.shape_pod(pod, slot)], Pod)[0])

    def why(self, slot: Slot) -> Mapping[str, str]:
        return _run(self.inner, lambda: dict(self.inner.why(slot)))


def guarded(kind: type[Base], args: Sequence[str]) -> tuple[Base | None, list[Finding]]:
    """Parse a third party's plugin; None where not even that works."""
    try:
        plugin, findings = _run(kind, lambda: kind.parse(args))
    except PluginError as error:
        return None, [error.finding()]
    return fence(plugin), findings


def fence(plugin: Base) -> Base:
    # The fence must answer to the plugin's own name, and `name` belongs to the class.
    kind = type("Guarded", (_Guarded,), {"name": plugin.name, "requires": plugin.requires, "__slots__": ()})
    fenced: Base = kind(plugin)
    return fenced


def _run(plugin: Base | type[Base], hook: Callable[[], T]) -> T:
    try:
        return hook()
    except Exception as error:
        raise PluginError(plugin.name, f"{type(error).__name__}: {error}") from error


def _all_of(values: Iterable[T], kind: type | tuple[type, ...]) -> list[T]:
    checked = list(values)
    for value in checked:
        if not isinstance(value, kind):
            raise TypeError(f"gave a {type(value).__name__}")
    return checked

"""The registry of plugins: which exist, in which order they run, and which of them a job uses.

Built-in plugins run in the order of this list, then third-party plugins by name, so that the same YAML always gives the
same pod. The caller discovers third-party plugins, and passes those that failed to load as `broken`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

import pumice.plugins
from pumice.model.findings import SPEC, Finding
from pumice.model.suggestions import nearest
from pumice.plugins.base import Base

# By the class of each, which the package knows.
_CLASSES: Final = {
    "env": "Env",
    "svc": "Svc",
    "ssh": "Ssh",
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "mpi": "Mpi",
    "ray": "Ray",
    "hcclrank": "HcclRank",
}


class _Builtins(Mapping[str, type[Base]]):
    """The module of a plugin is loaded when a job names it: to load all takes a tenth of `pumice validate`."""

    def __getitem__(self, name: str) -> type[Base]:
        kind: type[Base] = getattr(pumice.plugins, _CLASSES[name])
        return kind

    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


BUILTINS: Final[Mapping[str, type[Base]]] = _Builtins()


class Resolved(Struct, frozen=True):
    """The plugins of one job in their order, and findings about their names and arguments."""

    plugins: tuple[Base, ...]
    findings: tuple[Finding, ...]


class Registry(Struct, frozen=True):
    """`third_party` and `broken` are read only for a job that names a plugin which is not built in."""

    third_party: Mapping[str, type[Base]] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)  # name -> error

    @property
    def plugins(self) -> dict[str, type[Base]]:
        return {**BUILTINS, **{name: self.third_party[name] for name in sorted(self.third_party)}}

    def _candidates(self, wanted: Iterable[str]) -> Mapping[str, type[Base]]:
        """Return all plugins, or only those that are built in, if the job names no other: they require no other."""
        return BUILTINS if all(name in BUILTINS for name in wanted) else self.plugins

    def with_required(self, wanted: Mapping[str, Sequence[str] | None]) -> dict[str, Sequence[str]]:
        """Return the requested plugins, followed by the plugins that they require."""
        known = self._candidates(wanted)
        complete: dict[str, Sequence[str]] = {name: args or [] for name, args in wanted.items()}
        waiting = list(complete)
        while waiting:
            name = waiting.pop(0)
            missing = [need for need in known[name].requires if need not in complete] if name in known else []
            complete |= dict.fromkeys(missing, ())
            waiting += missing
        return complete

    def resolve(self, complete: Mapping[str, Sequence[str] | None]) -> Resolved:
        """Return the plugins of a job that has its defaults, and so those that others require."""
        known = self._candidates(complete)
        findings = [self._unknown(name) for name in complete if name not in known]
        plugins = []
        for name in known:
            if name in complete:
                kind, args = known[name], complete[name] or ()
                plugin: Base | None
                if name in BUILTINS:
                    plugin, problems = kind.parse(args)
                else:
                    from pumice.plugins.guard import guarded  # noqa: PLC0415 - few jobs name such a plugin

                    plugin, problems = guarded(kind, args)
                findings += problems
                plugins += [plugin] if plugin is not None else []
        return Resolved(tuple(plugins), tuple(findings))

    def _unknown(self, name: str) -> Finding:
        at = SPEC / "plugins" / name
        if name in self.broken:
            return Finding(at, f"plugin {name} is installed but cannot be used: {self.broken[name]}")
        close = nearest(name, self.plugins)
        asked = f"did you mean {close}? " if close is not None else ""
        own = "" if asked else "; a plugin of your own needs an entry point in the group pumice.plugins"
        return Finding(at, "unknown plugin", hint=f"{asked}there are {', '.join(self.plugins)} (pumice plugins){own}")

"""The base class of plugins: a frozen dataclass whose fields are its options, with up to four pure hooks.

`check` yields findings about a job, `objects` yields the owned objects that should exist, `shape_pod` returns a changed
pod, and `why` explains what the plugin adds to a pod. A plugin has no client and no state, and does not depend on the
order of plugins. Third parties subclass `Base` and register the class in the entry-point group `pumice.plugins`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from pumice.model.findings import SPEC, Finding, InvalidJob, Path
from pumice.model.job import Job
from pumice.model.objects import OwnedObject
from pumice.model.pod import Pod
from pumice.model.problem import Problem
from pumice.model.pumice_error import PumiceError
from pumice.model.slot import Slot
from pumice.plugins.arguments import Arguments, Option, Value

# The options of each plugin. Evaluating annotations costs more than parsing arguments.
_OPTIONS: Final[dict[type, tuple[Option, ...]]] = {}


class PluginError(PumiceError):
    """A third-party plugin failed while it created a pod or an object."""

    def __init__(self, plugin: str, problem: str) -> None:
        super().__init__(f"plugin {plugin} failed: {problem}")
        self.plugin = plugin

    def finding(self) -> Finding:
        return Finding(SPEC / "plugins" / self.plugin, str(self))


@dataclass(frozen=True, slots=True)
class Base:
    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    requires: ClassVar[tuple[str, ...]] = ()
    example: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        if cls not in _OPTIONS:
            hints = typing.get_type_hints(cls)
            _OPTIONS[cls] = tuple(_option_of(field, hints[field.name]) for field in dataclasses.fields(cls))
        return _OPTIONS[cls]

    @classmethod
    def parse(cls, args: Sequence[str], at: Path | None = None) -> tuple[Self, list[Finding]]:
        """Return the plugin with its arguments; wrong ones are reported and keep their default."""
        arguments = Arguments(cls.name, cls.options(), at or SPEC / "plugins" / cls.name)
        values, findings = arguments.parse(args)
        fields = {field.name: values[_flag(field)] for field in dataclasses.fields(cls) if _flag(field) in values}
        return cls(**fields), findings

    def args(self) -> list[str]:
        """Return the arguments from which `parse` makes this plugin. Raises InvalidJob if there are none."""
        values = {_flag(field): getattr(self, field.name) for field in dataclasses.fields(self)}
        given = [each for each in self.options() if values[each.flag] is not None and values[each.flag] != each.default]
        args = [each.written(values[each.flag]) for each in given]
        parsed, findings = self.parse(args)
        if any(finding.is_error for finding in findings):
            raise InvalidJob(findings, [self._problem(given, finding) for finding in findings if finding.is_error])
        if parsed != self:
            raise InvalidJob([Finding(SPEC / "plugins" / self.name, "has a value that no argument can express")])
        return args

    def _problem(self, given: Sequence[Option], finding: Finding) -> Problem:
        """Return a finding about an argument as a problem of the object that was made with it."""
        names = {_flag(field): field.name for field in dataclasses.fields(self)}
        index = finding.path[-1]
        if not isinstance(index, int) or given[index].secret:
            return Problem(f"{type(self).__name__}: {finding.message}")
        name = names[given[index].flag]
        return Problem(f"{type(self).__name__}({name}={getattr(self, name)!r}): {finding.message}")

    def check(self, job: Job) -> Iterable[Finding]:
        return ()

    def objects(self, job: Job) -> Iterable[OwnedObject]:
        return ()

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        return pod

    def why(self, slot: Slot) -> Mapping[str, str]:
        """Return reasons by addition: `env NAME`, `port NUMBER`, `mount PATH`, `volume NAME`, `init NAME`, ..."""
        return {}


def option(default: Value | None, help: str, **more: Any) -> Any:  # noqa: A002 - the word that every option parser uses
    """Declare an option of a plugin as a dataclass field; `Option` lists the keyword arguments."""
    return dataclasses.field(default=default, metadata={"help": help, **more})


def port_option(default: int, help: str, **more: Any) -> Any:  # noqa: A002 - as above
    return option(default, help, low=1, high=65535, **more)


def _flag(field: dataclasses.Field[Any]) -> str:
    flag: str = field.metadata.get("flag") or field.name.replace("_", "-")
    return flag


def _option_of(field: dataclasses.Field[Any], hint: Any) -> Option:
    # `int | None` is an optional int.
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    kinds = [kind for kind in (typing.get_args(hint) if is_union else [hint]) if kind is not types.NoneType]
    if len(kinds) != 1 or kinds[0] not in (str, int, bool):
        raise TypeError(f"option {field.name}: its type must be str, int or bool")
    if field.default is dataclasses.MISSING:
        raise TypeError(f"option {field.name}: it must have a default")
    more = {key: value for key, value in field.metadata.items() if key != "flag"}
    return Option(flag=_flag(field), type=kinds[0], default=field.default, **more)

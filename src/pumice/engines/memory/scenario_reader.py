"""Reads scenario files from plain data. Everything that is wrong becomes a finding; nothing is guessed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import inspect, structs

from pumice.engines.memory.scenario import (
    FIELDS,
    HORIZON,
    MOST_STEPS,
    Expectation,
    Expected,
    ExpectStep,
    Scenario,
    ScenarioFile,
    Span,
    Step,
)
from pumice.model.codec import struct_types
from pumice.model.duration import Duration, DurationError
from pumice.model.findings import ABSENT, ROOT, Finding, Path
from pumice.model.job import Job
from pumice.model.pod import all_containers
from pumice.model.shape import ObjectType, misfits
from pumice.model.slot import Slot
from pumice.model.suggestions import did_you_mean
from pumice.plugins.base import Base
from pumice.plugins.shaping import shaped_pod

_TYPES: Final = struct_types(ScenarioFile, ExpectStep, Step, integer="int64")
_STEP_TYPES: Final = {
    kind: ObjectType(
        {name: _TYPES["Step"].fields[name] for name in fields},
        tuple(name for name in ("at", "pod") if name in fields and kind != "pods"),
    )
    for kind, fields in FIELDS.items()
}
_SCHEMA: Final = {**_TYPES, **_STEP_TYPES, "Eviction": ObjectType({"exit": "int64"}, ("exit",))}
_KINDS: Final = (*FIELDS, "expect")
_EXAMPLES: Final = {
    "at": "30s",
    "capacity": "{pods: 4}",
    "expect": "{phase: Completed}",
    "scale": "{worker: 4}",
    "steps": "[{at: 30s, pod: worker-1, exit: 1}]",
}
# Numbers that may be seconds without their unit.
_MOST_SECONDS: Final = 10**9

Values = dict[str, Any]


@dataclass(slots=True)
class ScenarioReader:
    """Reads one scenario for one job; `findings` are its errors."""

    job: Job
    plugins: Sequence[Base] = ()
    findings: list[Finding] = field(default_factory=list)
    _misfits: set[Path] = field(default_factory=set)
    _replicas: dict[str, int] = field(default_factory=dict)  # the most that each task has, after any scale step

    def read(self, document: object) -> Scenario:
        if not isinstance(document, Mapping):
            self._error(ROOT, "a scenario must be a mapping with steps", document)
            return Scenario()
        if "apiVersion" in document:
            self._error(ROOT, "this is no scenario", hint="the Job goes first: pumice simulate JOB -s SCENARIO")
            return Scenario()
        values = self._values(ScenarioFile, "ScenarioFile", document, ROOT)
        raw_steps = values.get("steps", [])
        if len(raw_steps) > MOST_STEPS:
            self._error(ROOT / "steps", f"{len(raw_steps)} steps: a scenario may have at most {MOST_STEPS}")
            return Scenario()
        self._replicas = _most_replicas(self.job, raw_steps)
        steps = [self._step(raw, ROOT / "steps" / position) for position, raw in enumerate(raw_steps)]
        return Scenario(
            description=values.get("description", ""),
            seed=values.get("seed", 0),
            capacity=values.get("capacity", {}).get("pods"),
            steps=tuple(sorted((step for step in steps if isinstance(step, Step)), key=lambda step: step.at)),
            expectations=tuple(step for step in steps if isinstance(step, Expectation)),
        )

    def _step(self, raw: object, at: Path) -> Step | Expectation | None:
        if not isinstance(raw, Mapping):
            self._error(at, "a step must be a mapping such as {at: 30s, pod: worker-1, exit: 1}", raw)
            return None
        before = len(self.findings)
        kind = self._kind_of(raw, at)
        if kind == "expect":
            values = self._values(ExpectStep, "ExpectStep", raw, at)
            parts = self._expected(values, at) if "expect" in values else {}
            return Expectation(parts, values.get("at"), values.get("by"))
        if kind is not None:
            values = self._values(Step, kind, raw, at)
            self._check(values, at)
        return Step(kind=kind, **values) if kind is not None and len(self.findings) == before else None

    def _kind_of(self, raw: Mapping[Any, Any], at: Path) -> str | None:
        """The kind of a step follows from the one field that decides it; `exit` beside `pods` is how they behave."""
        kinds = [kind for kind in _KINDS if kind in raw and not (kind == "exit" and "pods" in raw)]
        if not kinds and "signal" in raw:
            return "exit"
        if len(kinds) == 1:
            return kinds[0]
        if kinds:
            self._error(at, f"says {len(kinds)} things at once: {', '.join(kinds)}", hint="make it a step each")
            return None
        hints = (did_you_mean(str(key), _KINDS) for key in raw if key not in ("at", "pod"))
        message = f"does not say what happens; one of {', '.join(FIELDS)}, or what to expect"
        self._error(at, message, hint=next(filter(None, hints), ""))
        return None

    def _values(self, struct: type, type_: str, raw: Mapping[Any, Any], at: Path) -> Values:
        """The fields whose values have the right form, converted; a finding for each of the others."""
        for misfit in misfits(raw, type_, _SCHEMA, at):
            example = {"pod": self._some_pod(), **_EXAMPLES}.get(str(misfit.path[-1]))
            hint = misfit.hint or (f"such as {misfit.path[-1]}: {example}" if example else "")
            self.findings.append(structs.replace(misfit, hint=hint))
            self._misfits.add(misfit.path)
        return self._converted(inspect.type_info(struct), raw, at)

    def _converted(self, struct: inspect.Type, raw: Mapping[Any, Any], at: Path) -> Values:
        assert isinstance(struct, inspect.StructType)  # noqa: S101 - the steps and their parts are structs
        return {
            one.name: self._value(one.type, raw[one.encode_name], at / one.encode_name)
            for one in struct.fields
            if raw.get(one.encode_name) is not None and at / one.encode_name not in self._misfits
        }

    def _value(self, type_: inspect.Type, value: Any, at: Path) -> Any:
        one_of: Sequence[str] = ()
        while isinstance(type_, inspect.Metadata | inspect.UnionType):
            if isinstance(type_, inspect.Metadata):
                one_of = (type_.extra or {}).get("one_of", one_of)
                type_ = type_.type
            else:
                type_ = next(part for part in type_.types if not isinstance(part, inspect.NoneType))
        match type_:
            case inspect.StructType():
                return self._converted(type_, value, at)
            case inspect.DictType(value_type=inner):
                return {
                    name: self._value(inner, item, at / name)
                    for name, item in value.items()
                    if isinstance(name, str) and at / name not in self._misfits
                }
            case inspect.TimeDeltaType():
                return self._duration(value, at)
            case inspect.DataclassType():
                return self._span(value, at)
            case inspect.IntType():
                self._check_bounds(value, type_, at)
            case inspect.StrType():
                self._check_text(value, type_.max_length, one_of, at)
        return value

    def _error(self, at: Path, message: str, value: object = ABSENT, hint: str = "") -> None:
        self.findings.append(Finding(at, message, value, hint))

    # --- values

    def _check_bounds(self, value: int, type_: inspect.IntType, at: Path) -> None:
        least, most = type_.ge, type_.le
        if (least is not None and value < least) or (most is not None and value > most):
            bounds = f"must be {least} or more" if most is None else f"must be between {least} and {most}"
            self._error(at, bounds, value)

    def _check_text(self, value: str, longest: int | None, one_of: Sequence[str], at: Path) -> None:
        if one_of and value not in one_of:
            self._error(at, f"must be one of {', '.join(one_of)}", value, did_you_mean(value, one_of))
        elif longest is not None and len(value) > longest:
            self._error(at, f"must be at most {longest} characters", value)
        elif not all(char.isprintable() or char == "\n" for char in value):
            self._error(at, "must be printable", value)

    def _duration(self, value: object, at: Path) -> dt.timedelta:
        try:
            duration = Duration.parse(value).timedelta
        except DurationError as error:
            seconds = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_SECONDS
            self._error(at, error.message, value, f"did you mean {value}s?" if seconds else error.hint)
            return dt.timedelta()
        if duration < dt.timedelta():
            self._error(at, "must not be negative", value)
        elif duration > HORIZON:
            self._error(at, f"must be at most {HORIZON // dt.timedelta(hours=1)}h", value)
        return duration

    def _span(self, value: object, at: Path) -> Span:
        """A duration, or two of them: `50s..70s`."""
        if not (isinstance(value, str) and ".." in value):
            same = self._duration(value, at)
            return Span(same, same)
        before = len(self.findings)
        first, last = (self._duration(part.strip(), at) for part in value.split("..", 1))
        if last < first and len(self.findings) == before:
            self._error(at, "must begin with the shorter one", value)
        return Span(first, last)

    # --- what a step names in the job

    def _check(self, values: Values, at: Path) -> None:
        if "pod" in values:
            self._check_pod(values["pod"], at / "pod", "no such pod in this job")
        if "pods" in values:
            self._check_selector(values["pods"], at / "pods")
            self._check_behaviour(values, at)
        if "container" in values:
            self._check_container(values, at)
        if "evict" in values:
            self._check_eviction(values, at / "evict")
        if values.get("controller") == "up" and "duration" in values:
            self._error(at / "for", "goes with controller: down")
        if "scale" in values:
            self._check_scale(values["scale"], at / "scale")

    def _check_behaviour(self, values: Values, at: Path) -> None:
        if "reason" in values and "exit" not in values:
            self._error(at / "reason", "goes with exit, which is missing")
        elif not {"run", "exit", "start", "stop"} & set(values):
            self._error(at, "does not say how the pods behave; run, exit, start or stop")

    def _check_container(self, values: Values, at: Path) -> None:
        name, task = values["container"], self.job.task(str(values.get("pod")).rpartition("-")[0])
        if task is not None:
            spec = shaped_pod(Slot(self.job, task, 0), self.plugins).spec
            known = [container["name"] for container in all_containers(spec)]
            if name not in known:
                hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
                self._error(at / "container", f"no such container in a pod of {task.name}", name, hint)

    def _check_eviction(self, values: Values, at: Path) -> None:
        how = values.pop("evict")
        if isinstance(how, Mapping):
            values |= self._values(Step, "Eviction", how, at)
        elif how is not True:
            self._error(at, "must be true, or {exit: 143} for a pod that fails while it is deleted", how)

    def _check_scale(self, scale: Mapping[str, int], at: Path) -> None:
        if not scale and not self._is_misfit_below(at):
            self._error(at, "must name a task, such as {worker: 4}")
        names = self.job.task_names
        for name in scale:
            task = self.job.task(name)
            if task is None:
                hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
                self._error(at / name, "no such task", hint=hint)
            elif task.partition_policy is not None:
                self._error(at / name, "a task with a partitionPolicy cannot be scaled")

    def _expected(self, values: Values, at: Path) -> dict[str, object]:
        expected = Expected(**values["expect"])
        if not values["expect"] and not self._is_misfit_below(at / "expect"):
            self._error(at / "expect", "must say what is expected, such as {phase: Completed}")
        for name in expected.pods:
            self._check_selector(name, at / "expect" / "pods" / name)
        if "at" in values and "by" in values and values["by"] < values["at"]:
            self._error(at / "by", "must not be before at")
        return expected.parts()

    def _is_misfit_below(self, at: Path) -> bool:
        return any(path[: len(at)] == at for path in self._misfits)

    def _check_selector(self, name: str, at: Path) -> None:
        names = ["*", *self.job.task_names]
        if name not in names:
            self._check_pod(name, at, "must be *, a task or a pod", names)

    def _check_pod(self, name: str, at: Path, message: str, names: Sequence[str] = ()) -> None:
        owner, _, index = name.rpartition("-")
        count = self._replicas.get(owner, 0)
        is_plain = index.isascii() and index.isdecimal() and str(int(index[:9])) == index
        if is_plain and int(index) < count:
            return
        if count and is_plain:
            hint = f"pods of {owner} are {owner}-0 to {owner}-{count - 1}"
            if count == 1:
                hint = f"the only pod of {owner} is {owner}-0"
        else:
            known = [f"{task}-{number}" for task, most in self._replicas.items() for number in range(min(most, 100))]
            hint = did_you_mean(name, [*names, *known]) or f"pods are called {self._some_pod()}"
        self._error(at, message, name, hint)

    def _some_pod(self) -> str:
        return f"{self.job.spec.tasks[-1].name}-0"


def _most_replicas(job: Job, steps: Sequence[Any]) -> dict[str, int]:
    most = {task.name: task.replicas for task in job.spec.tasks}
    for step in steps:
        wanted = step.get("scale") if isinstance(step, Mapping) else None
        for name, replicas in wanted.items() if isinstance(wanted, Mapping) else ():
            if str(name) in most and isinstance(replicas, int):
                most[str(name)] = max(most[str(name)], replicas)
    return most

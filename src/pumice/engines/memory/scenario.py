"""Scenario files: what happens to a job's pods, and when; read from plain data, with findings for what is wrong."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.model.duration import Duration
from pumice.model.findings import ROOT, Finding, Path
from pumice.model.job import Job
from pumice.model.nearest import did_you_mean
from pumice.model.vocabulary import POLICY_ACTIONS, Phase

SCENARIO_FIELDS: Final = ("description", "seed", "capacity", "steps")
GROUP_PHASES: Final = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
EXPECTED: Final = ("phase", "retryCount", "version", "reason", "pods")
COUNTS: Final = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
_FIELDS: Final = {
    "pods": ("at", "pods", "run", "exit", "reason", "start", "stop"),
    "exit": ("at", "pod", "exit", "reason", "signal"),
    "evict": ("at", "pod", "evict"),
    "pending": ("at", "pod", "pending"),
    "controller": ("at", "controller", "for"),
    "command": ("at", "command"),
    "scale": ("at", "scale"),
    "group": ("at", "group"),
    "suspend": ("at", "suspend"),
    "expect": ("expect", "by"),
}


_Reader = Callable[[Mapping[str, Any], Path], Iterator[tuple[str, Any]]]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How pods behave unless something happens to them."""

    run: dt.timedelta = dt.timedelta(seconds=10)
    exit: int = 0
    reason: str = ""
    start: dt.timedelta = dt.timedelta()  # from being made to running
    stop: dt.timedelta = dt.timedelta(seconds=1)  # from being told to end to being gone


@dataclass(frozen=True, slots=True)
class Step:
    at: dt.timedelta
    kind: str  # one of _FIELDS
    fields: Mapping[str, Any]
    line: int = 0


@dataclass(frozen=True, slots=True)
class Expectation:
    what: Mapping[str, Any]
    by: dt.timedelta | None
    position: int  # in the list of steps


@dataclass(frozen=True, slots=True)
class Scenario:
    description: str = ""
    seed: int = 0
    capacity: int | None = None
    steps: tuple[Step, ...] = ()
    expectations: tuple[Expectation, ...] = ()


@dataclass(slots=True)
class ScenarioReader:
    """Reads one scenario for one job; `findings` tells what is wrong with it."""

    job: Job
    findings: list[Finding] = field(default_factory=list)

    def read(self, document: object) -> Scenario:
        if not isinstance(document, Mapping):
            self._fault(ROOT, "a scenario must be a mapping with steps", document)
            return Scenario()
        self._known(document, SCENARIO_FIELDS, ROOT)
        steps, expectations = [], []
        listed = document.get("steps")
        if not isinstance(listed, list):
            self._fault(ROOT / "steps", "must be a list", listed)
            listed = []
        for position, raw in enumerate(listed):
            at = ROOT / "steps" / position
            if isinstance(raw, Mapping) and "expect" in raw:
                expectations.append(self._expectation(raw, at, position))
            elif (step := self._step(raw, at)) is not None:
                steps.append(step)
        steps.sort(key=lambda step: step.at)
        return Scenario(
            description=str(document.get("description", "")),
            seed=self._number(document.get("seed", 0), ROOT / "seed"),
            capacity=self._capacity(document.get("capacity")),
            steps=tuple(steps),
            expectations=tuple(expectations),
        )

    def _step(self, raw: object, at: Path) -> Step | None:
        if not isinstance(raw, Mapping):
            self._fault(at, "a step must be a mapping such as {at: 30s, pod: worker-1, exit: 1}", raw)
            return None
        kind = _kind_of(raw)
        if kind is None:
            unknown = next((str(key) for key in raw if key not in ("at", "pod")), "")
            self._fault(
                at, f"does not say what happens; one of {', '.join(_FIELDS)}", hint=did_you_mean(unknown, _FIELDS)
            )
            return None
        self._known(raw, _FIELDS[kind], at)
        before = len(self.findings)
        moment = self._duration(raw.get("at", "0s"), at / "at")
        fields = dict(self._readers()[kind](raw, at))
        return Step(moment, kind, fields) if len(self.findings) == before else None

    def _readers(self) -> dict[str, _Reader]:
        return {
            "pods": self._behaviour,
            "exit": self._ending,
            "evict": self._pod,
            "pending": self._pod,
            "controller": self._controller,
            "command": self._command,
            "scale": self._scale,
            "group": self._group,
            "suspend": self._suspend,
        }

    def _behaviour(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        pods = raw["pods"]
        names = {task.name for task in self.job.spec.tasks}
        if pods != "*" and pods not in names and not self._is_pod(pods):
            self._fault(at / "pods", "must be *, a task or a pod", pods, did_you_mean(str(pods), names))
        yield "pods", str(pods)
        for name in ("run", "start", "stop"):
            if name in raw:
                yield name, self._duration(raw[name], at / name)
        if "exit" in raw:
            yield "exit", self._exit_code(raw["exit"], at / "exit")
        if "reason" in raw:
            yield "reason", str(raw["reason"])

    def _ending(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        yield from self._pod(raw, at)
        yield "exit", self._exit_code(raw["exit"], at / "exit")
        yield "reason", str(raw.get("reason", ""))
        yield "signal", self._number(raw.get("signal", 0), at / "signal")

    def _pod(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        name = raw.get("pod")
        if not self._is_pod(name):
            tasks = ", ".join(f"{task.name}-0" for task in self.job.spec.tasks)
            self._fault(at / "pod", "no such pod in this job", name, f"pods are called {tasks}, ...")
        yield "pod", str(name)

    def _controller(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        if raw["controller"] != "down":
            self._fault(at / "controller", "must be down", raw["controller"])
        yield "for", self._duration(raw.get("for", "10s"), at / "for")

    def _command(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        yield "command", self._word(raw["command"], POLICY_ACTIONS, at / "command")

    def _group(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        yield "group", self._word(raw["group"], GROUP_PHASES, at / "group")

    def _suspend(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        if not isinstance(raw["suspend"], bool):
            self._fault(at / "suspend", "must be true or false", raw["suspend"])
        yield "suspend", bool(raw["suspend"])

    def _scale(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        wanted = raw["scale"] if isinstance(raw["scale"], Mapping) else {}
        if not wanted:
            self._fault(at / "scale", "must be a mapping such as {worker: 4}", raw["scale"])
        for task, replicas in wanted.items():
            if self.job.task(str(task)) is None:
                names = [task.name for task in self.job.spec.tasks]
                self._fault(at / "scale" / str(task), "no such task", hint=did_you_mean(str(task), names))
            if self._number(replicas, at / "scale" / str(task)) < 0:
                self._fault(at / "scale" / str(task), "must be 0 or more", replicas)
        yield "scale", dict(wanted)

    def _expectation(self, raw: Mapping[str, Any], at: Path, position: int) -> Expectation:
        self._known(raw, _FIELDS["expect"], at)
        what = raw["expect"]
        if not isinstance(what, Mapping) or not what:
            self._fault(at / "expect", "must be a mapping such as {phase: Completed}", what)
            what = {}
        self._known(what, (*EXPECTED, *COUNTS), at / "expect")
        if "phase" in what:
            self._word(what["phase"], tuple(Phase), at / "expect" / "phase")
        for name in ("retryCount", "version", *COUNTS):
            if name in what:
                self._number(what[name], at / "expect" / name)
        pods = what.get("pods", {})
        for pod in pods if isinstance(pods, Mapping) else [pods]:
            if not self._is_pod(pod):
                self._fault(at / "expect" / "pods", "no such pod in this job", pod)
        by = self._duration(raw["by"], at / "by") if "by" in raw else None
        return Expectation(dict(what), by, position)

    def _capacity(self, raw: object) -> int | None:
        if raw is None:
            return None
        if not isinstance(raw, Mapping):
            self._fault(ROOT / "capacity", "must be a mapping such as {pods: 4}", raw)
            return None
        self._known(raw, ("pods",), ROOT / "capacity")
        return self._number(raw.get("pods"), ROOT / "capacity" / "pods")

    def _is_pod(self, name: object) -> bool:
        """A pod of some task; its index may come with a later scaling."""
        task, _, index = str(name).rpartition("-")
        return self.job.task(task) is not None and index.isdecimal()

    def _duration(self, value: object, at: Path) -> dt.timedelta:
        try:
            duration = Duration.parse(value).timedelta
        except ValueError:
            self._fault(at, "must be a duration such as 10s, 5m or 1h30m", value)
            return dt.timedelta()
        if duration < dt.timedelta():
            self._fault(at, "must not be negative", value)
        return duration

    def _number(self, value: object, at: Path) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self._fault(at, "must be a whole number", value)
            return 0
        return value

    def _exit_code(self, value: object, at: Path) -> int:
        code = self._number(value, at)
        if not 0 <= code <= 255:  # noqa: PLR2004 - the exit codes that there are
            self._fault(at, "must be between 0 and 255", value)
        return code

    def _word(self, value: object, accepted: tuple[str, ...], at: Path) -> str:
        if value not in accepted:
            self._fault(at, f"must be one of {', '.join(accepted)}", value, did_you_mean(str(value), accepted))
        return str(value)

    def _known(self, raw: Mapping[Any, Any], accepted: tuple[str, ...], at: Path) -> None:
        for key in raw:
            if key not in accepted:
                hint = did_you_mean(str(key), accepted) or f"there are {', '.join(accepted)}"
                self._fault(at / str(key), "unknown field", hint=hint)

    def _fault(self, at: Path, message: str, *value: object, hint: str = "") -> None:
        if len(value) > 1:
            hint = str(value[1])
        self.findings.append(Finding(at, message, value[0], hint) if value else Finding(at, message, hint=hint))


def _kind_of(raw: Mapping[str, Any]) -> str | None:
    """What a step is about: the first word that decides it."""
    return next((kind for kind in ("pods", *_FIELDS) if kind in raw), None)

"""Reads scenario files from plain data. Everything that is wrong becomes a finding; nothing is guessed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.engines.memory.scenario import (
    EXPECTED,
    GONE,
    GROUP_PHASES,
    MOST_PODS,
    MOST_STEPS,
    NUMBERS,
    PODS,
    Expectation,
    Scenario,
    Span,
    Step,
)
from pumice.engines.memory.scenario_values import ValueReader
from pumice.model.findings import ABSENT, ROOT, Path
from pumice.model.job import Job
from pumice.model.pod import all_containers
from pumice.model.slot import Slot
from pumice.model.snapshot import PodPhase
from pumice.model.suggestions import did_you_mean
from pumice.model.vocabulary import POLICY_ACTIONS, Phase
from pumice.plugins.base import Base
from pumice.plugins.shaping import shaped_pod

SCENARIO_FIELDS: Final = ("description", "seed", "capacity", "steps")
# Each kind of step, told by the word of its name, with the words that may stand beside it.
FIELDS: Final = {
    "pods": ("at", "pods", "run", "exit", "reason", "start", "stop"),
    "exit": ("at", "pod", "exit", "signal", "reason", "container"),
    "evict": ("at", "pod", "evict"),
    "pending": ("at", "pod", "pending"),
    "restarts": ("at", "pod", "restarts"),
    "ready": ("at", "pod", "ready"),
    "controller": ("at", "controller", "for"),
    "command": ("at", "command"),
    "scale": ("at", "scale"),
    "suspend": ("at", "suspend"),
    "group": ("at", "group"),
    "expect": ("at", "expect", "by"),
}
_POD_PHASES: Final = (*PodPhase, GONE)
_MOST_RESTARTS: Final = 2**31 - 1
_LONGEST_TEXT: Final = 1000

_Reader = Callable[[Mapping[str, Any], Path], Iterator[tuple[str, Any]]]


@dataclass(slots=True)
class ScenarioReader(ValueReader):
    """Reads one scenario for one job; `findings` tells what is wrong with it."""

    job: Job
    plugins: Sequence[Base] = ()
    _most: dict[str, int] = field(default_factory=dict)  # pods that each task has at any time, scalings included

    def read(self, document: object) -> Scenario:
        if not isinstance(document, Mapping):
            self.fault(ROOT, "a scenario must be a mapping with steps", document)
            return Scenario()
        if "apiVersion" in document:
            self.fault(ROOT, "this is no scenario", hint="the Job goes first: pumice simulate JOB -s SCENARIO")
            return Scenario()
        self.known(document, SCENARIO_FIELDS, ROOT)
        raw_steps = self._listed(document.get("steps", ABSENT))
        self._most = _most_replicas(self.job, raw_steps)
        steps, expectations = [], []
        for position, raw in enumerate(raw_steps):
            at = ROOT / "steps" / position
            if isinstance(raw, Mapping) and "expect" in raw:
                expectations.append(self._expectation(raw, at))
            elif (step := self._step(raw, at)) is not None:
                steps.append(step)
        return Scenario(
            description=self.text(document.get("description", ""), ROOT / "description", _LONGEST_TEXT),
            seed=self.number(document.get("seed", 0), ROOT / "seed", least=None),
            capacity=self._capacity(document.get("capacity")),
            steps=tuple(sorted(steps, key=lambda step: step.at)),
            expectations=tuple(expectations),
        )

    def _listed(self, raw: object) -> list[Any]:
        if not isinstance(raw, list):
            self.fault(ROOT / "steps", "must be a list of steps such as {at: 30s, pod: worker-1, exit: 1}", raw)
            return []
        if len(raw) > MOST_STEPS:
            self.fault(ROOT / "steps", f"{len(raw)} steps: a scenario may have at most {MOST_STEPS}")
            return []
        return raw

    def _step(self, raw: object, at: Path) -> Step | None:
        if not isinstance(raw, Mapping):
            self.fault(at, "a step must be a mapping such as {at: 30s, pod: worker-1, exit: 1}", raw)
            return None
        kind = self._kind_of(raw, at)
        if kind is None:
            return None
        before = len(self.findings)
        self.known(raw, FIELDS[kind], at)
        if kind != "pods" and "at" not in raw:
            self.fault(at / "at", "is missing", hint="when it happens, such as at: 30s")
        moment = self.duration(raw.get("at", "0s"), at / "at")
        fields = dict(self._readers()[kind](raw, at))
        return Step(moment, kind, fields) if len(self.findings) == before else None

    def _kind_of(self, raw: Mapping[Any, Any], at: Path) -> str | None:
        """What a step is about: the one word that decides it. `exit` beside `pods` is how they behave."""
        kinds = [kind for kind in FIELDS if kind in raw and not (kind == "exit" and "pods" in raw)]
        if not kinds and "signal" in raw:
            return "exit"
        if len(kinds) == 1:
            return kinds[0]
        if kinds:
            self.fault(at, f"says {len(kinds)} things at once: {', '.join(kinds)}", hint="make it a step each")
            return None
        others = [str(key) for key in raw if key not in ("at", "pod")]
        hints = filter(None, (did_you_mean(word, FIELDS) for word in others))
        happens = "what happens; one of " + ", ".join(kind for kind in FIELDS if kind != "expect")
        self.fault(at, f"does not say {happens}, or what to expect", hint=next(hints, ""))
        return None

    def _readers(self) -> dict[str, _Reader]:
        return {
            "pods": self._behaviour,
            "exit": self._ending,
            "evict": self._eviction,
            "pending": lambda raw, at: self._flag("pending", raw, at),
            "restarts": self._restarts,
            "ready": lambda raw, at: self._flag("ready", raw, at),
            "controller": self._controller,
            "command": lambda raw, at: self._one_of("command", POLICY_ACTIONS, raw, at),
            "scale": self._scale,
            "suspend": self._suspend,
            "group": lambda raw, at: self._one_of("group", GROUP_PHASES, raw, at),
        }

    def _behaviour(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        pods = str(raw["pods"])
        names = ["*", *(task.name for task in self.job.spec.tasks)]
        if pods not in names:
            self._check_pod(pods, at / "pods", "must be *, a task or a pod", names)
        yield "pods", pods
        said = [name for name in ("run", "start", "stop") if name in raw]
        for name in said:
            yield name, self._span(raw[name], at / name)
        if "exit" in raw:
            yield "exit", self.number(raw["exit"], at / "exit", most=255)
            yield "reason", self.text(raw.get("reason", ""), at / "reason")
        elif "reason" in raw:
            self.fault(at / "reason", "goes with exit, which is missing")
        elif not said:
            self.fault(at, "does not say how the pods behave; run, exit, start or stop")

    def _ending(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        yield from self._pod(raw, at)
        signal = self.number(raw.get("signal", 0), at / "signal", most=64)
        yield "signal", signal
        yield "exit", self.number(raw.get("exit", 128 + signal), at / "exit", most=255)
        yield "reason", self.text(raw.get("reason", ""), at / "reason")
        if "container" in raw:
            yield "container", self._container(raw, at)

    def _container(self, raw: Mapping[str, Any], at: Path) -> str:
        name = str(raw["container"])
        task = self.job.task(str(raw.get("pod")).rpartition("-")[0])
        if task is not None:
            spec = shaped_pod(Slot(self.job, task, 0), self.plugins).manifest["spec"]
            there = [one["name"] for one in all_containers(spec)]
            if name not in there:
                hint = did_you_mean(name, there) or f"there are {', '.join(there)}"
                self.fault(at / "container", f"no such container in a pod of {task.name}", name, hint)
        return name

    def _eviction(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        yield from self._pod(raw, at)
        how, place = raw["evict"], at / "evict"
        if isinstance(how, Mapping):
            self.known(how, ("exit",), place)
            yield "exit", self.number(how.get("exit", ABSENT), place / "exit", most=255)
        elif how is not True:
            self.fault(place, "must be true, or {exit: 143} for a pod that fails on its way out", how)

    def _flag(self, name: str, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        yield from self._pod(raw, at)
        yield name, self.truth(raw[name], at / name)

    def _restarts(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        yield from self._pod(raw, at)
        yield "restarts", self.number(raw["restarts"], at / "restarts", least=1, most=_MOST_RESTARTS)

    def _pod(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        if "pod" not in raw:
            self.fault(at / "pod", "is missing", hint=f"whom it happens to, such as pod: {self._some_pod()}")
        else:
            self._check_pod(raw["pod"], at / "pod", "no such pod in this job")
        yield "pod", str(raw.get("pod"))

    def _controller(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        state = self.word(raw["controller"], ("down", "up"), at / "controller")
        yield "controller", state
        if "for" in raw and state == "up":
            self.fault(at / "for", "goes with controller: down")
        if "for" in raw:
            yield "for", self.duration(raw["for"], at / "for")

    def _one_of(
        self, name: str, accepted: Sequence[str], raw: Mapping[str, Any], at: Path
    ) -> Iterator[tuple[str, Any]]:
        yield name, self.word(raw[name], accepted, at / name)

    def _suspend(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        yield "suspend", self.truth(raw["suspend"], at / "suspend")

    def _scale(self, raw: Mapping[str, Any], at: Path) -> Iterator[tuple[str, Any]]:
        place, wanted = at / "scale", raw["scale"]
        if not isinstance(wanted, Mapping) or not wanted:
            self.fault(place, "must be a mapping such as {worker: 4}", wanted)
            wanted = {}
        names = [task.name for task in self.job.spec.tasks]
        for name, replicas in wanted.items():
            task = self.job.task(str(name))
            if task is None:
                hint = did_you_mean(str(name), names) or f"there are {', '.join(names)}"
                self.fault(place / str(name), "no such task", hint=hint)
            elif task.partition_policy is not None:
                self.fault(place / str(name), "a task with a partitionPolicy cannot be scaled")
            self.number(replicas, place / str(name), most=MOST_PODS)
        yield "scale", dict(wanted)

    def _expectation(self, raw: Mapping[str, Any], at: Path) -> Expectation:
        self.known(raw, FIELDS["expect"], at)
        what, place = raw["expect"], at / "expect"
        if not isinstance(what, Mapping) or not what:
            self.fault(place, "must be a mapping such as {phase: Completed}", what)
            what = {}
        self.known(what, EXPECTED, place)
        parts = dict(self._parts(what, place))
        first = self.duration(raw["at"], at / "at") if "at" in raw else None
        last = self.duration(raw["by"], at / "by") if "by" in raw else None
        if first is not None and last is not None and last < first:
            self.fault(at / "by", f"must not be before at, {raw['at']}", raw["by"])
        return Expectation(parts, first, last)

    def _parts(self, what: Mapping[str, Any], at: Path) -> Iterator[tuple[str, object]]:
        if "phase" in what:
            yield "phase", self.word(what["phase"], (*Phase, GONE), at / "phase")
        if "reason" in what:
            yield "reason", self.text(what["reason"], at / "reason")
        yield from ((name, self.number(what[name], at / name)) for name in NUMBERS if name in what)
        pods = what.get("pods", {})
        if not isinstance(pods, Mapping):
            self.fault(at / "pods", "must be a mapping such as {worker-1: Succeeded}", pods)
            return
        names = ["*", *(task.name for task in self.job.spec.tasks)]
        for name, phase in pods.items():
            if name not in names:
                self._check_pod(name, at / "pods" / str(name), "must be *, a task or a pod", names)
            yield PODS + str(name), self.word(phase, _POD_PHASES, at / "pods" / str(name))

    def _capacity(self, raw: object) -> int | None:
        if raw is None:
            return None
        if not isinstance(raw, Mapping):
            self.fault(ROOT / "capacity", "must be a mapping such as {pods: 4}", raw)
            return None
        self.known(raw, ("pods",), ROOT / "capacity")
        return self.number(raw.get("pods", ABSENT), ROOT / "capacity" / "pods")

    def _check_pod(self, name: object, at: Path, message: str, others: Sequence[str] = ()) -> None:
        """A pod of some task, one that a scaling brings included."""
        task, _, index = str(name).rpartition("-")
        most = self._most.get(task)
        plain = index.isascii() and index.isdecimal() and str(int(index[:9])) == index
        if most is not None and plain and int(index) < most:
            return
        if most and plain:
            self.fault(at, message, name, f"pods of {task} are {task}-0 to {task}-{most - 1}")
            return
        names = [*others, *(f"{task}-{index}" for task, most in self._most.items() for index in range(min(most, 100)))]
        self.fault(at, message, name, did_you_mean(str(name), names) or f"pods are called {self._some_pod()}")

    def _some_pod(self) -> str:
        return f"{self.job.spec.tasks[-1].name}-0"

    def _span(self, value: object, at: Path) -> Span:
        """A duration, or two of them: `50s..70s`."""
        if isinstance(value, str) and ".." in value:
            shortest, _, longest = value.partition("..")
            before = len(self.findings)
            first, last = (self.duration(part.strip(), at) for part in (shortest, longest))
            if last < first and len(self.findings) == before:
                self.fault(at, "must begin with the shorter one", value)
            return Span(first, last)
        same: dt.timedelta = self.duration(value, at)
        return Span(same, same)


def _most_replicas(job: Job, steps: list[Any]) -> dict[str, int]:
    most = {task.name: task.replicas for task in job.spec.tasks}
    for step in steps:
        wanted = step.get("scale") if isinstance(step, Mapping) else None
        for name, replicas in wanted.items() if isinstance(wanted, Mapping) else ():
            if str(name) in most and isinstance(replicas, int):
                most[str(name)] = max(most[str(name)], replicas)
    return most

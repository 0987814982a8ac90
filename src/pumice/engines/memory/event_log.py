"""The event log of a simulation: a line for each event, with the phase that the job was in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import Final

from pumice.diagnosis.failures import Failures
from pumice.diagnosis.verdict import Evidence, Verdict, judge
from pumice.engines.memory.cluster_state import World
from pumice.engines.memory.engine import MemoryEngine
from pumice.engines.memory.scenario import GONE
from pumice.model.findings import Path
from pumice.model.job import Job
from pumice.model.problem import Position
from pumice.model.snapshot import ContainerEnd, JobKey, ObservedPod
from pumice.model.text import plural
from pumice.model.vocabulary import Event, Phase
from pumice.reconcile.consequences import acted_policy
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.ledger import most_attempts, read_ledger
from pumice.reconcile.phases import AT_REST

# Events of the controller that the log shows as phases or as steps of the scenario.
_SHOWN_OTHERWISE: Final = frozenset((*Phase, Event.COMMAND_ISSUED, "ExecuteAction"))
# Phases whose line says how many pods end.
_WINDING_DOWN: Final = frozenset((Phase.RESTARTING, Phase.ABORTING, Phase.COMPLETING, Phase.TERMINATING))
# The event at the same moment that a policy acted on; any other one is older, and the policy had a timeout.
_CAUSES: Final = {Event.JOB_UPDATED: "SpecChanged", Event.UNKNOWN: "GroupChanged"}
_LATER: Final = {
    Event.POD_PENDING: "is still pending",
    Event.POD_FAILED: "has failed",
    Event.POD_EVICTED: "was evicted",
    Event.TASK_COMPLETED: "was the last of its task to succeed",
    Event.TASK_FAILED: "has containers that restart too often",
    Event.UNKNOWN: "PodGroup is Unknown",
    Event.JOB_UPDATED: "the spec has changed",
}
# Up to so many pods are named; more are counted.
_NAMED: Final = 3
_PHASE_WIDTH: Final = 12


@dataclass(slots=True)
class Line:
    at: float
    phase: str
    event: str
    what: str  # what happened; of a pod, without its name
    pod: str = ""
    policy: str = ""  # the path of the policy that acted on it
    action: str = ""

    @property
    def message(self) -> str:
        return f"{self.pod} {self.what}" if self.pod else self.what

    @property
    def acted(self) -> str:
        return f" -> policy {self.policy} {self.event}: {self.action}" if self.policy else ""

    @property
    def moment(self) -> str:
        return f"t+{self.at:.1f}s"


def texts(lines: Sequence[Line]) -> Iterator[str]:
    """The lines as text. Pods that did the same at one moment share a line."""
    width = max((len(line.moment) for line in lines), default=0)
    for line, message in _gathered(lines):
        yield f"{line.moment:<{width}}  {line.phase:<{_PHASE_WIDTH}}{message}{line.acted}".rstrip()


def _gathered(lines: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    for key, together in groupby(lines, lambda line: (line.at, line.phase, bool(line.pod))):
        if not key[-1]:
            yield from ((line, line.message) for line in together)
            continue
        alike: dict[tuple[str, ...], list[Line]] = {}
        for line in together:
            task = line.pod.rpartition("-")[0]
            # An event that a policy acted on has its own line.
            alike.setdefault((line.pod,) if line.policy else (task, line.event, line.what), []).append(line)
        for about, group in alike.items():
            names = ", ".join(line.pod for line in group) if len(group) <= _NAMED else f"{len(group)} of {about[0]}"
            yield group[0], f"{names} {group[0].what}"


@dataclass(slots=True)
class EventLog:
    world: World
    engine: MemoryEngine
    key: JobKey
    lines: list[Line] = field(default_factory=list)
    failures: Failures = field(default_factory=Failures)
    job: Job | None = None  # as it was last seen
    _policy: JobEvent | None = None  # that acted last in the current attempt
    _why: str = ""  # the job is in its phase
    _phase: str = ""
    _retries: int = 0
    _recorded: int = 0
    # By task, at this moment: in the pass that is under way, and in those before it.
    _just_made: Counter[str] = field(default_factory=Counter)
    _made: Counter[str] = field(default_factory=Counter)
    _just_ending: Counter[str] = field(default_factory=Counter)
    _ending: Counter[str] = field(default_factory=Counter)
    _beginning: Line | None = None  # of a run: completed when its first pods are known

    def record(self, event: str, what: str, pod: str = "", action: str = "") -> Line:
        line = Line(self.world.clock.elapsed, self._phase or Phase.PENDING, event, what, pod, action=action)
        self.lines.append(line)
        return line

    def verdict(self, locate: Callable[[Path], Position]) -> Verdict | None:
        """Return why the job did not complete; None if it did, or has not ended. `locate` finds a path in its file."""
        job, acted = self.job, self._policy
        if job is None or job.status.state.phase not in AT_REST:
            return None
        failures = self.failures
        return judge(
            Evidence(
                job=job,
                failures=failures.in_order(),
                succeeded=failures.succeeded(),
                restarted=failures.restarted(),
                earlier=failures.earlier,
                policy=None if acted is None else acted_policy(acted, locate(acted.policy)),
                cause=self._why,
                max_attempts=most_attempts(job.spec.max_retry, job.status),
            ),
            locate,
        )

    def made(self, pod: ObservedPod) -> None:
        self.failures.record(pod)
        self._just_made[pod.task] += 1

    def ending(self, pod: ObservedPod) -> None:
        self._just_ending[pod.task] += 1

    def pod_ended(self, pod: ObservedPod, end: ContainerEnd) -> None:
        self.failures.record(pod)
        if end.exit_code == 0:
            self.record("PodSucceeded", "succeeded", pod.short_name)
            return
        container = f"in {end.container}" if end.container != pod.task else ""
        details = ", ".join(filter(None, (str(end.exit_code), end.reason, container)))
        self.record("PodFailed", f"failed ({details})", pod.short_name)

    def record_pass(self) -> None:
        """Record the events and actions of the last pass."""
        for _, event in self.engine.events[self._recorded :]:
            self._why = event.cause or self._why
            if event.policy:
                self._policy = event
                self._acted(event)
            elif event.reason not in _SHOWN_OTHERWISE:
                self.record(event.reason, event.message)
        self._recorded = len(self.engine.events)
        job = self.world.jobs.get(self.key)
        self.job = job or self.job
        if job is None:
            if self._phase != GONE:
                self.close_moment()
                self._phase = GONE
                self.record("JobDeleted", "the job is deleted, with all that it owned")
        elif job.status.state.phase != self._phase:
            self.close_moment()
            self._phase = job.status.state.phase
            if self._phase == Phase.PENDING:
                # The policy that led to this attempt does not end it.
                self._policy, self._why = None, ""
            line = self.record("PhaseChanged", self._about(job))
            self._beginning = line if self._phase == Phase.PENDING else None
            self._retries = job.status.retry_count
        # A pass writes its phase first, so what it did belongs to that phase.
        self._made += self._just_made
        if self._phase not in _WINDING_DOWN:
            self._ending += self._just_ending
        self._just_made.clear()
        self._just_ending.clear()

    def close_moment(self) -> None:
        """End the moment: one line for all pods that were created, one for all that were deleted."""
        if self._ending:
            verb = "ends" if self._ending.total() == 1 else "end"
            self.record("PodsEnd", f"{plural(self._ending.total(), 'pod')} {verb}: {_by_task(self._ending)}")
        made = f"{plural(self._made.total(), 'pod')} made: {_by_task(self._made)}" if self._made else ""
        beginning, self._beginning = self._beginning, None
        self._made.clear()
        self._ending.clear()
        if beginning is not None:
            job = self.world.jobs.get(self.key)
            version = f"version {job.status.version}: " if job is not None and job.status.version else ""
            awaited = job.status.state.message if job is not None else ""
            beginning.what = version + (made or awaited or "no pods yet")
        elif made:
            self.record("PodsMade", made)

    def _acted(self, event: JobEvent) -> None:
        """A policy acted: mark the line of its event if that is of this moment, else add a line."""
        name, now = Event(event.event), self.world.clock.elapsed
        kind = _CAUSES.get(name, "Pod")
        moment = takewhile(lambda line: line.at == now, reversed(self.lines))
        causes = (one for one in moment if one.pod == event.pod and not one.policy and one.event.startswith(kind))
        line = next(causes, None) or self.record(name, _LATER[name], event.pod)
        line.event, line.policy, line.action = event.event, str(event.policy), event.action

    def _about(self, job: Job) -> str:
        """The text for a phase that is entered."""
        status = job.status
        ending = "no pod has to end"
        if status.terminating:
            ending = f"{plural(status.terminating, 'pod')} end{'s' if status.terminating == 1 else ''}"
        match status.state.phase:
            case Phase.RUNNING:
                return _counts(running=f"{status.running}/{job.total_replicas}", succeeded=status.succeeded)
            case Phase.RESTARTING if status.retry_count == self._retries:
                return f"{ending}; resumed, which costs no retry"
            case Phase.RESTARTING:
                budget = f"budget {read_ledger(status).spent} of {job.spec.max_retry} spent"
                return f"{ending}; retry {status.retry_count}, {budget}"
            case Phase.FAILED:
                return f"{status.state.reason}: {status.state.message}"
            case Phase.COMPLETED | Phase.ABORTED | Phase.TERMINATED:
                return _counts(succeeded=status.succeeded, failed=status.failed) or "no pods are left"
            case _:
                return ending


def _by_task(numbers: Counter[str]) -> str:
    return ", ".join(f"{task} {number}" for task, number in numbers.items())


def _counts(**numbers: object) -> str:
    return ", ".join(f"{number} {word}" for word, number in numbers.items() if number)

"""Shows a run to people: logs on stdout, messages on stderr, and on a terminal the job's state in the last line.

That line is `Running 3/3  master ● worker ●●  00:07`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pumice.client.view.log_prefix import LogPrefix
from pumice.client.view.output import Style, broken, columns, style_for
from pumice.client.view.screen import Screen
from pumice.diagnosis.code_change import code_change_text
from pumice.diagnosis.hang import PodActivity, hang_text
from pumice.diagnosis.outcome import phase_text
from pumice.diagnosis.pod_ends import how_it_ended, how_it_failed, one_line
from pumice.diagnosis.verdict_lines import COPIED_ROWS, heading_text, row_line, verdict_rows
from pumice.diagnosis.why import hint_text
from pumice.model.job import Job
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.text import escaped, plural
from pumice.model.units import clock_text, elapsed_text
from pumice.model.vocabulary import COMMAND, Action, Phase
from pumice.reconcile.consequences import acted_text
from pumice.reconcile.ledger import most_attempts
from pumice.reconcile.phases import AT_REST
from pumice.store.events import (
    CodeChanged,
    ContainerRestarted,
    LogLine,
    LogOutput,
    PhaseChanged,
    PodChanged,
    PodKilled,
    PortPublished,
    PortTaken,
    Progress,
    RequestAccepted,
    RunEvent,
    RunHangs,
    RunPlanned,
    RunWaits,
    Stopping,
    WarningIssued,
)
from pumice.store.options import Locate, nowhere
from pumice.store.run_end import RunEnded

if TYPE_CHECKING:
    # A foreground run loads no history.
    from pumice.store.history.run_history import RunHistory

_MARKS: Final = {
    PodPhase.PENDING: "○",
    PodPhase.RUNNING: "●",
    PodPhase.SUCCEEDED: "✓",
    PodPhase.FAILED: "✗",
    PodPhase.UNKNOWN: "?",
}
_PLAIN_MARKS: Final = dict(zip(_MARKS, ".o+x?", strict=True))
_COLOURS: Final = {PodPhase.PENDING: "2", PodPhase.RUNNING: "32", PodPhase.SUCCEEDED: "32", PodPhase.FAILED: "31"}
# A task with more pods gets counts instead of marks.
_MOST_MARKS: Final = 16
_MOST_BARS: Final = 8
_MOST_KEPT: Final = 8


class PodStates(Struct):
    """The newest pod of each name, by task."""

    _phases: dict[str, dict[int, PodPhase]] = field(default_factory=dict)
    _replicas: dict[str, int] = field(default_factory=dict)  # by task

    def resize(self, job: Job) -> None:
        self._phases = {task.name: self._phases.get(task.name, {}) for task in job.spec.tasks}
        self._replicas = {}
        self.scale({task.name: task.replicas for task in job.spec.tasks})

    def scale(self, replicas: Mapping[str, int]) -> None:
        """Change the numbers of pods of some tasks. Pods beyond them are not shown any more."""
        self._replicas |= replicas
        for task, number in replicas.items():
            phases = self._phases.get(task, {})
            self._phases[task] = {index: phase for index, phase in phases.items() if index < number}

    def record(self, pod: ObservedPod) -> None:
        if pod.index < self._replicas.get(pod.task, pod.index + 1):
            self._phases.setdefault(pod.task, {})[pod.index] = pod.phase

    @property
    def running(self) -> int:
        return sum(phase is PodPhase.RUNNING for phases in self._phases.values() for phase in phases.values())

    @property
    def total(self) -> int:
        return sum(self._replicas.values())

    def by_task(self) -> Mapping[str, Sequence[PodPhase]]:
        return {task: [phases[index] for index in sorted(phases)] for task, phases in self._phases.items()}


def state_line(phase: str, states: PodStates, elapsed: float, *, coloured: bool, unicode: bool = True) -> str:
    marks = _MARKS if unicode else _PLAIN_MARKS

    def painted(phase: PodPhase, text: str) -> str:
        return f"\x1b[{_COLOURS[phase]}m{text}\x1b[0m" if coloured and phase in _COLOURS else text

    tasks = []
    for task, phases in states.by_task().items():
        if len(phases) <= _MOST_MARKS:
            shown = "".join(painted(phase, marks[phase]) for phase in phases)
        else:
            counts = Counter(phases)
            shown = " ".join(painted(phase, f"{counts[phase]}{marks[phase]}") for phase in marks if counts[phase])
        tasks += [f"{task} {shown}"] if phases else []
    count = f" {states.running}/{states.total}" if phase == "Running" else ""
    return "  ".join(part for part in (f"{phase or 'Starting'}{count}", " ".join(tasks), clock_text(elapsed)) if part)


class TextView(Struct):
    screen: Screen
    locate: Locate = nowhere
    next_step: Callable[[RunEnded], str] = lambda _outcome: ""  # what to type after a failure
    prefix: bool = True
    timestamps: Callable[[], str] | None = None  # the time at the start of each log line
    clock: Callable[[], float] = time.monotonic
    live: bool = True  # the reader can act on the run
    _began: float = 0.0
    _prefix: LogPrefix = field(default_factory=LogPrefix)
    _phase: str = ""
    _attempt: int = 0
    _last_action: str = ""
    _stopping: bool = False  # on request
    _stop: str = ""  # who asked for it, in words
    _complete: bool = False  # all pods of this attempt have been shown as running
    _doing: tuple[PodActivity, ...] | None = None  # what was last shown of a run that hangs
    _over: bool = False  # the outcome has been shown; what comes later draws no state any more
    _states: PodStates = field(default_factory=PodStates)
    _labels: dict[tuple[str, str], str] = field(default_factory=dict)  # by pod and container
    _bars: dict[tuple[str, int, str, str], str] = field(default_factory=dict)  # in the order of the pods

    def __post_init__(self) -> None:
        self._began = self.clock()

    def __call__(self, event: RunEvent) -> None:  # noqa: C901, PLR0912 - one case per event
        match event:
            case RunPlanned(job, images, accesses, notes, name, directory):
                self._show_plan(job, images)
                if name:
                    self._print(f"  {escaped(f'run {name}   {directory}')}", whole=True)
                for line in (*(f"uses {access}" for access in accesses), *notes):
                    self._print(f"  {escaped(line)}")
            case LogOutput(lines):
                self._show_logs(lines)
            case PhaseChanged():
                self._show_phase(event)
            case PodChanged(pod, _, follows):
                self._states.record(pod)
                if follows:
                    how = escaped(one_line(how_it_failed(pod, self._prefix.unnamed.get(pod.task, ""))))
                    failed = self._style.error(f"{pod.short_name} failed:")
                    self._print(f"{self._elapsed():<5} {failed} {how}; {follows}")
                self._show_completeness()
            case PodKilled(pod_name, flag):
                self._print(f"{self._elapsed():<5} {pod_name} killed by {flag}")
            case ContainerRestarted():
                self._show_restart(event)
            case PortPublished(pod_name, port, address):
                self._print(f"{pod_name}:{port} is published on {address}")
            case PortTaken(pod_name, port, _, why):
                self._warn(f"{pod_name}:{port} is not published: {why}; retrying")
            case CodeChanged(change) if change is not None:
                self._warn(code_change_text(change))
            case WarningIssued(message):
                self._warn(message)
            case RunHangs(hang) if hang.doing != self._doing:
                # A program that prints once in a while is often silent, and then does the same as before.
                self._doing = hang.doing
                self._warn(hang_text(hang))
            case RunWaits(why):
                self._print(f"waits: {escaped(why.text)}")
                for hint in why.hints[:1]:
                    self._print(f"  hint: {hint_text(hint)}")
            case Progress(message, transient) if transient and self.screen.terminal is not None:
                self.screen.draw([escaped(message)])
                return
            case Progress(message):
                self._print(escaped(message, lines=True))
            case RequestAccepted(stop, replicas):
                self._stop = stop.text if stop is not None else self._stop
                self._states.scale(replicas)
            case Stopping(grace):
                self._stopping = True
                at_once = "; Ctrl-C ends them at once" if self.live else ""
                self._print(f"stopping: the pods have up to {grace:g}s to end{at_once}")
            case RunEnded():
                self._show_outcome(event)
                return
        self.screen.draw(self._last_lines())

    def catch_up(self, history: RunHistory, seconds: float) -> None:
        """Show the plan and the state of a run that has run for a while, as if its events had been shown."""
        self._began = self.clock() - seconds
        self._phase, self._attempt = history.status.phase, history.status.attempt
        for pod in history.pods.values():
            self._states.record(pod)
        if history.plan is not None:
            # It draws the state. It may have been scaled since.
            self(replace(history.plan, job=history.job))
        self._complete = self._states.running == self._states.total
        self.screen.draw(self._last_lines())

    def _show_plan(self, job: Job, images: str) -> None:
        self._states.resize(job)
        self._prefix = LogPrefix.of(job)
        tasks = ", ".join(f"{task.name} {task.replicas}" for task in job.spec.tasks)
        plugins = f"   plugins {', '.join(job.spec.plugins)}" if job.spec.plugins else ""
        gang = f"   gang {job.spec.min_available}"
        self._print(f"{job.name}  {plural(job.total_replicas, 'pod')}: {tasks}{gang}{plugins}   images: {images}")

    def _show_logs(self, lines: Sequence[LogLine]) -> None:
        ended = []
        for line in lines:
            task, _, index = line.pod.rpartition("-")
            source = (task, int(index), line.container, line.stream)
            if line.unfinished:
                self._bars[source] = self._labelled(line)
            else:
                self._bars.pop(source, None)
                ended.append(self._labelled(line))
        if ended:
            self.screen.print(ended)

    def _labelled(self, line: LogLine) -> str:
        time = f"{self.timestamps()} " if self.timestamps is not None else ""
        if not self.prefix:
            return time + line.text
        source = (line.pod, line.container)
        if source not in self._labels:
            self._labels[source] = self._prefix.text(*source, coloured=style_for(self.screen.logs).coloured)
        return time + self._labels[source] + line.text

    def _show_phase(self, moved: PhaseChanged) -> None:
        """Print one line: the policy that acted says more than the phase that it led to."""
        self._states.resize(moved.job)
        self._phase = moved.status.state.phase
        if moved.attempt != self._attempt:
            self._attempt, self._last_action = moved.attempt, ""
        # After a restart or a suspension, too, it is said when all of them run.
        self._complete = self._phase == Phase.RUNNING and (self._complete or self._states.running == self._states.total)
        self._last_action = moved.acted.action if moved.acted is not None else self._last_action
        acted = moved.acted
        self._print_phase(self._phase_text(moved) if acted is None else acted_text(acted, self.locate(acted.policy)))

    def _phase_text(self, moved: PhaseChanged) -> str:
        job, state = moved.job, moved.status.state
        match state.phase:
            case Phase.PENDING if not state.message:
                most = most_attempts(job.spec.max_retry, moved.status)
                again = f"attempt {moved.attempt} of {most}: " if moved.attempt > 1 else ""
                waits = any(task.depends_on is not None for task in job.spec.tasks)
                # A restart of some pods leaves the others running.
                missing = job.total_replicas - moved.status.running - moved.status.succeeded
                return f"{again}starting" if waits else f"{again}starting {plural(missing, 'pod')}"
            case Phase.RUNNING:
                running = max(self._states.running, moved.status.running)
                # The pods may have ended before the phase was written.
                return f"{running}/{job.total_replicas}" if running else ""
            case Phase.COMPLETED:
                return f"in {self._elapsed()}: {self._counts(moved)}"
            case Phase.TERMINATING if self._stopping:
                return self._stop
            case Phase.TERMINATED if self._stopping:
                return ""
            case phase if phase in AT_REST:
                # The policy that led to it was printed when it acted.
                return phase_text(moved.status, self._stop) if state.reason == COMMAND else moved.cause or state.message
            case _:
                return phase_text(moved.status, self._stop)

    def _counts(self, completed: PhaseChanged) -> str:
        """`1 succeeded, 2 ended by CompleteJob`."""
        status = completed.status
        failed = f", {status.failed} failed" if status.failed else ""
        others = completed.job.total_replicas - status.succeeded - status.failed
        by = f" by {Action.COMPLETE_JOB}" if self._last_action == Action.COMPLETE_JOB else ""
        return f"{status.succeeded} succeeded{failed}" + (f", {others} ended{by}" if others > 0 else "")

    def _show_completeness(self) -> None:
        if self._phase == Phase.RUNNING and not self._complete and self._states.running == self._states.total:
            self._complete = True
            self._print_phase(f"{self._states.total}/{self._states.total}")

    def _show_restart(self, restarted: ContainerRestarted) -> None:
        end, pod = restarted.end, restarted.pod
        container = "" if end.container == self._prefix.unnamed.get(pod.task) else f" {end.container}"
        line = f": {escaped(one_line(end.last_line))}" if end.last_line else ""
        self._print(
            f"{self._elapsed():<5} {pod.short_name}{container} restart {restarted.count}: {how_it_ended(end)}{line}"
        )
        if restarted.hint:
            self._print(f"  hint: {restarted.hint}")

    def _show_outcome(self, outcome: RunEnded) -> None:
        self._over = True
        self._bars.clear()
        self.screen.draw(())
        if outcome.verdict is not None:
            next_step = self.next_step(outcome) or outcome.verdict.next
            verdict = msgspec.structs.replace(outcome.verdict, next=next_step)
            if heading := heading_text(verdict):
                first, *others = map(escaped, heading.splitlines())
                self._print("\n".join(("", self._style.error(first), *others)))
                for name, text in verdict_rows(verdict):
                    self._print(escaped(row_line(name, text)), whole=name in COPIED_ROWS)
        if used := str(outcome.disk):
            self._print(f"disk: {used}")
        for path in outcome.kept[:_MOST_KEPT]:
            self._print(f"kept: {escaped(path)}")
        if len(outcome.kept) > _MOST_KEPT:
            self._print(f"kept: and {len(outcome.kept) - _MOST_KEPT} more")

    def _last_lines(self) -> list[str]:
        if self.screen.terminal is None or not self._prefix.tasks or self._over:
            return []
        most = max(1, min(_MOST_BARS, self.screen.size()[1] // 3))
        coloured = style_for(self.screen.terminal).coloured
        unicode = (self.screen.terminal.encoding or "").lower().startswith("utf")
        state = state_line(self._phase, self._states, self._seconds(), coloured=coloured, unicode=unicode)
        return [*(self._bars[source] for source in sorted(self._bars)[:most]), state]

    def _print_phase(self, about: str) -> None:
        style = self._style
        paint = {Phase.FAILED: style.error, Phase.COMPLETED: style.success}.get(Phase(self._phase), style.bold)
        self._print(f"{self._elapsed():<5} {paint(self._phase)}{' ' * (10 - len(self._phase))} {about}".rstrip())

    def _warn(self, message: str) -> None:
        self._print(f"{self._style.warning('warning:')} {escaped(message, lines=True)}")

    def _print(self, text: str, *, whole: bool = False) -> None:
        """Print a message. Lines are broken between words, but for a command or a path that a person copies."""
        width = None if whole else columns(self.screen.messages)
        self.screen.print([part for line in text.split("\n") for part in broken(line, width)], message=True)

    @property
    def _style(self) -> Style:
        return style_for(self.screen.messages)

    def _seconds(self) -> float:
        return self.clock() - self._began

    def _elapsed(self) -> str:
        return elapsed_text(self._seconds())

"""Shows a run to people: logs on stdout, messages on stderr, and on a terminal the job's state in the last line."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pumice.client.view.log_prefix import LogPrefix
from pumice.client.view.output import Style, broken, columns, style_for
from pumice.client.view.screen import Screen
from pumice.client.view.status_line import PodStates, state_line
from pumice.engines.local.events import (
    ContainerRestarted,
    LogLine,
    LogOutput,
    PhaseChanged,
    PodChanged,
    PodKilled,
    PortPublished,
    Progress,
    RunEvent,
    RunPlanned,
    RunWaits,
    Stopping,
    WarningIssued,
)
from pumice.engines.local.options import Locate, nowhere
from pumice.engines.local.outcome import Outcome
from pumice.engines.local.verdict import how_it_failed, one_line, policy_text, verdict_lines
from pumice.model.duration import elapsed_text
from pumice.model.job import Job
from pumice.model.snapshot import ObservedPod
from pumice.model.text import escaped
from pumice.model.vocabulary import Action, Phase
from pumice.reconcile.phases import FINAL
from pumice.reconcile.verdict import how_it_ended

_MOST_BARS: Final = 8
_MOST_KEPT: Final = 8
# Commands and paths, which people copy, stay whole.
_WHOLE: Final = ("  next ", "  log ", "  logs ", "  run ")


@dataclass(slots=True)
class TextView:
    screen: Screen
    locate: Locate = nowhere
    next_step: Callable[[Outcome], str] = lambda _outcome: ""  # what to type after a failure
    prefix: bool = True
    timestamps: Callable[[], str] | None = None  # the time at the start of each log line
    clock: Callable[[], float] = time.monotonic
    _began: float = 0.0
    _prefix: LogPrefix = field(default_factory=LogPrefix)
    _phase: str = ""
    _attempt: int = 0
    _last_action: str = ""
    _stopping: bool = False  # on request
    _complete: bool = False  # all pods of this attempt have been shown as running
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
                run = [f"run {name}   {directory}"] if name else []
                for line in (*run, *(f"uses {access}" for access in accesses), *notes):
                    self._print(f"  {escaped(line)}")
            case LogOutput(lines):
                self._show_logs(lines)
            case PhaseChanged():
                self._show_phase(event)
            case PodChanged(pod, _, follows):
                self._states.record(pod)
                if follows:
                    self._show_failure(pod, follows)
                self._show_completeness()
            case PodKilled(pod_name, flag):
                self._print(f"{self._elapsed():<5} {pod_name} killed by {flag}")
            case ContainerRestarted():
                self._show_restart(event)
            case PortPublished(pod_name, port, address):
                self._print(f"{pod_name}:{port} is published on {address}")
            case WarningIssued(message):
                self._print(f"{self._style.warning('warning:')} {escaped(message, lines=True)}")
            case RunWaits(why):
                self._print(f"waits: {escaped(why.text)}")
                for hint in why.hints[:1]:
                    self._print(f"  hint: {hint.text}: {hint.command}")
            case Progress(message, transient) if transient and self.screen.terminal is not None:
                self.screen.draw([escaped(message)])
                return
            case Progress(message):
                self._print(escaped(message, lines=True))
            case Stopping(grace):
                self._stopping = True
                self._print(f"stopping: the pods have up to {grace:g}s to end; Ctrl-C ends them at once")
            case Outcome():
                self._show_outcome(event)
                return
        self.screen.draw(self._last_lines())

    def _show_plan(self, job: Job, images: str) -> None:
        self._states.resize(job)
        self._prefix = LogPrefix.of(job)
        total = job.total_replicas
        tasks = ", ".join(f"{task.name} {task.replicas}" for task in job.spec.tasks)
        plugins = f"   plugins {', '.join(job.spec.plugins)}" if job.spec.plugins else ""
        gang = f"   gang {job.spec.min_available}"
        self._print(f"{job.name}  {_pods(total)}: {tasks}{gang}{plugins}   images: {images}")

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
            self._attempt, self._complete, self._last_action = moved.attempt, False, ""
        self._complete = self._complete or self._states.running == self._states.total
        self._last_action = moved.acted.action if moved.acted is not None else self._last_action
        about = policy_text(moved.acted, self.locate) if moved.acted is not None else self._phase_text(moved)
        self._print_phase(about)

    def _phase_text(self, moved: PhaseChanged) -> str:
        job, state = moved.job, moved.status.state
        match state.phase:
            case Phase.PENDING if not state.message:
                again = f"attempt {moved.attempt} of {job.spec.max_retry}: " if moved.attempt > 1 else ""
                waits = any(task.depends_on is not None for task in job.spec.tasks)
                # A restart of some pods leaves the others running.
                missing = job.total_replicas - moved.status.running - moved.status.succeeded
                return f"{again}starting" if waits else f"{again}starting {_pods(missing)}"
            case Phase.RUNNING:
                running = max(self._states.running, moved.status.running)
                # The pods may have ended before the phase was written.
                return f"{running}/{job.total_replicas}" if running else ""
            case Phase.COMPLETED:
                return f"in {self._elapsed()}: {self._counts(moved)}"
            case Phase.TERMINATING | Phase.TERMINATED if self._stopping:
                return ""
            case phase if phase in FINAL or phase == Phase.ABORTED:
                # The policy that led to it was printed when it acted.
                return state.message.partition(";")[0]
            case _:
                return state.message

    def _counts(self, completed: PhaseChanged) -> str:
        """`1 succeeded, 2 ended by CompleteJob`."""
        status = completed.status
        failed = f", {status.failed} failed" if status.failed else ""
        others = completed.job.total_replicas - status.succeeded - status.failed
        by = f" by {Action.COMPLETE_JOB}" if self._last_action == Action.COMPLETE_JOB else ""
        return f"{status.succeeded} succeeded{failed}" + (f", {others} ended{by}" if others > 0 else "")

    def _show_failure(self, pod: ObservedPod, follows: str) -> None:
        how = escaped(one_line(how_it_failed(pod, self._prefix.unnamed.get(pod.task, ""))))
        failed = self._style.error(f"{pod.short_name} failed:")
        self._print(f"{self._elapsed():<5} {failed} {how}; {follows}")

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

    def _show_outcome(self, outcome: Outcome) -> None:
        self._over = True
        self._bars.clear()
        self.screen.draw(())
        if lines := verdict_lines(outcome, self.locate, self.next_step(outcome)):
            first, *others = map(escaped, lines)
            self._print("\n".join(("", self._style.error(first), *others)))
        if used := str(outcome.disk):
            self._print(f"disk: {used}")
        for path in outcome.kept[:_MOST_KEPT]:
            self._print(f"kept: {path}")
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

    def _print(self, text: str) -> None:
        """Print a message. Lines are broken between words, but for a command that a person copies."""
        width = columns(self.screen.messages)
        lines = text.split("\n")
        whole = [[line] if line.startswith(_WHOLE) else broken(line, width) for line in lines]
        self.screen.print([part for parts in whole for part in parts], message=True)

    @property
    def _style(self) -> Style:
        return style_for(self.screen.messages)

    def _seconds(self) -> float:
        return self.clock() - self._began

    def _elapsed(self) -> str:
        return elapsed_text(self._seconds())


def _pods(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"

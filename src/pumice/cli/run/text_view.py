"""What a person sees of a running job: logs on stdout, talk on stderr, and on a terminal its state at the bottom."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pumice.cli.output import style_for
from pumice.cli.run.screen import Screen, plain
from pumice.cli.run.status_line import PodStates, state_line
from pumice.engines.local.events import (
    Ended,
    Happening,
    Moved,
    Noted,
    Planned,
    PodMoved,
    Printed,
    Published,
    Restarted,
    Stopping,
    Warned,
)
from pumice.engines.local.kubelet.container_logs import LogLine
from pumice.engines.local.verdict import one_line, policy_text
from pumice.model.job import Job
from pumice.model.vocabulary import Phase
from pumice.reconcile.phases import FINAL
from pumice.reconcile.verdict import how_it_ended

_COLOURS: Final = ("36", "32", "35", "34", "33", "96", "92", "95")
_MOST_BARS: Final = 8
_MOST_KEPT: Final = 8
Locate = Callable[[str], str]  # a path in the Job -> file:line


@dataclass(slots=True)
class TextView:
    screen: Screen
    locate: Locate = lambda _path: ""
    prefix: bool = True
    clock: Callable[[], float] = time.monotonic
    _began: float = 0.0
    _tasks: list[str] = field(default_factory=list)
    _alone: dict[str, str] = field(default_factory=dict)  # by task, the container that needs no name
    _width: int = 0
    _phase: str = ""
    _attempt: int = 0
    _stopping: bool = False  # because the user wants it
    _complete: bool = False  # it was told that all pods of this attempt run
    _states: PodStates = field(default_factory=PodStates)
    _labels: dict[tuple[str, str], str] = field(default_factory=dict)  # by pod and container
    _bars: dict[tuple[str, int, str, str], str] = field(default_factory=dict)  # in the order of the pods

    def __post_init__(self) -> None:
        self._began = self.clock()

    def __call__(self, happening: Happening) -> None:
        match happening:
            case Planned(job, images):
                self._plan(job, images)
            case Printed():
                self._printed(happening)
            case Moved():
                self._moved(happening)
            case PodMoved(pod):
                self._states.take(pod)
                self._tell_completeness()
            case Restarted():
                self._restarted(happening)
            case Published(pod, port, address):
                self._say(f"{pod}:{port} is published on {address}")
            case Warned(message) | Noted(message):
                mark = f"{style_for(self.screen.talk).warning('warning:')} " if isinstance(happening, Warned) else ""
                self._say(f"{mark}{message}")
            case Stopping(grace):
                self._stopping = True
                self._say(f"stopping: the pods have up to {grace:g}s to end; Ctrl-C ends them at once")
            case Ended():
                self._ended(happening)
                return
        self.screen.keep(self._bottom())

    def _plan(self, job: Job, images: str) -> None:
        self._states.plan(job)
        self._tasks = [task.name for task in job.spec.tasks]
        for task in job.spec.tasks:
            containers = task.pod_spec.get("containers") or []
            self._alone[task.name] = str(containers[0]["name"]) if len(containers) == 1 else task.name
        names = [f"{task.name}-{max(task.replicas - 1, 0)}" for task in job.spec.tasks]
        self._width = max(map(len, names), default=0)
        total = job.total_replicas
        tasks = ", ".join(f"{task.name} {task.replicas}" for task in job.spec.tasks)
        plugins = f"   plugins {', '.join(job.spec.plugins)}" if job.spec.plugins else ""
        gang = f"   gang {job.spec.min_available}"
        self._say(f"{job.name}  {_pods(total)}: {tasks}{gang}{plugins}   images: {images}")

    def _printed(self, happening: Printed) -> None:
        ended = []
        for line in happening.lines:
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
        if not self.prefix:
            return line.text
        source = (line.pod, line.container)
        if source not in self._labels:
            self._labels[source] = self._label(*source)
        return self._labels[source] + line.text

    def _label(self, pod: str, container: str) -> str:
        task = pod.rpartition("-")[0]
        alone = container in (self._alone.get(task, task), "")
        name = (pod if alone else f"{pod} {container}").ljust(self._width)
        if style_for(self.screen.data).coloured and task in self._tasks:
            name = f"\x1b[{_COLOURS[self._tasks.index(task) % len(_COLOURS)]}m{name}\x1b[0m"
        return f"{name}  "

    def _moved(self, moved: Moved) -> None:
        """One line for what has changed: the policy that acted says more than the phase that it led to."""
        self._phase = moved.status.state.phase
        if moved.attempt != self._attempt:
            self._attempt, self._complete = moved.attempt, False
        self._complete = self._complete or self._states.running == self._states.total
        about = policy_text(moved.acted, self.locate) if moved.acted is not None else self._about(moved)
        self._say_phase(about)

    def _about(self, moved: Moved) -> str:
        job, state = moved.job, moved.status.state
        match state.phase:
            case Phase.PENDING if not state.message:
                again = f"attempt {moved.attempt} of {job.spec.max_retry}: " if moved.attempt > 1 else ""
                waits = any(task.depends_on is not None for task in job.spec.tasks)
                # A restart of some leaves the others as they are.
                missing = job.total_replicas - moved.status.running - moved.status.succeeded
                return f"{again}starting" if waits else f"{again}starting {_pods(missing)}"
            case Phase.RUNNING:
                running = max(self._states.running, moved.status.running)
                # They may have been faster than we could look.
                return f"{running}/{job.total_replicas}" if running else ""
            case Phase.COMPLETED:
                failed = f", {moved.status.failed} failed" if moved.status.failed else ""
                return f"{moved.status.succeeded} succeeded{failed} in {self._elapsed()}"
            case Phase.TERMINATING | Phase.TERMINATED if self._stopping:
                return ""
            case phase if phase in FINAL or phase == Phase.ABORTED:
                # Which policy led to it has been told when it acted.
                return state.message.partition(";")[0]
            case _:
                return state.message

    def _tell_completeness(self) -> None:
        if self._phase == Phase.RUNNING and not self._complete and self._states.running == self._states.total:
            self._complete = True
            self._say_phase(f"{self._states.total}/{self._states.total}")

    def _restarted(self, restarted: Restarted) -> None:
        end, pod = restarted.end, restarted.pod
        container = "" if end.container == self._alone.get(pod.task) else f" {end.container}"
        line = f": {plain(one_line(end.last_line))}" if end.last_line else ""
        self._say(
            f"{self._elapsed():<5} {pod.short_name}{container} restart {restarted.count}: {how_it_ended(end)}{line}"
        )
        if restarted.hint:
            self._say(f"  hint: {restarted.hint}")

    def _ended(self, ended: Ended) -> None:
        self._bars.clear()
        self.screen.keep(())
        # What is told later, such as pods that are being killed, must not bring it back.
        self.screen.draws_on = None
        if ended.lines:
            self._say("\n" + "\n".join(map(plain, ended.lines)))
        for path in ended.kept[:_MOST_KEPT]:
            self._say(f"kept: {path}")
        if len(ended.kept) > _MOST_KEPT:
            self._say(f"kept: and {len(ended.kept) - _MOST_KEPT} more")

    def _bottom(self) -> list[str]:
        if self.screen.draws_on is None or not self._tasks:
            return []
        most = max(1, min(_MOST_BARS, self.screen.size()[1] // 3))
        coloured = style_for(self.screen.draws_on).coloured
        unicode = (self.screen.draws_on.encoding or "").lower().startswith("utf")
        state = state_line(self._phase, self._states, self._seconds(), coloured=coloured, unicode=unicode)
        return [*(self._bars[source] for source in sorted(self._bars)[:most]), state]

    def _say_phase(self, about: str) -> None:
        self._say(f"{self._elapsed():<5} {self._phase:<10} {about}".rstrip())

    def _say(self, text: str) -> None:
        self.screen.print(text.split("\n"), talk=True)

    def _seconds(self) -> float:
        return self.clock() - self._began

    def _elapsed(self) -> str:
        return f"{self._seconds():.1f}s"


def _pods(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"

"""What a person (or a program, with --json) sees of a running job."""

from __future__ import annotations

import datetime as dt
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pumice.cli.output import Style, style_for
from pumice.engines.local.logs import LogLine
from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd
from pumice.model.status import JobStatus
from pumice.model.vocabulary import Event
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.phases import FINAL

_COLOURS: Final = ("36", "32", "35", "34", "33", "96", "92", "95")


class View(Protocol):
    def plan(self, job: Job, images: str) -> None: ...

    def log(self, line: LogLine) -> None: ...

    def status(self, job: Job, status: JobStatus, events: Sequence[JobEvent]) -> None: ...

    def restarted(self, pod: str, end: ContainerEnd, count: int) -> None: ...

    def note(self, message: str) -> None: ...

    def warn(self, message: str) -> None: ...

    def verdict(self, lines: Sequence[str], fields: dict[str, object]) -> None: ...


@dataclass(slots=True)
class TextView:
    """Logs on stdout, each with its pod's name in its task's colour; talk on stderr."""

    prefix: bool = True
    locate: Callable[[str], str] = lambda path: path  # a policy's path -> the same with its line in the file
    _began: float = field(default_factory=time.monotonic)
    _tasks: list[str] = field(default_factory=list)
    _width: int = 0
    _phase: str = ""
    _warned: set[str] = field(default_factory=set)
    _out: Style = field(default_factory=lambda: style_for(sys.stdout))

    def plan(self, job: Job, images: str) -> None:
        self._tasks = [task.name for task in job.spec.tasks]
        names = [f"{task.name}-{max(task.replicas - 1, 0)}" for task in job.spec.tasks]
        self._width = max(map(len, names), default=0)
        total = job.total_replicas
        tasks = ", ".join(f"{task.name} {task.replicas}" for task in job.spec.tasks)
        plugins = f"   plugins {', '.join(job.spec.plugins)}" if job.spec.plugins else ""
        self._say(
            f"{job.name}  {total} pod{'' if total == 1 else 's'}: {tasks}   gang {job.spec.min_available}{plugins}"
            f"   images: {images}"
        )

    def log(self, line: LogLine) -> None:
        if line.unfinished and not sys.stdout.isatty():
            return
        task = line.pod.rpartition("-")[0]
        # A container that carries its task's name needs no second name.
        name = line.pod if line.container in (task, "") else f"{line.pod} {line.container}"
        text = f"{self._painted(task, name.ljust(self._width))}  {line.text}" if self.prefix else line.text
        print(text, end="\r" if line.unfinished else "\n", flush=True)

    def status(self, job: Job, status: JobStatus, events: Sequence[JobEvent]) -> None:
        """One line for what has changed: the policy that acted says more than the phase that it led to."""
        phase = status.state.phase
        acted = [event for event in events if event.policy]
        for event in acted:
            self._say(f"{self._elapsed()}  {phase:<10} {policy_text(event, self.locate)}")
        if phase != self._phase and not acted:
            self._say(f"{self._elapsed()}  {phase:<10} {_about(job, status, self._elapsed())}".rstrip())
        self._phase = phase

    def restarted(self, pod: str, end: ContainerEnd, count: int) -> None:
        again = f"{pod}: container {end.container} ended with {end.exit_code} and is started again (restart {count})"
        self._say(f"{self._elapsed()}  {again}: {end.last_line}" if end.last_line else f"{self._elapsed()}  {again}")
        if count == 3:  # noqa: PLR2004 - as the contract says, after three
            self._say("  hint: a policy {event: TaskFailed, action: TerminateJob} ends the job when this goes on")

    def note(self, message: str) -> None:
        self._say(message)

    def warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._say(f"warning: {message}")

    def verdict(self, lines: Sequence[str], fields: dict[str, object]) -> None:  # noqa: ARG002 - for programs
        self._say("\n" + "\n".join(lines))

    def _say(self, text: str) -> None:
        sys.stdout.flush()
        print(text, file=sys.stderr, flush=True)

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:.1f}s"

    def _painted(self, task: str, text: str) -> str:
        if not self._out.coloured or task not in self._tasks:
            return text
        return f"\x1b[{_COLOURS[self._tasks.index(task) % len(_COLOURS)]}m{text}\x1b[0m"


@dataclass(slots=True)
class JsonView:
    """One object a line on stdout; only the fields that apply."""

    _phase: str = ""
    _warned: set[str] = field(default_factory=set)

    def plan(self, job: Job, images: str) -> None:
        tasks = {task.name: task.replicas for task in job.spec.tasks}
        self._tell("plan", job=job.name, tasks=tasks, minAvailable=job.spec.min_available, images=images)

    def log(self, line: LogLine) -> None:
        if not line.unfinished:
            self._tell("log", pod=line.pod, container=line.container, stream=line.stream, line=line.text)

    def status(self, job: Job, status: JobStatus, events: Sequence[JobEvent]) -> None:  # noqa: ARG002 - as every view
        acted = next((event for event in events if event.policy), None)
        if status.state.phase != self._phase:
            self._phase = status.state.phase
            self._tell("phase", phase=self._phase, reason=status.state.reason, message=status.state.message)
        if acted is not None:
            self._tell("phase", phase=self._phase, pod=acted.pod, policy=acted.policy, action=acted.action)

    def restarted(self, pod: str, end: ContainerEnd, count: int) -> None:
        told: dict[str, object] = {"container": end.container, "code": end.exit_code, "line": end.last_line}
        self._tell("pod", pod=pod, attempt=count, reason="Restarted", **told)

    def note(self, message: str) -> None:
        self._tell("note", message=message)

    def warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._tell("warning", message=message)

    def verdict(self, lines: Sequence[str], fields: dict[str, object]) -> None:
        self._tell("verdict", message="\n".join(lines), **fields)

    def _tell(self, kind: str, **fields: object) -> None:
        moment = dt.datetime.now(dt.UTC).isoformat()
        shown = {name: value for name, value in fields.items() if value not in ("", None)}
        print(json.dumps({"time": moment, "type": kind, **shown}, ensure_ascii=False), flush=True)


def policy_text(event: JobEvent, locate: Callable[[str], str], *, who: bool = True) -> str:
    """`master-0 succeeded: TaskCompleted -> CompleteJob (tasks[0].policies[0], job.yaml:21)`."""
    path, _, name = event.policy.partition(" ")
    how = "succeeded: " if name == Event.TASK_COMPLETED else "failed: " if "Failed" in name else ""
    text = f"{name} -> {event.action} ({locate(path)})"
    return f"{event.pod} {how}{text}".lstrip() if who else text


def _about(job: Job, status: JobStatus, elapsed: str) -> str:
    match status.state.phase:
        case "Running":
            return f"{status.running}/{job.total_replicas}"
        case "Completed":
            return f"{status.succeeded} succeeded in {elapsed}"
        case phase if phase in FINAL:
            return status.state.message.partition(";")[0]
        case _:
            return status.state.message

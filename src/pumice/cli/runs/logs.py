"""`pumice logs [RUN|POD]...`: prints what the pods of runs printed, in one order, and follows them."""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, Final

from msgspec.structs import replace

from pumice.cli.runs.arguments import RUN_OR_POD_HELP, add_namespace, argument, chosen_run, run_command, run_or_pod
from pumice.client.backend import Backend, RunRef
from pumice.client.history_values import moment_of, pod_names
from pumice.client.run_options.kinds import read_time
from pumice.client.view.log_prefix import LogPrefix
from pumice.client.view.output import style_for
from pumice.client.view.screen import Screen
from pumice.model.problem import Position
from pumice.model.text import escaped
from pumice.model.units import to_milliseconds
from pumice.store.event_json import json_line
from pumice.store.history.event_log import RUN_MARK
from pumice.store.history.run_history import RunHistory
from pumice.store.logs.log_index import GAP
from pumice.store.logs.log_reader import LogSelection
from pumice.store.logs.log_source import UNKNOWN, Execution, LogBatch, stream_of
from pumice.store.run_errors import InvalidOption, NoSuchRun
from pumice.store.run_names import LAST, parse_pod

_NANOSECONDS: Final = 10**9


def _number(text: str, least: int = 0) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, {least} or more")
    return int(text)


@run_command(
    argument("targets", nargs="*", metavar="RUN|POD", help=RUN_OR_POD_HELP),
    argument("-f", "--follow", action="store_true", help="print new lines until the run ends"),
    argument("--pod", action="append", default=[], metavar="P", help="only this pod of a run; repeatable"),
    argument("--task", action="append", default=[], metavar="T", help="only pods of this task; repeatable"),
    argument("-c", "--container", default="", metavar="C", help="only this container"),
    argument("--attempt", type=partial(_number, least=1), default=0, metavar="A", help="only this attempt of the job"),
    argument("--previous", action="store_true", help="of each container, the execution before its newest"),
    argument("--since", metavar="10m", help="only lines of the last 10 minutes"),
    argument("--tail", type=_number, metavar="N", help="only the last N lines of all that would be printed"),
    argument("--grep", metavar="RE", help="only lines in which a regular expression (Python's) is found"),
    argument("-t", "--timestamps", action="store_true", help="print the time before each line"),
    argument("--no-prefix", action="store_true", help="print lines without the names of their pods"),
    argument("--json", action="store_true", help="print one JSON object per line"),
    add_namespace,
    waits=lambda args: args.follow,
)
async def logs(backend: Backend, args: argparse.Namespace) -> int:
    selection = _selection(backend, args)
    chosen = await _chosen(backend, args)
    views, sources = [], []
    for run, pods, history in chosen:
        label = f"{run}/" if len(chosen) > 1 else ""
        view = _View(str(run), history, args, label)
        lines = replace(selection, pods=pods)
        sources.append(backend.logs(run, lines, follow=args.follow, prefix=view.fast_prefix))
        views.append(view)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")

    async def show(run: RunRef, view: _View, source: AsyncIterator[Sequence[LogBatch]]) -> None:
        async for batches in source:
            if args.follow and view.begins_again(batches):
                view.history = await backend.history(run)
            view.show(batches)
        if args.follow:
            view.history = await backend.history(run)
        view.show_marks()

    parts = list(zip((run for run, *_ in chosen), views, sources, strict=True))
    if args.follow:
        import asyncio

        await asyncio.gather(*(show(*part) for part in parts))
    else:
        for part in parts:
            await show(*part)
    return 0


def _selection(backend: Backend, args: argparse.Namespace) -> LogSelection:
    if args.attempt and args.previous:
        raise InvalidOption("cannot be combined with --attempt", "leave out one of them", Position(option="previous"))
    if args.follow and args.previous:
        raise InvalidOption(
            "an execution that has ended cannot be followed", "leave out -f", Position(option="previous")
        )
    try:
        grep = None if args.grep is None else re.compile(args.grep)
    except re.error as error:
        raise InvalidOption(f"{args.grep}: {error}", "must be a regular expression", Position(option="grep")) from error
    since = 0
    if args.since is not None:
        since = int((backend.now().timestamp() - read_time("since", args.since)) * _NANOSECONDS)
    return LogSelection(
        tasks=frozenset(args.task),
        container=args.container,
        attempt=args.attempt,
        previous=args.previous,
        since=since,
        tail=args.tail,
        grep=grep,
    )


async def _chosen(backend: Backend, args: argparse.Namespace) -> list[tuple[RunRef, frozenset[str], RunHistory]]:
    """Return the runs that were named, each with its pods; none for all of them. A run is tried before a pod.

    `--pod` names pods of the runs. Raises InvalidOption and NoSuchRun.
    """
    named = next((target for target in args.targets if "/" in target), "") if args.pod else ""
    if named:
        raise InvalidOption(f"{named} names a pod already", "name the run, or leave out --pod", Position(option="pod"))
    if wrong := next((pod for pod in args.pod if parse_pod(pod) is None or "/" in pod), ""):
        raise InvalidOption(f"{escaped(wrong)}: must be TASK-INDEX, such as worker-0", where=Position(option="pod"))
    targets = [f"{run}/{pod}" for run in args.targets or [LAST] for pod in args.pod] or args.targets
    if not targets:
        run = await chosen_run(backend, None)
        return [(run, frozenset(), await backend.history(run))]
    found: dict[RunRef, set[str] | None] = {}
    histories: dict[RunRef, RunHistory] = {}
    for text in targets:
        run, pod = await run_or_pod(backend, text)
        history = histories[run] = histories.get(run) or await backend.history(run)
        if pod and "/" not in text and pod not in pod_names(history):
            raise NoSuchRun(f"{text}: no such run, and no such pod of {run}", "`pumice ps -a` lists all runs")
        pods = found.setdefault(run, set())
        if not pod or pods is None:
            found[run] = None
        else:
            pods.add(pod)
    return [(run, frozenset(pods or ()), histories[run]) for run, pods in found.items()]


@dataclass(slots=True)
class _View:
    """Prints the logs of one run: lines on stdout, and on stderr what happened to the run between them."""

    run: str
    history: RunHistory
    args: argparse.Namespace
    label: str  # the run, if there are several
    prefix: LogPrefix | None = field(init=False)
    _screen: Screen = field(init=False)
    _fast: bool = field(init=False)
    _attempt: int = 1
    _seen: set[Execution] = field(default_factory=set)
    _begun: bool = False  # lines were printed
    _marks: int = 0  # of the history that were printed, or passed over

    def __post_init__(self) -> None:
        self.prefix = None if self.args.no_prefix else LogPrefix.of(self.history.job)
        self._screen = Screen.of(sys.stdout, sys.stderr)
        utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        special = self.args.json or self.args.timestamps or sys.stdout.isatty()
        self._fast = utf8 and not special and hasattr(sys.stdout, "buffer")
        self._attempt = max(1, self.args.attempt)

    def show(self, batches: Sequence[LogBatch]) -> None:
        if self.args.json:
            self._write_json(batches)
            return
        begin = 0
        if self._new(batches) or max(map(itemgetter(3), batches)) >= GAP:
            for index, (_, execution, time, flags, _) in enumerate(batches):
                is_new = execution not in self._seen
                note = self._note(execution, flags)
                if notes := [*(self._marks_until(time) if is_new else ()), *([note] if note else ())]:
                    self._write(batches[begin:index])
                    self._screen.print(notes, message=True)
                    begin = index
        self._write(batches[begin:] if begin else batches)

    def begins_again(self, batches: Sequence[LogBatch]) -> bool:
        """Whether lines are the first ones of a pod that replaces another, so that something happened to the run."""
        return any(execution.number > 1 for execution in self._new(batches))

    def show_marks(self) -> None:
        """Print what happened to the run after its last line."""
        if notes := self._marks_until(sys.maxsize):
            self._screen.print(notes, message=True)

    def _new(self, batches: Sequence[LogBatch]) -> set[Execution]:
        return set(map(itemgetter(1), batches)) - self._seen

    def _marks_until(self, time: int) -> list[str]:
        """Return what happened to the run before this moment: nothing before the first line, which may be any line."""
        marks, attempt, notes = self.history.events.marks, self.args.attempt, list[str]()
        while self._marks < len(marks) and marks[self._marks].time <= time:
            mark = marks[self._marks]
            self._marks += 1
            if mark.kind == RUN_MARK and attempt in (0, mark.attempt):
                notes.append(f"{self.label[:-1]} {escaped(mark.text)}".lstrip())
        is_between, self._begun = self._begun and not (self.args.previous or self.args.json), True
        return notes if is_between else []

    def _note(self, execution: Execution, flags: int) -> str:
        pod = f"{self.label}{execution.pod}"
        if flags & GAP:
            return f"{style_for(sys.stderr).warning('warning:')} {pod}: output is missing here; its log says how much"
        if execution in self._seen:
            return ""
        self._seen.add(execution)
        if execution.attempt > self._attempt:
            self._attempt = execution.attempt
            return f"{self.label[:-1]} attempt {execution.attempt}".lstrip()
        return f"{pod} restart {execution.restart}" if execution.restart else ""

    def fast_prefix(self, execution: Execution) -> bytes:
        """Return the prefix of the lines that are written as they are."""
        if self.prefix is None or not self._fast:
            return b""
        return f"{self.label}{self.prefix.text(execution.pod, execution.container, coloured=False)}".encode()

    def _write(self, batches: Sequence[LogBatch]) -> None:
        if self._fast:
            text = b"".join(map(itemgetter(4), batches))
            sys.stdout.buffer.write(text if text.isascii() else text.decode("utf-8", "replace").encode())
            sys.stdout.buffer.flush()
            return
        coloured, lines = style_for(sys.stdout).coloured, list[str]()
        for _, execution, time, _, text in batches:
            # As `run --timestamps` prints it.
            moment = "-" if time == UNKNOWN else to_milliseconds(moment_of(time))
            start = f"{moment} " if self.args.timestamps else ""
            if self.prefix is not None:
                start += self.label + self.prefix.text(execution.pod, execution.container, coloured=coloured)
            lines += [start + line for line in _lines(text)]
        if lines:
            self._screen.print(lines)

    def _write_json(self, batches: Sequence[LogBatch]) -> None:
        found = []
        for _, execution, time, flags, text in batches:
            fields: dict[str, Any] = {} if time == UNKNOWN else {"time": moment_of(time).isoformat()}
            fields |= {"type": "log", "run": self.run, "pod": execution.pod, "container": execution.container}
            fields |= {"stream": stream} if (stream := stream_of(time, flags)) else {}
            fields |= {"attempt": execution.attempt, "restart": execution.restart}
            found += [json_line({**fields, "line": line}) for line in _lines(text)]
        sys.stdout.write("".join(found))
        sys.stdout.flush()


def _lines(text: bytes) -> list[str]:
    return text.removesuffix(b"\n").decode("utf-8", "replace").split("\n")

"""`pumice logs [RUN|POD]...`: prints what the pods of runs printed, in one order, and follows them."""

from __future__ import annotations

import argparse
import asyncio
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from msgspec.structs import replace

from pumice.cli.runs.arguments import add_namespace, chosen_run, client_of, guarded, seconds
from pumice.client.local_client import LocalClient
from pumice.client.run_logs import RunLogs, check_selection, moment_of, planned_job, pod_names
from pumice.client.view.log_prefix import LogPrefix
from pumice.client.view.output import style_for
from pumice.client.view.screen import Screen
from pumice.engines.local.event_json import json_line
from pumice.engines.local.logs.log_index import GAP
from pumice.engines.local.logs.log_reader import LogSelection
from pumice.engines.local.logs.log_source import UNKNOWN, Execution, LogBatch, stream_of
from pumice.engines.local.run_errors import InvalidOption, NoSuchRun
from pumice.engines.local.runs.run_store import StoredRun
from pumice.model.problem import Position

_NANOSECONDS: Final = 10**9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "a run (NAME, NAME:N, @last, uid) or a pod ([RUN/]TASK-INDEX); default @last"
    parser.add_argument("targets", nargs="*", metavar="RUN|POD", help=help_text)
    parser.add_argument("-f", "--follow", action="store_true", help="print new lines until the run ends")
    parser.add_argument("--task", action="append", default=[], metavar="T", help="only pods of this task; repeatable")
    parser.add_argument("-c", "--container", default="", metavar="C", help="only this container")
    parser.add_argument("--attempt", type=_positive, default=0, metavar="A", help="only this attempt of the job")
    parser.add_argument("--previous", action="store_true", help="of each container, the execution before its newest")
    parser.add_argument("--since", metavar="10m", help="only lines of the last 10 minutes")
    parser.add_argument("--tail", type=_natural, metavar="N", help="only the last N lines of all that would be printed")
    parser.add_argument("--grep", metavar="RE", help="only lines in which a regular expression (Python's) is found")
    parser.add_argument("-t", "--timestamps", action="store_true", help="print the time before each line")
    parser.add_argument("--no-prefix", action="store_true", help="print lines without the names of their pods")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _logs(client_of(args), args))


def _positive(text: str) -> int:
    return _number(text, 1)


def _natural(text: str) -> int:
    return _number(text, 0)


def _number(text: str, least: int) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, {least} or more")
    return int(text)


def _logs(client: LocalClient, args: argparse.Namespace) -> int:
    selection = _selection(client, args)
    chosen = _chosen(client, args.targets)
    views = []
    for stored, pods in chosen:
        job = planned_job(stored)
        check_selection(stored, replace(selection, pods=pods), follow=args.follow)
        label = f"{stored.ref}/" if len(chosen) > 1 else ""
        prefix = None if args.no_prefix else LogPrefix.of(job)
        views.append(_View(stored, replace(selection, pods=pods), prefix, args, label))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if args.follow:
        client.revive([stored for stored, _ in chosen])
        asyncio.run(_follow(views))
    else:
        for view in views:
            for batches in view.logs.read():
                view.show(batches)
    return 0


async def _follow(views: Sequence[_View]) -> None:
    async def follow(view: _View) -> None:
        async for batches in view.logs.follow():
            view.show(batches)

    await asyncio.gather(*map(follow, views))


def _selection(client: LocalClient, args: argparse.Namespace) -> LogSelection:
    if args.attempt and args.previous:
        raise InvalidOption("cannot be combined with --attempt", "leave out one of them", Position("--previous"))
    if args.follow and args.previous:
        raise InvalidOption("an execution that has ended cannot be followed", "leave out -f", Position("--previous"))
    try:
        grep = None if args.grep is None else re.compile(args.grep)
    except re.error as error:
        raise InvalidOption(f"{args.grep}: {error}", "must be a regular expression", Position("--grep")) from error
    since = 0
    if args.since is not None:
        since = int((client.now().timestamp() - seconds(args.since, "--since")) * _NANOSECONDS)
    return LogSelection(
        tasks=frozenset(args.task),
        container=args.container,
        attempt=args.attempt,
        previous=args.previous,
        since=since,
        tail=args.tail,
        grep=grep,
    )


def _chosen(client: LocalClient, targets: Sequence[str]) -> list[tuple[StoredRun, frozenset[str]]]:
    """Return the runs that were named, each with its pods; none for all of them. A run is tried before a pod."""
    if not targets:
        return [(chosen_run(client, None), frozenset())]
    found: dict[str, tuple[StoredRun, set[str] | None]] = {}
    for text in targets:
        stored, pod = _target(client, text)
        _, pods = found.setdefault(stored.record.uid, (stored, set()))
        if not pod or pods is None:
            found[stored.record.uid] = (stored, None)
        else:
            pods.add(pod)
    return [(stored, frozenset(pods or ())) for stored, pods in found.values()]


def _target(client: LocalClient, text: str) -> tuple[StoredRun, str]:
    stored, pod = client.find_run_or_pod(text)
    if pod and "/" not in text:
        print(stored.ref, file=sys.stderr)
        if pod not in pod_names(stored, planned_job(stored)):
            raise NoSuchRun(f"{text}: no such run, and no such pod of {stored.ref}", "`pumice ps -a` lists all runs")
    return stored, pod


@dataclass(slots=True)
class _View:
    """Prints the logs of one run: lines on stdout, and on stderr where another attempt or a restart begins."""

    stored: StoredRun
    selection: LogSelection
    prefix: LogPrefix | None
    args: argparse.Namespace
    label: str  # the run, if there are several
    logs: RunLogs = field(init=False)
    _screen: Screen = field(init=False)
    _fast: bool = field(init=False)
    _attempt: int = 1
    _seen: set[Execution] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._screen = Screen.of(sys.stdout, sys.stderr)
        utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        special = self.args.json or self.args.timestamps or sys.stdout.isatty()
        self._fast = utf8 and not special and hasattr(sys.stdout, "buffer")
        self._attempt = max(1, self.args.attempt)
        self.logs = RunLogs(self.stored, self.selection, self._prefix if self._fast else lambda _execution: b"")

    def show(self, batches: Sequence[LogBatch]) -> None:
        if self.args.json:
            self._write_json(batches)
            return
        begin = 0
        new = set(map(itemgetter(1), batches)) - self._seen
        if new or max(map(itemgetter(3), batches)) >= GAP:
            for index, (_, execution, _, flags, text) in enumerate(batches):
                if note := self._note(execution, flags, text):
                    self._write(batches[begin:index])
                    self._screen.print([note], message=True)
                    begin = index
        self._write(batches[begin:] if begin else batches)

    def _note(self, execution: Execution, flags: int, text: bytes) -> str:
        pod = f"{self.label}{execution.pod}"
        if flags & GAP:
            missing = text.decode("utf-8", "replace").strip().rpartition("[pumice: ")[2].removesuffix("]")
            return f"{style_for(sys.stderr).warning('warning:')} {pod}: {missing}"
        if execution in self._seen:
            return ""
        self._seen.add(execution)
        if execution.attempt > self._attempt:
            self._attempt = execution.attempt
            return (
                f"{self.label}attempt {execution.attempt}"
                if not self.label
                else f"{self.label[:-1]} attempt {execution.attempt}"
            )
        return f"{pod} restart {execution.restart}" if execution.restart else ""

    def _prefix(self, execution: Execution) -> bytes:
        if self.prefix is None:
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
            start = f"{_moment(time)} " if self.args.timestamps else ""
            if self.prefix is not None:
                start += self.label + self.prefix.text(execution.pod, execution.container, coloured=coloured)
            lines += [start + line for line in _lines(text)]
        if lines:
            self._screen.print(lines)

    def _write_json(self, batches: Sequence[LogBatch]) -> None:
        found = []
        for _, execution, time, flags, text in batches:
            fields: dict[str, Any] = {} if time == UNKNOWN else {"time": moment_of(time).isoformat()}
            fields |= {"type": "log", "run": self.stored.ref, "pod": execution.pod, "container": execution.container}
            fields |= {"stream": stream} if (stream := stream_of(time, flags)) else {}
            fields |= {"attempt": execution.attempt, "restart": execution.restart}
            found += [json_line({**fields, "line": line}) for line in _lines(text)]
        sys.stdout.write("".join(found))
        sys.stdout.flush()


def _lines(text: bytes) -> list[str]:
    return text.removesuffix(b"\n").decode("utf-8", "replace").split("\n")


def _moment(time: int) -> str:
    """As `run --timestamps` prints it."""
    return "-" if time == UNKNOWN else moment_of(time).isoformat(timespec="milliseconds").replace("+00:00", "Z")

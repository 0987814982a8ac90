"""`pumice explain FILE [POD]`: prints everything in a pod, where it comes from, and why."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from typing import Final

from pumice.cli.errors import BAD_INPUT, refuse
from pumice.cli.jobfile import add_gang_argument, load_valid
from pumice.client.explanation import Explained, explain, find_slots, heading
from pumice.client.job_files import JobDocument, as_stored
from pumice.client.view.output import Style, columns, fit, style_for, table
from pumice.model.slot import Slot
from pumice.model.suggestions import nearest
from pumice.model.text import escaped, some
from pumice.model.vocabulary import GANG_PROVIDERS
from pumice.plugins.base import PluginError
from pumice.plugins.provenance import YOU
from pumice.reconcile.gangs import GangMembership

_LONGEST_VALUE: Final = 60
_WIDTH: Final = 80  # where there is no terminal: the text is for people, `--json` for programs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a Job file, or - for standard input")
    parser.add_argument(
        "pod", metavar="POD", nargs="?", default="", help="a pod, such as worker-1; default: the first of each task"
    )
    add_gang_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run(args: argparse.Namespace) -> int:
    loaded = load_valid(args.file)
    if loaded is None:
        return BAD_INPUT
    chosen = [
        (entry, position, slot)
        for entry in loaded.jobs
        for position, slot in find_slots(as_stored(entry.admitted), args.pod)
    ]
    if not chosen:
        return refuse(f"{args.file}: {_no_such_pod(args.pod, loaded.jobs)}")
    membership = GangMembership(GANG_PROVIDERS[args.gang])

    def explained(entry: JobDocument, position: int, slot: Slot) -> Explained:
        return explain(entry.admitted, position, slot, membership, lambda path: entry.document.position(path)[0])

    write = _write_json if args.json else _write_text
    try:
        # One pod at a time: in a job of a thousand tasks, each has thousands of variables.
        write(starmap(explained, chosen), style_for(sys.stdout))
    except PluginError as error:
        return refuse(f"{args.file}: {error}")
    return 0


def _no_such_pod(name: str, jobs: Sequence[JobDocument]) -> str:
    tasks = [task for entry in jobs for task in entry.admitted.job.spec.tasks if task.replicas > 0]
    if not name:
        return "the job has no pods"
    ranges = [f"{t.name}-0" if t.replicas == 1 else f"{t.name}-0 to {t.name}-{t.replicas - 1}" for t in tasks]
    stem, _, index = name.rpartition("-")
    close = nearest(stem, [task.name for task in tasks])
    # If the task exists, the index is too high, which the list of pods shows.
    suggestion = f"did you mean {close}-{index}? " if close not in (None, stem) else ""
    return f"{name}: no such pod\n  hint: {suggestion}there are {some(ranges) or 'none'}"


def _write_json(explained: Iterable[Explained], _style: Style) -> None:
    for one in explained:
        for trace in one.traces:
            same = {name: getattr(trace, name) for name in ("kind", "container", "name", "value", "by")}
            fields = {"pod": one.slot.pod_name, **same, "why": one.why(trace), "line": one.line(trace)}
            print(json.dumps(fields, ensure_ascii=False))


def _write_text(explained: Iterable[Explained], style: Style) -> None:
    for count, one in enumerate(explained):
        if count:
            print()
        print(fit(_title(one, style), sys.stdout))
        print()
        for line in _body(one, style, columns(sys.stdout) or _WIDTH):
            print(line)


def _title(one: Explained, style: Style) -> str:
    values = {trace.name: trace.value for trace in one.traces if trace.kind == "env"}
    rank = f"   rank {values['RANK']} of {values['WORLD_SIZE']}" if {"RANK", "WORLD_SIZE"} <= set(values) else ""
    names = {trace.kind: trace.value for trace in one.traces}
    host = f"   {names['hostname']}.{names['subdomain']}" if {"hostname", "subdomain"} <= set(names) else ""
    return style.bold(f"pod {one.slot.pod_name}") + escaped(rank + host)


def _body(one: Explained, style: Style, width: int | None) -> Iterator[str]:
    groups: dict[str, list[tuple[str, ...]]] = {}
    for trace in one.in_order():
        line = one.line(trace)
        by = f"{YOU} (line {line})" if line is not None else trace.by
        value = trace.value if trace.kind != "command" else trace.value.partition("\n")[0]
        shown = value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 3] + "..."
        groups.setdefault(heading(trace), []).append((trace.name or trace.kind, shown, by, one.why(trace)))
    lines = table([row for group in groups.values() for row in group], "  ")
    if width is not None and max(map(len, lines), default=0) > width:
        # Each group has columns of its own, which are narrower.
        for title, group in groups.items():
            yield style.bold(title)
            yield from table(group, "  ", width)
        return
    for title, group in groups.items():
        yield style.bold(title)
        yield from lines[: len(group)]
        del lines[: len(group)]

"""`pumice explain FILE [POD]`: prints everything in a pod, where it comes from, and why."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pumice.admission.admit import Admitted
from pumice.cli.jobfile import JobDocument, add_gang_argument, as_stored, load_valid
from pumice.cli.output import Style, columns, fit, style_for, table
from pumice.model.findings import Path
from pumice.model.job import Job, TaskSpec
from pumice.model.slot import Slot
from pumice.model.snapshot import GANG_PROVIDERS
from pumice.model.suggestions import nearest
from pumice.model.text import some
from pumice.plugins.guard import PluginError
from pumice.plugins.provenance import JOB, YOU, Trace, trace_pod
from pumice.reconcile.gangs import GangMembership
from pumice.yaml.documents import Document

# The kinds in the order of the output, each with its heading.
_HEADINGS: Final = {
    "env": "env",
    "command": "command",
    "port": "ports",
    "mount": "mounts",
    "init": "init containers",
    "volume": "volumes",
    "hostname": "names",
    "subdomain": "names",
    "schedulerName": "scheduling",
    "schedulingGroup": "scheduling",
    "priorityClassName": "scheduling",
    "label": "labels",
    "annotation": "annotations",
    "default": "defaults",
}
_ORDER: Final = list(_HEADINGS)
_LONGEST_VALUE: Final = 60
DEFAULT: Final = "default"


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
        return 2
    chosen = [
        (entry, position, slot)
        for entry in loaded.jobs
        for position, slot in _slots(as_stored(entry.admitted), args.pod)
    ]
    if not chosen:
        print(f"{args.file}: {_no_such_pod(args.pod, loaded.jobs)}", file=sys.stderr)
        return 2
    # One pod at a time: in a job of a thousand tasks, each has thousands of variables.
    membership = GangMembership(GANG_PROVIDERS[args.gang])
    explained = (_explained(entry, position, slot, membership) for entry, position, slot in chosen)
    write = _write_json if args.json else _write_text
    try:
        write(explained, style_for(sys.stdout))
    except PluginError as error:
        print(f"{args.file}: {error}", file=sys.stderr)
        return 2
    return 0


@dataclass(frozen=True, slots=True)
class _Explained:
    """One pod with the provenance of everything in it, and the defaults of its job."""

    slot: Slot
    traces: list[Trace]
    document: Document
    notes: dict[Path, str]  # messages of the warnings about the template

    def line(self, trace: Trace) -> int | None:
        return None if trace.path is None else self.document.position(trace.path)[0]

    def why(self, trace: Trace) -> str:
        if trace.path is None:
            # The volumes and mounts that the job itself adds are those of spec.volumes.
            of_claim = trace.by == JOB and trace.kind in ("volume", "mount")
            return "spec.volumes" if of_claim else trace.why
        inside = [note for path, note in self.notes.items() if path[: len(trace.path)] == trace.path]
        return inside[0] if inside else ""


def _explained(entry: JobDocument, position: int, slot: Slot, membership: GangMembership) -> _Explained:
    traces = trace_pod(slot, position, (*entry.admitted.plugins, membership))
    notes = {finding.path: finding.message for finding in entry.admitted.findings}
    return _Explained(slot, [*traces, *_defaults(entry.admitted, position)], entry.document, notes)


def _slots(job: Job, name: str) -> Iterator[tuple[int, Slot]]:
    """The slot of the pod with this name; without a name, the first of each task."""
    for position, task in enumerate(job.spec.tasks):
        stem, _, index = name.rpartition("-")
        if not name:
            if task.replicas > 0:
                yield position, Slot(job, task, 0)
        elif stem in (task.name, f"{job.name}-{task.name}") and index.isdecimal() and int(index) < task.replicas:
            yield position, Slot(job, task, int(index))


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


def _defaults(admitted: Admitted, position: int) -> Iterator[Trace]:
    """The values that admission filled in because the file left them out."""
    written, job = admitted.written.spec, admitted.job.spec
    was, task = written.tasks[position], job.tasks[position]
    pairs: list[tuple[str, object, object, str]] = [
        ("queue", written.queue, job.queue, ""),
        ("maxRetry", written.max_retry, job.max_retry, "runs before the job fails"),
        ("schedulerName", written.scheduler_name, job.scheduler_name, ""),
        ("minAvailable", written.min_available, job.min_available, "all that the tasks need"),
        (f"tasks[{position}].name", was.name, task.name, "position of the task"),
        (f"tasks[{position}].minAvailable", was.min_available, task.min_available, _why_min_available(task)),
        (f"tasks[{position}].maxRetry", was.max_retry, task.max_retry, "container restarts before TaskFailed"),
    ]
    if was.template != task.template:
        pairs.append(("dnsPolicy", None, task.template["spec"]["dnsPolicy"], "for a pod on the host's network"))
    for name, before, after, why in pairs:
        if before != after:
            yield Trace("default", "", name, str(after), DEFAULT, why)
    for name in job.plugins:
        if name not in written.plugins:
            yield Trace("default", "", f"plugins.{name}", "[]", DEFAULT, _why_plugin(name, admitted))


def _why_min_available(task: TaskSpec) -> str:
    policy = task.partition_policy
    return "minPartitions times partitionSize" if policy is not None and policy.min_partitions else "its replicas"


def _why_plugin(name: str, admitted: Admitted) -> str:
    needing = [plugin.name for plugin in admitted.plugins if name in plugin.requires]
    return f"needed by {', '.join(needing)}"


def _write_json(explained: Iterable[_Explained], _style: Style) -> None:
    for one in explained:
        for trace in one.traces:
            fields = {
                "pod": one.slot.pod_name,
                "kind": trace.kind,
                "container": trace.container,
                "name": trace.name,
                "value": trace.value,
                "by": trace.by,
                "why": one.why(trace),
                "line": one.line(trace),
            }
            print(json.dumps(fields, ensure_ascii=False))


def _write_text(explained: Iterable[_Explained], style: Style) -> None:
    for count, one in enumerate(explained):
        if count:
            print()
        print(fit(_title(one, style), sys.stdout))
        print()
        for line in _body(one, style, columns(sys.stdout)):
            print(line)


def _title(one: _Explained, style: Style) -> str:
    values = {trace.name: trace.value for trace in one.traces if trace.kind == "env"}
    rank = f"   rank {values['RANK']} of {values['WORLD_SIZE']}" if {"RANK", "WORLD_SIZE"} <= set(values) else ""
    names = {trace.kind: trace.value for trace in one.traces}
    host = f"   {names['hostname']}.{names['subdomain']}" if {"hostname", "subdomain"} <= set(names) else ""
    return style.bold(f"pod {one.slot.pod_name}") + rank + host


def _body(one: _Explained, style: Style, width: int | None) -> Iterator[str]:
    groups: dict[str, list[tuple[str, ...]]] = {}
    order = sorted(one.traces, key=lambda trace: _ORDER.index(trace.kind))
    for trace in order:
        heading = _HEADINGS[trace.kind] + (f" of container {trace.container}" if trace.container else "")
        groups.setdefault(heading, []).append(_row(one, trace))
    lines = table([row for group in groups.values() for row in group], "  ")
    if width is not None and max(map(len, lines), default=0) > width:
        # Each group has columns of its own, which are narrower.
        for heading, group in groups.items():
            yield style.bold(heading)
            yield from table(group, "  ", width)
        return
    for heading, group in groups.items():
        yield style.bold(heading)
        yield from lines[: len(group)]
        del lines[: len(group)]


def _row(one: _Explained, trace: Trace) -> tuple[str, ...]:
    line = one.line(trace)
    by = f"{YOU} (line {line})" if line is not None else trace.by
    value = trace.value if trace.kind != "command" else trace.value.splitlines()[0]
    shown = value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 3] + "..."
    return (trace.name or trace.kind, shown, by, one.why(trace))

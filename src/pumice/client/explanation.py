"""Everything in a pod with where it comes from and why, and the values that admission filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from pumice.admission.admit import Admitted
from pumice.model.findings import Path
from pumice.model.job import Job
from pumice.model.slot import Slot
from pumice.plugins.provenance import JOB, Trace, trace_pod
from pumice.reconcile.gangs import GangMembership

# The kinds in the order of the output, each with its heading.
HEADINGS: Final = {
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
_ORDER: Final = list(HEADINGS)


class Explained(Struct, frozen=True):
    """One pod with the provenance of everything in it, and the defaults of its job. `line_of` finds a path's line."""

    slot: Slot
    traces: list[Trace]
    line_of: Callable[[Path], int | None]
    notes: Mapping[Path, str]  # messages of the warnings about the template

    def line(self, trace: Trace) -> int | None:
        return None if trace.path is None else self.line_of(trace.path)

    def why(self, trace: Trace) -> str:
        if trace.path is None:
            # The volumes and mounts that the job itself adds are those of spec.volumes.
            of_claim = trace.by == JOB and trace.kind in ("volume", "mount")
            return "spec.volumes" if of_claim else trace.why
        inside = [note for path, note in self.notes.items() if path[: len(trace.path)] == trace.path]
        return inside[0] if inside else ""

    def in_order(self) -> list[Trace]:
        return sorted(self.traces, key=lambda trace: _ORDER.index(trace.kind))


def heading(trace: Trace) -> str:
    return HEADINGS[trace.kind] + (f" of container {trace.container}" if trace.container else "")


def explain(
    admitted: Admitted, position: int, slot: Slot, membership: GangMembership, line_of: Callable[[Path], int | None]
) -> Explained:
    """`position` is that of the slot's task. Raises PluginError."""
    traces = trace_pod(slot, position, (*admitted.plugins, membership))
    notes = {finding.path: finding.message for finding in admitted.findings}
    return Explained(slot, [*traces, *_defaults(admitted, position)], line_of, notes)


def find_slots(job: Job, name: str) -> Iterator[tuple[int, Slot]]:
    """Yield the slot of the pod with this name; without a name, the first of each task."""
    for position, task in enumerate(job.spec.tasks):
        stem, _, index = name.rpartition("-")
        if not name:
            if task.replicas > 0:
                yield position, Slot(job, task, 0)
        elif stem in (task.name, f"{job.name}-{task.name}") and index.isdecimal() and int(index) < task.replicas:
            yield position, Slot(job, task, int(index))


def _defaults(admitted: Admitted, position: int) -> Iterator[Trace]:
    """The values that admission filled in because the file left them out."""
    written, job = admitted.written.spec, admitted.job.spec
    was, task = written.tasks[position], job.tasks[position]
    policy = task.partition_policy
    least = "minPartitions times partitionSize" if policy is not None and policy.min_partitions else "its replicas"
    pairs: list[tuple[str, object, object, str]] = [
        ("queue", written.queue, job.queue, ""),
        ("maxRetry", written.max_retry, job.max_retry, "runs before the job fails"),
        ("schedulerName", written.scheduler_name, job.scheduler_name, ""),
        ("minAvailable", written.min_available, job.min_available, "all that the tasks need"),
        (f"tasks[{position}].name", was.name, task.name, "position of the task"),
        (f"tasks[{position}].minAvailable", was.min_available, task.min_available, least),
        (f"tasks[{position}].maxRetry", was.max_retry, task.max_retry, "container restarts before TaskFailed"),
    ]
    if was.template != task.template:
        pairs.append(("dnsPolicy", None, task.template["spec"]["dnsPolicy"], "for a pod on the host's network"))
    for name, before, after, why in pairs:
        if before != after:
            yield Trace("default", "", name, str(after), "default", why)
    for name in job.plugins:
        if name not in written.plugins:
            needing = [plugin.name for plugin in admitted.plugins if name in plugin.requires]
            yield Trace("default", "", f"plugins.{name}", "[]", "default", f"needed by {', '.join(needing)}")

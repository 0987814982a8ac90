"""Updates of a Job: only its size, its priority and `suspend` may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pumice.admission.numbers import check_least, check_relations
from pumice.admission.topology import check_topology
from pumice.model.findings import SPEC, Finding, Path
from pumice.model.job import Job, JobSpec, scaled
from pumice.model.quantity import Quantity

MUTABLE: Final = ("minAvailable", "priorityClassName", "suspend", "tasks[*].replicas", "tasks[*].minAvailable")
# A longer one would not fit into a refusal; it is left out.
LONGEST_COMMAND: Final = 800
# Fields that are quantities, and fields that map resource names to quantities, each below the field that has it.
_QUANTITIES: Final = {("emptyDir", "sizeLimit"), ("resourceFieldRef", "divisor")}
_RESOURCE_LISTS: Final = {("resources", "limits"), ("resources", "requests"), ("spec", "overhead")}


def check_update(old: Job, new: Job) -> Iterator[Finding]:
    """Yield findings about the update; none if the spec did not change."""
    if old.spec == new.spec:
        # Labels and finalizers of a Job that was admitted by older rules can still change.
        return
    yield from check_least(new)
    yield from _check_numbers(old, new)
    yield from check_topology(new)
    if len(old.spec.tasks) != len(new.spec.tasks):
        yield Finding(
            SPEC / "tasks",
            f"tasks cannot be added or removed: there were {len(old.spec.tasks)}, now {len(new.spec.tasks)}",
            hint="create a new job, or set replicas to 0",
        )
        return
    for path in _differences(_fixed(old.spec), _fixed(new.spec), SPEC):
        yield Finding(path, "cannot be changed once the job exists", hint=f"only {', '.join(MUTABLE)} can")


def scale_down_command(stored: Job, wanted: Job) -> str:
    """Return the command that gives the stored Job these replicas, and lowers each minAvailable that exceeds them.

    Empty if that would not be enough. Users may not know minAvailable, which a default filled in.
    """
    spec = scaled(wanted.spec, {task.name: task.replicas for task in wanted.spec.tasks})
    lowered = msgspec.structs.replace(wanted, spec=spec)
    names = [task.name for task in stored.spec.tasks]
    if names != [task.name for task in spec.tasks] or [*check_relations(lowered), *check_topology(lowered)]:
        return ""
    numbers = [("/spec/minAvailable", stored.spec.min_available, spec.min_available)]
    for position, (was, is_) in enumerate(zip(stored.spec.tasks, spec.tasks, strict=True)):
        numbers.append((f"/spec/tasks/{position}/replicas", was.replicas, is_.replicas))
        numbers.append((f"/spec/tasks/{position}/minAvailable", was.min_members, is_.min_members))
    # `add` also replaces: a field that a default stands for may not exist.
    operations = [{"op": "add", "path": path, "value": is_} for path, was, is_ in numbers if was != is_]
    patch = msgspec.json.encode(operations).decode()
    command = f"kubectl -n {stored.namespace or 'default'} patch vcjob {stored.name} --type=json -p '{patch}'"
    return command if len(command) <= LONGEST_COMMAND else ""


def _check_numbers(old: Job, new: Job) -> Iterator[Finding]:
    """Check numbers against each other. If a task is scaled down, the first finding has the command that does it."""
    replicas = {task.name: task.replicas for task in old.spec.tasks}
    fewer = any(task.replicas < replicas.get(task.name, 0) for task in new.spec.tasks)
    command = scale_down_command(old, new) if fewer else ""
    for finding in check_relations(new):
        if command and finding.path[-1] == "minAvailable":
            yield msgspec.structs.replace(finding, hint=f"lower both in one patch: {command}")
            command = ""
        else:
            yield finding


def _fixed(spec: JobSpec) -> Any:
    """Return the immutable part of a spec as plain data."""
    tasks = [msgspec.structs.replace(task, replicas=0, min_available=None) for task in spec.tasks]
    volumes = [volume.as_written for volume in spec.volumes]
    fixed = msgspec.structs.replace(
        spec, min_available=0, priority_class_name="", suspend=None, tasks=tasks, volumes=volumes
    )
    return msgspec.to_builtins(fixed)


def _differences(old: Any, new: Any, at: Path) -> Iterator[Path]:
    """Yield the deepest paths that differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            if "template" in at and _is_unset(key, old.get(key)) and _is_unset(key, new.get(key)):
                continue
            if key not in old or key not in new:
                yield at / key
            else:
                yield from _differences(old[key], new[key], at / key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for position, (was, is_) in enumerate(zip(old, new, strict=True)):
            yield from _differences(was, is_, at / position)
    elif old != new and not _are_equal_quantities(old, new, at):
        yield at


def _are_equal_quantities(old: object, new: object, at: Path) -> bool:
    """Return whether both are the same quantity: a client that sends a template back may write 1 for 1000m."""
    if at[-2:] not in _QUANTITIES and at[-3:-1] not in _RESOURCE_LISTS:
        return False
    try:
        return Quantity.parse(old) == Quantity.parse(new)
    except ValueError:
        return False


def _is_unset(field: object, value: object) -> bool:
    """Return whether a field of a template is equivalent to an absent one; Volcano's webhook adds such fields."""
    if field in ("metadata", "resources") and isinstance(value, Mapping):
        return all(item is None for item in value.values())
    return value is None or value == []

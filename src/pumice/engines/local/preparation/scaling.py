"""Sizes of a job: those that the options ask for, those that fit this machine, and updates of a running job.

To make a job fit this machine, as `--fit` and `--ignore` ask, resources are left out, and requests and limits lowered.
The Job's own templates change, before plugins shape the pods, so that what plugins derive from a resource follows.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from pumice.admission.admit import Admitted, admit_stored
from pumice.admission.updates import check_update
from pumice.engines.local.images.lookup import image_names
from pumice.engines.local.images.names import normalised
from pumice.engines.local.scheduling.fit import Fit, fit, pod_requests
from pumice.engines.local.scheduling.machine import Machine
from pumice.model import keys
from pumice.model.job import Job, JobSpec, JobStatus, Manifest, TaskSpec, scaled
from pumice.model.problem import Option, Position, Problem
from pumice.model.quantity import Format, Quantity
from pumice.model.resources import is_extended
from pumice.model.slot import slots
from pumice.model.suggestions import did_you_mean
from pumice.plugins.shaping import pods
from pumice.runtime.offline_context import offline_context
from pumice.store.history.run_history import RunHistory
from pumice.store.options import RunOptions
from pumice.store.run_errors import InvalidOption

_MOST_NAMED = 8
_NANO: Final = 10**9
_STEPS: Final = {"cpu": _NANO // 1000, "memory": 2**20 * _NANO}  # what amounts are rounded down to
# Containers that plugins add keep their requests, so that the first attempt may not be enough.
_ATTEMPTS: Final = (Fraction(1), Fraction(1, 2), Fraction(0))
# A job that asked for all available memory would wait: what other programs use changes from moment to moment.
_MEMORY_SHARE: Final = Fraction(7, 8)
_KINDS: Final = ("initContainers", "containers")
# Changes the requests and the limits of a container, or of a pod as a whole: its task, its name in messages.
Edit = Callable[[str, str, dict[str, Any], dict[str, Any]], None]


class Fitted(Struct, frozen=True):
    """A job, and what was changed, a line each."""

    admitted: Admitted
    changes: tuple[str, ...] = ()


def gang(job: Job, manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return the pods that must run at once: minAvailable of each task, then the first ones up to the job's.

    A job whose minAvailable is less than the sum of its tasks' accepts any pods, as in Volcano.
    """
    counts = job.spec.min_available >= sum(task.min_members for task in job.spec.tasks)
    left = {task.name: (task.min_available or 0) if counts else 0 for task in job.spec.tasks}
    chosen, others = [], []
    for manifest in manifests:
        task = _task(manifest)
        if left[task] > 0:
            left[task] -= 1
            chosen.append(manifest)
        else:
            others.append(manifest)
    missing = max(0, job.spec.min_available - len(chosen))
    return [*chosen, *others[:missing]]


def gang_fit(admitted: Admitted, free: Mapping[str, Quantity]) -> Fit:
    """Check whether the gang of a job fits."""
    manifests = [pod.manifest for pod in pods(admitted.job, admitted.plugins)]
    return fit([pod_requests(each["spec"]) for each in gang(admitted.job, manifests)], free)


def ignoring(admitted: Admitted, resources: Sequence[str]) -> Fitted:
    """Leave resources out. Raises InvalidOption for one that the job does not have."""
    known = sorted({name for task in admitted.written.spec.tasks for name in _resource_names(task)})
    problems = []
    for name in (name for name in resources if name not in known):
        hint = f"{did_you_mean(name, known)} it has {', '.join(known) or 'none'}".lstrip()
        problems.append(Problem(f"{name}: the job asks for no resource {name}", hint, Position(option="ignore")))
    if problems:
        raise InvalidOption.of(problems)
    return _left_out(admitted, resources, "--ignore") if resources else Fitted(admitted)


def fitted(admitted: Admitted, machine: Machine) -> Fitted:
    """Return the job as it fits the empty machine.

    Extended resources that the machine lacks are left out, limits are lowered to what it has, and all requests alike
    until the gang fits at once, and every other pod on its own.
    """
    free = machine.free()
    names = {name for task in admitted.written.spec.tasks for name in _resource_names(task)}
    missing = {name for name in names if is_extended(name) and free.get(name, Quantity()).is_zero}
    found = _left_out(admitted, missing, "this machine has none")
    size = machine.memory if machine.all_memory is None else machine.all_memory
    most = {**free, "cpu": Quantity(round(machine.cpu_share * _NANO)), "memory": Quantity(size * _NANO)}
    shares = _shares(found.admitted, free, Fraction(1))
    if all(share == 1 for each in shares.values() for share in each.values()):
        return _lowered(found, shares, most)
    room = {**free, "memory": Quantity(int(free["memory"].nanos * _MEMORY_SHARE))}
    for attempt in _ATTEMPTS:
        result = _lowered(found, _shares(found.admitted, room, attempt), most)
        if gang_fit(result.admitted, room).fits:
            break
    return result


def _shares(admitted: Admitted, free: Mapping[str, Quantity], attempt: Fraction) -> dict[str, dict[str, Fraction]]:
    """Return, by task and resource, the part of its requests that fits."""
    manifests = [pod.manifest for pod in pods(admitted.job, admitted.plugins)]
    rows = fit([pod_requests(each["spec"]) for each in gang(admitted.job, manifests)], free).rows
    common = {row.name: _part(row.free, row.requested) * attempt for row in rows if not row.short.is_zero}
    shares = {}
    for task, manifest in {_task(manifest): manifest for manifest in manifests}.items():
        usage = pod_requests(manifest["spec"])
        own = {name: _part(free.get(name, Quantity()), amount) for name, amount in usage.items()}
        shares[task] = {name: min(share, common.get(name, share)) for name, share in own.items()}
    return shares


def _part(free: Quantity, wanted: Quantity) -> Fraction:
    return min(Fraction(1), Fraction(free.nanos, wanted.nanos))


def _left_out(admitted: Admitted, names: Container[str], why: str) -> Fitted:
    changes: list[str] = []

    def leave_out(_task: str, where: str, requests: dict[str, Any], limits: dict[str, Any]) -> None:
        for name in [name for name in {**limits, **requests} if name in names]:
            amount = limits.pop(name, requests.get(name))
            changes.append(f"{where}: {name} {requests.pop(name, amount)} is left out: {why}")

    return Fitted(_edited(admitted, leave_out), tuple(changes))


def _lowered(found: Fitted, shares: Mapping[str, Mapping[str, Fraction]], most: Mapping[str, Quantity]) -> Fitted:
    changes: list[str] = []

    def lower(task: str, where: str, requests: dict[str, Any], limits: dict[str, Any]) -> None:
        # A task without pods stays as it is.
        for name in {**limits, **requests} if task in shares else ():
            share, before = shares[task].get(name, Fraction(1)), requests.get(name, limits.get(name))
            if share < 1:
                amount = _rounded(name, Quantity.parse(before).nanos * share)
                requests[name] = amount
                if is_extended(name):
                    # Kubernetes accepts no request for devices that differs from the limit.
                    limits[name] = amount
                changes.append(f"{where}: {name} request {before} is lowered to {amount}")
            if name in most and name in limits and Quantity.parse(limits[name]) > most[name]:
                amount = _rounded(name, Fraction(most[name].nanos))
                changes.append(f"{where}: {name} limit {limits[name]} is lowered to {amount}")
                limits[name] = amount

    return Fitted(_edited(found.admitted, lower), (*found.changes, *changes))


def _rounded(name: str, nanos: Fraction) -> str:
    step = _STEPS.get(name, _NANO)
    if name == "memory" and nanos < step:
        step = _NANO
    return str(Quantity(int(nanos // step) * step, Format.BINARY_SI if name == "memory" else Format.DECIMAL_SI))


def _edited(admitted: Admitted, edit: Edit) -> Admitted:
    """Return the job with other resources, of its containers and of its pods as a whole. Raises InvalidOption."""

    def edited(task: str, where: str, old: Manifest) -> Manifest:
        resources = old.get("resources") or {}
        requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
        edit(task, where, requests, limits)
        new = {**resources, "limits": limits, "requests": requests}
        return {**old, "resources": {kind: value for kind, value in new.items() if value}} if resources else old

    written, tasks = admitted.written, []
    for task, name in zip(written.spec.tasks, admitted.job.task_names, strict=True):
        spec = task.pod_spec
        many = sum(len(spec.get(kind) or ()) for kind in _KINDS) > 1
        new = edited(name, name, spec)
        for kind in _KINDS:
            if spec.get(kind):
                containers = [(f"{name}: container {each.get('name')}" if many else name, each) for each in spec[kind]]
                new = {**new, kind: [edited(name, where, each) for where, each in containers]}
        tasks.append(replace(task, template={**task.template, "spec": new}))
    if tasks == written.spec.tasks:
        return admitted
    return _admitted(replace(written, spec=replace(written.spec, tasks=tasks)))


def _resource_names(task: TaskSpec) -> Iterator[str]:
    owners = [task.pod_spec, *(each for kind in _KINDS for each in task.pod_spec.get(kind) or [])]
    for owner in owners:
        resources = owner.get("resources") or {}
        yield from (*(resources.get("requests") or {}), *(resources.get("limits") or {}))


def _task(manifest: Manifest) -> str:
    return str(manifest["metadata"]["annotations"][keys.TASK_SPEC])


def stored(admitted: Admitted, scale: Mapping[str, int], history: RunHistory | None = None) -> Admitted:
    """Return the job as an API server would store it, admitted again only if `scale` changes it.

    A stored run keeps its uid, the sizes that it was given, and the status that its last process wrote.

    Raises InvalidOption if the job cannot have these sizes.
    """
    written = admitted.written
    spec = _scaled(written, {**scale, **({} if history is None else history.replicas)})
    total = sum(task.replicas for task in spec.tasks)
    if not total:
        first = written.spec.tasks[0].name
        message = "no pod is left" if scale else "the job has no pod: every task has 0 replicas"
        where = Position(option="scale" if scale else "")
        raise InvalidOption(message, (Option("scale", {first: 1}), " runs one"), where)
    if spec != written.spec:
        if spec.min_success is not None:
            spec = replace(spec, min_success=min(spec.min_success, total))
        admitted = _admitted(replace(written, spec=spec), "scale")
    uid = str(uuid.uuid4()) if history is None else history.record.uid
    own = {"uid": uid, "generation": 1, "resource_version": "1"}

    def with_metadata(job: Job) -> Job:
        metadata = replace(job.metadata, namespace=job.namespace or "default", **own)
        status = JobStatus() if history is None else history.job_status(job)
        return replace(job, metadata=metadata, status=status)

    return replace(admitted, written=with_metadata(admitted.written), job=with_metadata(admitted.job))


def updated(job: Job, scale: Mapping[str, int]) -> Admitted:
    """Admit an update of a stored job that changes replicas. Raises InvalidOption if it is refused."""
    return _admitted(replace(job, spec=_scaled(job, scale)), "scale", job)


def _scaled(job: Job, scale: Mapping[str, int]) -> JobSpec:
    unknown = [name for name in scale if name not in job.task_names]
    if unknown:
        texts = {name: f"{name}={scale[name]}" for name in unknown}
        raise InvalidOption.of([_unknown("scale", texts[name], "task", name, job.task_names) for name in unknown])
    return scaled(job.spec, scale)


def _admitted(job: Job, option: str = "", before: Job | None = None) -> Admitted:
    """Admit a job that an option changed; `before` if it is stored. Raises InvalidOption."""
    admitted = admit_stored(job, offline_context())
    findings = [*admitted.findings, *(check_update(before, admitted.job) if before is not None else ())]
    errors = dict.fromkeys(f"{finding.path}: {finding.message}" for finding in findings if finding.is_error)
    if errors:
        raise InvalidOption.of([Problem(error, where=Position(option=option)) for error in errors])
    return admitted


def fit_to_machine(admitted: Admitted, options: RunOptions, machine: Machine) -> tuple[Admitted, list[str]]:
    """Return the job as it fits, and a line for each change."""
    ignored = ignoring(admitted, options.ignore)
    fit = fitted(ignored.admitted, machine) if options.fit else ignored
    return fit.admitted, [f"fit: {each}" for each in dict.fromkeys((*ignored.changes, *fit.changes))]


def check_names(options: RunOptions, job: Job, manifests: Sequence[Manifest]) -> None:
    """Raises InvalidOption for options that name no pod or image of the job: they would silently have no effect."""
    names = [slot.short_name for slot in slots(job)]
    images = sorted(image_names(manifests))
    wrong = [each for each in options.publish if each.pod and each.pod not in names]
    problems = [_unknown("publish", str(each), "pod", each.pod, names) for each in wrong]
    if len(names) != 1:
        message, where = f"the job has {len(names)} pods", Position(option="publish")
        unnamed = [each for each in options.publish if not each.pod]
        problems += [Problem(f"{each}: {message}", "write TASK-INDEX:PORT", where) for each in unnamed]
    for kill in options.kills:
        if kill.pod not in names:
            problems.append(_unknown("kill", f"{kill.pod}@{kill.after:g}s", "pod", kill.pod, names))
    for option, given in options.required_images.items():
        known = list(map(normalised, images)) if given else []
        problems += [_unknown(option, name, "image", name, images) for name in given if normalised(name) not in known]
    if problems:
        raise InvalidOption.of(problems)


def _unknown(option: str, text: str, kind: str, name: str, known: Sequence[str]) -> Problem:
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    suggestion = f"{did_you_mean(name, known)} ".lstrip()
    hint = f"{suggestion}it has {', '.join(known[:_MOST_NAMED]) or 'none'}{more}"
    return Problem(f"{text}: the job has no {kind} {name}", hint, Position(option=option))

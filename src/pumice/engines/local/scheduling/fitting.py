"""Makes a job fit this machine, as `--fit` and `--ignore` ask: leaves resources out, lowers requests and limits.

The Job's own templates change, before plugins shape the pods, so that what plugins derive from a resource follows.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec
from msgspec import Struct

from pumice.admission.admit import Admitted, admit_stored
from pumice.engines.local.scheduling.fit import Fit, fit, pod_requests
from pumice.engines.local.scheduling.machine import Machine
from pumice.model import keys
from pumice.model.job import Job, Manifest, TaskSpec
from pumice.model.problem import Position, Problem
from pumice.model.quantity import Format, Quantity
from pumice.model.resources import is_extended
from pumice.model.suggestions import did_you_mean
from pumice.plugins.shaping import pods
from pumice.runtime.offline_context import offline_context
from pumice.store.run_errors import InvalidOption

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
        tasks.append(msgspec.structs.replace(task, template={**task.template, "spec": new}))
    if tasks == written.spec.tasks:
        return admitted
    job = msgspec.structs.replace(written, spec=msgspec.structs.replace(written.spec, tasks=tasks))
    found = admit_stored(job, offline_context())
    if errors := [Problem(f"{each.path}: {each.message}") for each in found.findings if each.is_error]:
        raise InvalidOption.of(errors)
    return found


def _resource_names(task: TaskSpec) -> Iterator[str]:
    owners = [task.pod_spec, *(each for kind in _KINDS for each in task.pod_spec.get(kind) or [])]
    for owner in owners:
        resources = owner.get("resources") or {}
        yield from (*(resources.get("requests") or {}), *(resources.get("limits") or {}))


def _task(manifest: Manifest) -> str:
    return str(manifest["metadata"]["annotations"][keys.TASK_SPEC])

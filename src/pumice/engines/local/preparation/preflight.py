"""Checks before anything starts: that the gang fits this machine, and that containers have what they need."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from pumice.admission.admit import Admitted
from pumice.diagnosis.why import Shortage
from pumice.engines.local.container_spec.restrictions import cpu_limit, memory_limit
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.preparation.scaling import fitted, gang_fit, stored
from pumice.engines.local.sandbox.diagnosis.kernel_support import enforced_limits
from pumice.engines.local.scheduling.fit import Fit, shortfall
from pumice.engines.local.scheduling.machine import Machine
from pumice.model import keys
from pumice.model.findings import SPEC
from pumice.model.findings import Path as JobPath
from pumice.model.job import Job, Manifest
from pumice.model.pod import all_containers, container_path, containers_with_paths
from pumice.model.problem import Option, Position, Problem
from pumice.model.quantity import Quantity
from pumice.model.resources import is_extended
from pumice.model.text import escaped
from pumice.store.options import Isolation, Locate, at
from pumice.store.run_errors import DoesNotFit, InvalidOption, Unsupported

# Starts a number of processes that the command line names, not the plugin.
_COUNTED: Final = re.compile(r"\b(mpirun|mpiexec)\b")
# Pods of these plugins wait for all others: a part of them does nothing.
_TOGETHER: Final = {"mpi", "pytorch", "tensorflow"}


def check_fit(admitted: Admitted, found: Fit, machine: Machine, locate: Locate) -> None:
    """Raises DoesNotFit with the shortfall and what would help."""
    if found.fits:
        return
    job, free = admitted.job, machine.capacity()
    needs = "1 pod" if found.pods == 1 else f"{found.pods} pods at once (minAvailable)"
    fitting = "1 fits" if found.fitting == 1 else f"{found.fitting} fit"
    message = "\n".join((f"needs {needs}, {fitting} on this machine", *shortfall(found)))
    where = Position(locate(SPEC).file)
    short = [row for row in found.rows if row.name in (found.short or (found.rows[0].name,))]
    # To lower a request does not help where the machine has nothing of it.
    missing = [row.name for row in short if row.free.is_zero and is_extended(row.name)]
    lower = " and ".join(_largest_request(job, row.name, locate) for row in short if not row.free.is_zero)
    advice: list[str | Option] = []
    if most := _most_pods(admitted, found, free):
        advice += [Option("scale", most), ", or "]
    if missing:
        advice += [Option("ignore", missing), " and " if lower else ", or "]
    if lower:
        advice += [f"lower {lower}", ", or "]
    if (
        0 < found.fitting < job.spec.min_available
        and not _TOGETHER & set(job.spec.plugins)
        and not has_counted_processes(job)
    ):
        written = admitted.written.spec.min_available
        position = at(locate, SPEC / "minAvailable") if written else ""
        advice += [f"{'lower' if written else 'set'} minAvailable to {found.fitting}{position}", ", or "]
    error = DoesNotFit(message, tuple(advice[:-1]), where)
    with suppress(InvalidOption):
        if gang_fit(fitted(admitted, machine).admitted, free).fits:
            error.remedy = Option("fit", True)
    error.shortages = [
        Shortage(resource=row.name, wanted=str(row.requested), free=str(row.free), capacity=str(row.free))
        for row in short
    ]
    raise error


def _most_pods(admitted: Admitted, found: Fit, free: Mapping[str, Quantity]) -> dict[str, int | str]:
    """Return how many pods of the largest task fit; empty if none, or if the job counts on them."""
    job = admitted.job
    largest = max(job.spec.tasks, key=lambda task: task.replicas)
    if not found.fitting or "mpi" in job.spec.plugins or has_counted_processes(job):
        return {}
    most, too_many = 0, largest.replicas
    with suppress(InvalidOption):
        while too_many - most > 1:
            number = (most + too_many) // 2
            if gang_fit(stored(admitted, {largest.name: number}), free).fits:
                most = number
            else:
                too_many = number
    return {largest.name: most} if most else {}


def has_counted_processes(job: Job) -> bool:
    """Return whether a command of the job counts on the number of its pods."""
    containers = [container for task in job.spec.tasks for container in all_containers(task.pod_spec)]
    words = (word for each in containers for word in (*(each.get("command") or ()), *(each.get("args") or ())))
    return any(_COUNTED.search(str(word)) for word in words)


def _largest_request(job: Job, resource: str, locate: Locate) -> str:
    """Name the largest request for the resource; without a position where a plugin made it."""
    found: list[tuple[Quantity, str, JobPath]] = []
    for index, task in enumerate(job.spec.tasks):
        at_pod = SPEC / "tasks" / index / "template" / "spec"
        for path, container in containers_with_paths(task.pod_spec, at_pod) if task.replicas else ():
            resources = container.get("resources") or {}
            # A limit counts as a request only where there is none.
            kind = "requests" if resource in (resources.get("requests") or {}) else "limits"
            if resource in (resources.get(kind) or {}):
                found.append((Quantity.parse(resources[kind][resource]), kind, path / "resources" / kind / resource))
    if not found:
        return f"resources.requests.{resource}"
    _, kind, path = max(found, key=lambda each: each[0])
    return f"resources.{kind}.{resource}{at(locate, path)}"


def memory_notes(
    manifests: Iterable[Manifest], isolation: Isolation, limits: Callable[[], Container[str]] = enforced_limits
) -> Iterator[str]:
    """Yield a line for the header if the job has memory limits that the kernel leaves to the sandbox."""
    containers = (container for manifest in manifests for container in all_containers(manifest["spec"]))
    has_limit = any(memory_limit(container) is not None for container in containers)
    if has_limit and isolation is not Isolation.PROCESS and "memory" not in limits():
        yield "memory: watched, not limited by the kernel"


def unenforced_limits(
    job: Job, isolation: Isolation, limits: Callable[[], Container[str]] = enforced_limits
) -> dict[str, tuple[str, ...]]:
    """Return by task the resources whose limits its pods can exceed: whole CPUs are bound, memory is watched."""
    is_plain, found = isolation is Isolation.PROCESS, dict[str, tuple[str, ...]]()
    for task in job.spec.tasks:
        containers = task.pod_spec.get("containers") or []
        cpus = [limit for each in containers if (limit := cpu_limit(each)) is not None]
        cpu = ("cpu",) if any(limit != int(limit) for limit in cpus) else ()
        memory = ("memory",) if is_plain and any(memory_limit(each) is not None for each in containers) else ()
        if cpu or memory:
            found[task.name] = (*cpu, *memory)
    return {} if found and not is_plain and "cpu" in limits() else found


def check_containers(
    job: Job, manifests: Sequence[Manifest], problems_of: Callable[[Manifest, Manifest], list[Problem]], locate: Locate
) -> None:
    """Raises RefusedError with all fatal problems; one that many pods have is reported for the first of them.

    `problems_of` is asked for each container of each pod.
    """
    problems: dict[Problem, Problem] = {}
    for manifest, container in ((pod, each) for pod in manifests for each in all_containers(pod["spec"])):
        try:
            found = problems_of(manifest, container)
        except ImageError as error:
            hint = error.hint or "an image is a directory with its files, or an archive made by `docker save`"
            found = [Problem(f"image {container.get('image')}: {error.problem}", hint)]
        for problem in found:
            if problem.fatal and problem not in problems:
                annotations = manifest["metadata"]["annotations"]
                task, name = str(annotations[keys.TASK_SPEC]), str(container["name"])
                message = f"{task}-{annotations[keys.TASK_INDEX]}: container {name}: {escaped(problem.message)}"
                where = locate(container_path(job, task, name))
                problems[problem] = replace(problem, message=message, where=where)
    if problems:
        raise Unsupported.of(list(problems.values()))

"""What is looked at before anything starts: whether the gang fits this machine, and whether pods lack something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pumice.engines.local.capacity import fit, shortfall, wanted
from pumice.engines.local.problems import Problem
from pumice.model import keys
from pumice.model.job import Job, Manifest
from pumice.model.quantity import Quantity


class RefusedError(Exception):
    """The job cannot be run here as it is; the message says why and what would help."""


def every_container(manifest: Manifest) -> Iterator[Manifest]:
    yield from manifest["spec"].get("initContainers") or []
    yield from manifest["spec"].get("containers") or []


def gang(job: Job, manifests: Sequence[Manifest]) -> list[Manifest]:
    """The pods that have to run at once: what each task must have, then the first ones up to minAvailable."""
    left = {task.name: task.min_available or 0 for task in job.spec.tasks}
    chosen, others = [], []
    for manifest in manifests:
        task = manifest["metadata"]["annotations"][keys.TASK_SPEC]
        if left[task] > 0:
            left[task] -= 1
            chosen.append(manifest)
        else:
            others.append(manifest)
    missing = max(0, job.spec.min_available - len(chosen))
    return [*chosen, *others[:missing]]


def check_fit(job: Job, manifests: Sequence[Manifest], free: Mapping[str, Quantity], file: str) -> None:
    found = fit([wanted(manifest["spec"]) for manifest in gang(job, manifests)], free)
    if found.fits:
        return
    largest = max(job.spec.tasks, key=lambda task: task.replicas)
    fewer = max(largest.replicas - (found.pods - found.fitting), 0)
    short = found.short[0] if found.short else found.rows[0].name
    lines = [
        f"{file}: needs {found.pods} pods at once (minAvailable), {found.fitting} fit on this machine",
        *shortfall(found),
        f"  hint: --scale {largest.name}={fewer}, or lower resources.requests.{short}, or minAvailable",
    ]
    raise RefusedError("\n".join(lines))


def claim_directories(names: Sequence[str], state: Path) -> dict[str, Path]:
    """A claim is a directory, kept by its name from run to run."""
    places = {name: state / "claims" / name for name in dict.fromkeys(names)}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
    return places


def check_problems(found: Mapping[str, Sequence[Problem]], file: str) -> None:
    """`found`: what is wrong, by pod and container. The same mistake in many pods is told once."""
    told: dict[str, str] = {}
    for place, problems in found.items():
        for problem in problems:
            if problem.fatal:
                told.setdefault(str(problem), place)
    if told:
        raise RefusedError("\n".join(f"{file}: {place}: {problem}" for problem, place in told.items()))

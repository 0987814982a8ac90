"""The job in the sizes that the user asks for, and whether what the flags name is in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from pumice.admission.admit import Admitted, admit_stored
from pumice.engines.local.images.lookup import image_names
from pumice.engines.local.images.names import normalised
from pumice.engines.local.options import RunOptions, SettingsError
from pumice.model.job import Job, Manifest, TaskSpec
from pumice.model.slot import slots
from pumice.model.suggestions import did_you_mean
from pumice.runtime.offline_context import offline_context

_MOST_NAMED = 8


def scaled(admitted: Admitted, scale: Mapping[str, int]) -> Admitted:
    """The job as an API server would store it. Raises SettingsError if it cannot have these sizes."""
    written = admitted.written
    known = [task.name for task in written.spec.tasks]
    for name, count in scale.items():
        if name not in known:
            raise SettingsError(_unknown("--scale", f"{name}={count}", "task", name, known))
    tasks = [_scaled_task(task, scale[task.name]) if task.name in scale else task for task in written.spec.tasks]
    total = sum(task.replicas for task in tasks)
    if not total:
        left = "--scale leaves no pod" if scale else "the job has no pod: every task has 0 replicas"
        raise SettingsError(f"{left}\n  hint: --scale {known[0]}=1 runs one")
    metadata = msgspec.structs.replace(
        written.metadata,
        namespace=written.namespace or "default",
        uid=str(uuid.uuid4()),
        generation=1,
        resource_version="1",
    )
    if not scale:
        written, job = (msgspec.structs.replace(one, metadata=metadata) for one in (written, admitted.job))
        return replace(admitted, written=written, job=job)
    spec = msgspec.structs.replace(
        written.spec,
        tasks=tasks,
        min_available=min(written.spec.min_available, total),
        min_success=None if written.spec.min_success is None else min(written.spec.min_success, total),
    )
    job = msgspec.structs.replace(written, metadata=metadata, spec=spec)
    # Other replicas mean other pods, names and ranks, which may break rules that the file alone does not.
    admitted = admit_stored(job, offline_context())
    faults = [f"--scale: {finding.path}: {finding.message}" for finding in admitted.findings if finding.is_error]
    if faults:
        raise SettingsError("\n".join(faults))
    return admitted


def _scaled_task(task: TaskSpec, replicas: int) -> TaskSpec:
    least = None if task.min_available is None else min(task.min_available, replicas)
    return msgspec.structs.replace(task, replicas=replicas, min_available=least)


def check_names(options: RunOptions, job: Job, manifests: Sequence[Manifest]) -> None:
    """Raises SettingsError, with all that is wrong: a flag that names nothing would have no effect, silently."""
    faults = [*_pods(options, job), *_images(options, manifests)]
    if faults:
        raise SettingsError("\n".join(faults))


def _pods(options: RunOptions, job: Job) -> Iterator[str]:
    known = [slot.short_name for slot in slots(job)]
    for publish in options.publish:
        if publish.pod not in known:
            yield _unknown("--publish", f"{publish.pod}:{publish.port}", "pod", publish.pod, known)
    for kill in options.kills:
        if kill.pod not in known:
            yield _unknown("--kill", f"{kill.pod}@{kill.after:g}s", "pod", kill.pod, known)


def _images(options: RunOptions, manifests: Sequence[Manifest]) -> Iterator[str]:
    """Only what flags name: a pumice.toml may serve several jobs."""
    used = image_names(manifests)
    for flag, names in options.named_images.items():
        for name in names:
            if normalised(name) not in map(normalised, used):
                yield _unknown(flag, name, "image", name, sorted(used))


def _unknown(flag: str, text: str, kind: str, name: str, known: Sequence[str]) -> str:
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    asked = f"{did_you_mean(name, known)} ".lstrip()
    return f"{flag}: {text}: the job has no {kind} {name}\n  hint: {asked}it has {_listed(known[:_MOST_NAMED])}{more}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"

"""Sizes of a job: those that the options ask for, those that fit this machine, and updates of a running job."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from pumice.admission.admit import Admitted, admit_stored
from pumice.admission.updates import check_update
from pumice.engines.local.images.lookup import image_names
from pumice.engines.local.images.names import normalised
from pumice.engines.local.scheduling.fitting import fitted, ignoring
from pumice.engines.local.scheduling.machine import Machine
from pumice.model.findings import Finding
from pumice.model.job import Job, JobSpec, JobStatus, Manifest, scaled
from pumice.model.problem import Option, Position, Problem
from pumice.model.slot import slots
from pumice.model.suggestions import did_you_mean
from pumice.runtime.offline_context import offline_context
from pumice.store.history.run_history import RunHistory
from pumice.store.options import RunOptions
from pumice.store.run_errors import InvalidOption

_MOST_NAMED = 8


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
            spec = msgspec.structs.replace(spec, min_success=min(spec.min_success, total))
        admitted = admit_stored(msgspec.structs.replace(written, spec=spec), offline_context())
        _raise_errors(admitted.findings)
    uid = str(uuid.uuid4()) if history is None else history.record.uid
    own = {"uid": uid, "generation": 1, "resource_version": "1"}

    def with_metadata(job: Job) -> Job:
        metadata = msgspec.structs.replace(job.metadata, namespace=job.namespace or "default", **own)
        status = JobStatus() if history is None else history.job_status(job)
        return msgspec.structs.replace(job, metadata=metadata, status=status)

    return replace(admitted, written=with_metadata(admitted.written), job=with_metadata(admitted.job))


def updated(job: Job, scale: Mapping[str, int]) -> Admitted:
    """Admit an update of a stored job that changes replicas. Raises InvalidOption if it is refused."""
    admitted = admit_stored(msgspec.structs.replace(job, spec=_scaled(job, scale)), offline_context())
    _raise_errors([*admitted.findings, *check_update(job, admitted.job)])
    return admitted


def _scaled(job: Job, scale: Mapping[str, int]) -> JobSpec:
    unknown = [name for name in scale if name not in job.task_names]
    if unknown:
        raise InvalidOption.of(
            [_unknown("scale", f"{name}={scale[name]}", "task", name, job.task_names) for name in unknown]
        )
    return scaled(job.spec, scale)


def _raise_errors(findings: Sequence[Finding]) -> None:
    errors = dict.fromkeys(f"{finding.path}: {finding.message}" for finding in findings if finding.is_error)
    if errors:
        raise InvalidOption.of([Problem(error, where=Position(option="scale")) for error in errors])


def fit_to_machine(admitted: Admitted, options: RunOptions, machine: Machine) -> tuple[Admitted, list[str]]:
    """Return the job as it fits, and a line for each change."""
    ignored = ignoring(admitted, options.ignore)
    fit = fitted(ignored.admitted, machine) if options.fit else ignored
    return fit.admitted, [f"fit: {each}" for each in dict.fromkeys((*ignored.changes, *fit.changes))]


def check_names(options: RunOptions, job: Job, manifests: Sequence[Manifest]) -> None:
    """Raises InvalidOption for options that name no pod or image of the job: they would silently have no effect."""
    pods = [slot.short_name for slot in slots(job)]
    images = sorted(image_names(manifests))
    problems = [
        *(
            _unknown("publish", str(each), "pod", each.pod, pods)
            for each in options.publish
            if each.pod and each.pod not in pods
        ),
        *(
            Problem(f"{each}: the job has {len(pods)} pods", "write TASK-INDEX:PORT", Position(option="publish"))
            for each in options.publish
            if not each.pod and len(pods) != 1
        ),
        *(
            _unknown("kill", f"{each.pod}@{each.after:g}s", "pod", each.pod, pods)
            for each in options.kills
            if each.pod not in pods
        ),
        *(
            _unknown(option, name, "image", name, images)
            for option, names in options.required_images.items()
            for name in names
            if normalised(name) not in map(normalised, images)
        ),
    ]
    if problems:
        raise InvalidOption.of(problems)


def _unknown(option: str, text: str, kind: str, name: str, known: Sequence[str]) -> Problem:
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    suggestion = f"{did_you_mean(name, known)} ".lstrip()
    hint = f"{suggestion}it has {', '.join(known[:_MOST_NAMED]) or 'none'}{more}"
    return Problem(f"{text}: the job has no {kind} {name}", hint, Position(option=option))

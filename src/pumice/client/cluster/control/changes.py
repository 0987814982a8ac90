"""Makes changes to Jobs on a cluster, with the rights of the user, under Pumice's controller and under Volcano's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from pumice.admission.defaults import with_first_min_available
from pumice.admission.updates import check_update
from pumice.client import backend
from pumice.client.backend import Change, RunRef
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.control.job_commands import Commander
from pumice.client.cluster.control.removal import check_removal, end_pods, remove
from pumice.client.cluster.job_facts import is_volcanos, read_current, read_current_manifest
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import ObjectMetadata, read_metadata
from pumice.engines.kubernetes.api.resources import JOBS
from pumice.model import keys
from pumice.model.job import Job, scaled
from pumice.model.problem import Command, Option, Position, Problem
from pumice.model.suggestions import did_you_mean
from pumice.model.vocabulary import INVALID_JOB, MAX_RETRY, Action, Phase
from pumice.reconcile.phases import FINAL
from pumice.store.run_errors import ConnectionFailed, InvalidOption, WrongState

_STOPPED: Final = frozenset((*FINAL, Phase.TERMINATING))
_SUSPENDED: Final = frozenset((Phase.ABORTING, Phase.ABORTED))
_RUNNING: Final = frozenset(("", Phase.PENDING, Phase.RUNNING, Phase.RESTARTING))
_CONFLICTS: Final = 8  # how often another client may be faster

Tell = Callable[[str], None]
JSON_PATCH: Final = "application/json-patch+json"


async def make_change(connection: Connection, run: RunRef, change: Change, tell: Tell) -> Sequence[str]:
    """Return the names of what else it affected. Raises RunError."""
    with connection.explaining():
        match change:
            case backend.StopRun():
                await _stop(connection, run, change, tell)
            case backend.SuspendRun():
                job = await read_current(connection, run)
                if not _is_suspended(job):
                    _check_valid(run, job)
                    _check_runs(run, job)
                    await Commander(connection, run, tell).command(job, Action.ABORT_JOB, _is_suspended)
            case backend.ResumeRun():
                await _resume(connection, run, change, tell)
            case backend.RestartRun():
                return await _restart(connection, run, tell)
            case backend.ScaleRun():
                await _patch(connection, run, lambda manifest, job: resize_patch(run, manifest, job, change.replicas))
            case backend.KillPod():
                from pumice.client.cluster.pods.pod_commands import kill  # noqa: PLC0415 - loads aiohttp

                return await kill(connection, run, change)
            case backend.DetachRun():
                await read_current(connection, run)
                return (str(run),)
            case backend.RemoveRun():
                return await remove(connection, run, change, tell)
    return ()


async def check_change(connection: Connection, run: RunRef, change: Change) -> None:
    """Raises RunError if the change cannot be made."""
    with connection.explaining():
        if isinstance(change, backend.RemoveRun):
            await check_removal(connection, run, change)
        else:
            await read_current(connection, run)


async def strangers(connection: Connection, runs: Sequence[RunRef]) -> Mapping[str, str]:
    """Return the people who submitted Jobs, by uid, other than this user; Jobs that name no person are left out.

    A cluster is shared: a Job of another person is not changed by mistake.
    """
    submitters: dict[str, str] = {}
    for run in runs:
        raw = await connection.get(JOBS, run.namespace, run.name)
        found = ObjectMetadata() if raw is None else read_metadata(raw)
        if found.uid == run.uid and (submitter := found.annotations.get(keys.SUBMITTED_BY)):
            submitters[run.uid] = submitter
    name = await connection.user_name() if submitters else ""
    return {uid: submitter for uid, submitter in submitters.items() if submitter != name}


async def _stop(connection: Connection, run: RunRef, change: backend.StopRun, tell: Tell) -> None:
    job = await read_current(connection, run)
    phase = job.status.state.phase
    if phase in FINAL:
        return
    if phase not in _STOPPED:
        _check_valid(run, job)
        # No controller terminates a Job that is suspended: it is resumed, and terminated before its pods are created.
        first = Action.RESUME_JOB if phase in _SUSPENDED else None
        if first is not None and job.spec.suspend:
            await _unsuspend(connection, run)
            first = None
        commander = Commander(connection, run, tell)
        await commander.command(job, Action.TERMINATE_JOB, lambda found: found.status.state.phase in _STOPPED, first)
    if change.force or change.grace is not None:
        await end_pods(connection, run, 0 if change.force else int(change.grace or 0))


def _is_suspended(job: Job) -> bool:
    return job.status.state.phase in _SUSPENDED


async def _resume(connection: Connection, run: RunRef, change: backend.ResumeRun, tell: Tell) -> None:
    if change.env or change.documents:
        hint = ("leave out ", Option("env"), " and ", Option("with"))
        raise InvalidOption(f"{run}: values of Jobs on a cluster are in Secrets there", hint)
    job = await read_current(connection, run)
    if not _is_suspended(job):
        raise WrongState(f"{run} is not suspended: {job.status.state.phase or Phase.PENDING}")
    if job.spec.suspend:
        await _unsuspend(connection, run)
        return
    _check_retries(run, job, "resuming")
    await Commander(connection, run, tell).command(job, Action.RESUME_JOB, lambda found: not _is_suspended(found))


async def _restart(connection: Connection, run: RunRef, tell: Tell) -> Sequence[str]:
    """Return what it costs."""
    job = await read_current(connection, run)
    _check_valid(run, job)
    _check_runs(run, job)
    _check_retries(run, job, "a restart")
    version, retries = job.status.version, job.status.retry_count

    def is_done(found: Job) -> bool:
        return found.status.version > version or found.status.retry_count > retries

    await Commander(connection, run, tell).command(job, Action.RESTART_JOB, is_done)
    return [_counted_retry(job, "it")] if is_volcanos(job.status) else []


def _check_valid(run: RunRef, job: Job) -> None:
    """Raises WrongState if its controller obeys no Command."""
    if job.status.state.reason == INVALID_JOB:
        removal = Command("rm", str(run), options=(Option("force", True),))
        message = f"{run} is invalid, and its controller obeys nothing until it is corrected"
        raise WrongState(message, (Command("why", str(run)), " says what is wrong, ", removal, " removes it"))


def _check_runs(run: RunRef, job: Job) -> None:
    phase = job.status.state.phase
    if phase not in _RUNNING:
        hint = Command("resume", str(run)) if phase in _SUSPENDED else ""
        raise WrongState(f"{run} is not running: {phase}", (hint,) if hint else "")


def _check_retries(run: RunRef, job: Job, what: str) -> None:
    """Raises WrongState if Volcano's controller would end the Job instead: it counts what a person asks for, too."""
    used, most = job.status.retry_count + 1, job.spec.max_retry
    if is_volcanos(job.status) and most and used >= most:
        message = f"{run}: {_counted_retry(job, what)}"
        raise WrongState(f"{message}: it would end the Job as Failed", "create it again, with a larger maxRetry")


def _counted_retry(job: Job, what: str) -> str:
    most = job.spec.max_retry or MAX_RETRY
    return f"Volcano's controller counts {what} as a retry, number {job.status.retry_count + 1} of maxRetry {most}"


async def _unsuspend(connection: Connection, run: RunRef) -> None:
    field = "/spec/suspend"
    await _patch(connection, run, lambda _manifest, _job: replace_where({field: True}, {field: False}))


async def _patch(
    connection: Connection, run: RunRef, make: Callable[[dict[str, object], Job], list[dict[str, object]]]
) -> None:
    """Test and set: what was read is in the patch, so that of two clients neither loses its change."""
    for attempt in range(_CONFLICTS):
        manifest, job = await read_current_manifest(connection, run)
        if job.status.state.phase in FINAL:
            raise WrongState(f"{run} is not running: {job.status.state.phase}")
        operations = make(manifest, job)
        if not operations:
            return
        operations.insert(0, {"op": "test", "path": "/metadata/uid", "value": run.uid})
        try:
            await connection.client.request(
                "PATCH",
                JOBS.path(run.namespace, run.name),
                params={"fieldManager": "pumice"},
                body=msgspec.json.encode(operations),
                content_type=JSON_PATCH,
            )
        except ApiError as error:
            is_race = error.is_conflict or (error.is_invalid and "test" in str(error))
            if is_race and attempt < _CONFLICTS - 1:
                continue
            if error.is_invalid or error.status == HTTPStatus.BAD_REQUEST:
                raise InvalidOption(f"{run}: {error}") from error
            raise
        return
    raise ConnectionFailed(f"{run}: other clients changed it {_CONFLICTS} times meanwhile")


def resize_patch(
    run: RunRef, manifest: Mapping[str, Any], job: Job, replicas: Mapping[str, int]
) -> list[dict[str, object]]:
    """Return the operations; none if the Job has these sizes. Raises InvalidOption if it cannot have them."""
    unknown = [name for name in replicas if name not in job.task_names]
    where = Position(option="scale")
    if unknown:
        known = job.task_names
        raise InvalidOption.of(
            [
                Problem(
                    f"{name}={replicas[name]}: the job has no task {name}",
                    f"{did_you_mean(name, known)} it has {', '.join(known)}".strip(),
                    where,
                )
                for name in unknown
            ]
        )
    # A minAvailable that a default stands for is that of the creation, and would exceed fewer replicas.
    job = with_first_min_available(job)
    wanted = msgspec.structs.replace(job, spec=scaled(job.spec, replicas))
    if not wanted.total_replicas:
        raise InvalidOption("no pod is left", (Command("suspend", str(run)), " ends the pods and keeps the Job"), where)
    errors = dict.fromkeys(f"{each.path}: {each.message}" for each in check_update(job, wanted) if each.is_error)
    if errors:
        raise InvalidOption.of([Problem(error, where=where) for error in errors])
    return _operations(manifest["spec"], job, wanted)


def _operations(spec: Mapping[str, Any], job: Job, wanted: Job) -> list[dict[str, object]]:
    tests: dict[str, object] = {}
    values: dict[str, object] = {}

    def change(at: str, written: Mapping[str, Any], name: str, numbers: tuple[int | None, int | None]) -> None:
        if numbers[0] != numbers[1]:
            values[f"{at}/{name}"] = numbers[1]
            if name in written:
                tests[f"{at}/{name}"] = written[name]

    for position, (was, is_) in enumerate(zip(job.spec.tasks, wanted.spec.tasks, strict=True)):
        at, written = f"/spec/tasks/{position}", spec["tasks"][position]
        change(at, written, "replicas", (was.replicas, is_.replicas))
        change(at, written, "minAvailable", (was.min_available, is_.min_available))
        if "name" in written and any(path.startswith(f"{at}/") for path in values):
            tests[f"{at}/name"] = written["name"]
    change("/spec", spec, "minAvailable", (job.spec.min_available, wanted.spec.min_available))
    return replace_where(tests, values)


def replace_where(tests: Mapping[str, object], values: Mapping[str, object]) -> list[dict[str, object]]:
    """Return a patch that sets values if the tested fields are as they were."""
    patch: list[dict[str, object]] = [{"op": "test", "path": path, "value": value} for path, value in tests.items()]
    # `add` also replaces: a field that a default stands for may not exist.
    return patch + [{"op": "add", "path": path, "value": value} for path, value in values.items()]

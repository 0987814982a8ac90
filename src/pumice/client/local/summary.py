"""A stored run at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from pumice.client.values import Status, verdict_of
from pumice.diagnosis.outcome import Outcome
from pumice.model.vocabulary import MAX_RETRY
from pumice.store.files.run_store import StoredRun
from pumice.store.run_record import RunStatus

if TYPE_CHECKING:
    # A list of runs loads no history.
    from pumice.store.history.run_history import RunHistory

_OF_LIVE_PODS: Final = ("running", "pending", "terminating", "unknown", "taskStatusCount")


def summary(run: StoredRun, status: RunStatus, message: str = "") -> Status:
    """Return a run at one moment. `message` replaces what its status says."""
    record, outcome = run.record, status.outcome
    pods, attempts = status.pods, status.max_attempts
    if status.started is None and not pods.total:
        # It has not started: take the numbers of its Job.
        tasks = record.job.get("spec", {}).get("tasks") or []
        pods = msgspec.structs.replace(pods, total=sum(task.get("replicas", 1) for task in tasks))
        attempts = record.job.get("spec", {}).get("maxRetry") or MAX_RETRY
    # A process that was killed leaves both in the status.
    is_live = status.started is not None and status.finished is None
    return Status(
        run=run.ref,
        name=record.name,
        number=record.number,
        uid=record.uid,
        namespace=record.namespace,
        outcome=outcome,
        phase=status.phase,
        reason=status.reason,
        message=message or status.text,
        pods=pods,
        attempt=status.attempt,
        max_attempts=attempts,
        note=record.note,
        created=record.created,
        started=status.started,
        finished=status.finished,
        ran=status.ran,
        exit_code=status.exit_code,
        priority=record.priority,
        mode=record.mode,
        host=record.host,
        file=record.file,
        directory=str(run.directory),
        workdir=record.workdir,
        stopped=outcome in (Outcome.STOPPED, Outcome.SUSPENDED),
        verdict=verdict_of(status),
        gang=record.gang,
        code_change=status.code_change,
        hang=status.hang if is_live else None,
        published=status.published if is_live else (),
        readable=run.has_our_format,
        args=record.args,
    )


def job_with_status(history: RunHistory, found: Status) -> dict[str, Any]:
    """Return the Job as the API of a cluster would."""
    job: dict[str, Any] = dict(history.record.job) if history.plan is None else msgspec.to_builtins(history.job)
    status = job.get("status") or {}
    state = status.get("state") or {}
    if found.is_over and state.get("phase") != found.phase:
        # Its process was killed, or stopped, before the job could note it. No pod is left.
        ended = {"phase": found.phase, "reason": found.reason, "message": found.message}
        rest = {name: value for name, value in status.items() if name not in _OF_LIVE_PODS}
        job = {**job, "status": {**rest, "state": {**state, **ended}}}
    return job

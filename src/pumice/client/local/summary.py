"""A stored run at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from pumice.client.values import Status, status_of
from pumice.model.vocabulary import MAX_RETRY
from pumice.store.files.run_store import StoredRun
from pumice.store.run_record import RunStatus

if TYPE_CHECKING:
    # A list of runs loads no history.
    from pumice.store.history.run_history import RunHistory

_OF_LIVE_PODS: Final = ("running", "pending", "terminating", "unknown", "taskStatusCount")


def summary(run: StoredRun, status: RunStatus, message: str = "") -> Status:
    """Return a run at one moment. `message` replaces what its status says."""
    record = run.record
    pods, attempts = status.pods, status.max_attempts
    if status.started is None and not pods.total:
        # It has not started: take the numbers of its Job.
        tasks = record.job.get("spec", {}).get("tasks") or []
        pods = msgspec.structs.replace(pods, total=sum(task.get("replicas", 1) for task in tasks))
        attempts = record.job.get("spec", {}).get("maxRetry") or MAX_RETRY
    # A process that was killed leaves both in the status.
    is_live = status.started is not None and status.finished is None
    return status_of(
        record,
        status,
        reason=status.reason,
        message=message or status.text,
        pods=pods,
        max_attempts=attempts,
        directory=str(run.directory),
        workdir=record.workdir,
        gang=record.gang,
        code_change=status.code_change,
        hang=status.hang if is_live else None,
        published=status.published if is_live else (),
        readable=run.has_our_format,
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

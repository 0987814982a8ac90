"""A Job of a cluster at one moment."""

from __future__ import annotations

from typing import Any

from pumice.client.cluster.job_facts import JobFacts
from pumice.client.cluster.journal_entries import history_of
from pumice.client.values import Status, verdict_of
from pumice.diagnosis.outcome import Outcome
from pumice.model.job import Job
from pumice.model.status import JobStatus
from pumice.reconcile.ledger import most_attempts
from pumice.store.history.run_history import RunHistory
from pumice.store.run_record import PodCounts


def summary(facts: JobFacts, on: str) -> Status:
    return summary_of(history_of(facts), facts.job, on)


def summary_of(history: RunHistory, job: Job, on: str) -> Status:
    """Return a Job at one moment. The numbers of pods are those that its controller counted."""
    record, status, state = history.record, history.status, job.status.state
    outcome = status.outcome
    same: dict[str, Any] = {name: getattr(status, name) for name in _SAME}
    # What a Job waits for while some of its pods run is in its state only.
    message = status.text or ("" if status.finished is not None else state.message)
    return Status(
        **{**same, "reason": status.reason or state.reason},
        queue=job.spec.queue or "default",
        run=record.ref,
        name=record.name,
        number=record.number,
        uid=record.uid,
        namespace=record.namespace,
        outcome=outcome,
        message=message,
        pods=pod_counts(job.status, job.total_replicas),
        max_attempts=most_attempts(job.spec.max_retry, job.status),
        note=record.note,
        created=record.created,
        priority=record.priority,
        mode=record.mode,
        host=record.host,
        file=record.file,
        args=tuple(record.args),
        directory="",
        stopped=outcome in (Outcome.STOPPED, Outcome.SUSPENDED),
        verdict=verdict_of(status),
        on=on,
    )


_SAME = ("phase", "reason", "attempt", "started", "finished", "ran", "exit_code")


def pod_counts(status: JobStatus, total: int) -> PodCounts:
    return PodCounts(
        running=status.running,
        total=total,
        succeeded=status.succeeded,
        failed=status.failed,
        pending=status.pending,
    )

"""A Job of a cluster at one moment."""

from __future__ import annotations

from pumice.client.cluster.job_facts import JobFacts
from pumice.client.cluster.journal_entries import history_of
from pumice.client.values import Status, status_of
from pumice.model.job import Job
from pumice.model.status import JobStatus
from pumice.reconcile.ledger import most_attempts
from pumice.store.history.run_history import RunHistory
from pumice.store.run_record import PodCounts


def summary(facts: JobFacts, on: str) -> Status:
    return summary_of(history_of(facts), facts.job, on)


def summary_of(history: RunHistory, job: Job, on: str) -> Status:
    """Return a Job at one moment. The numbers of pods are those that its controller counted."""
    status, state = history.status, job.status.state
    # What a Job waits for while some of its pods run is in its state only.
    message = status.text or ("" if status.finished is not None else state.message)
    return status_of(
        history.record,
        status,
        reason=status.reason or state.reason,
        queue=job.spec.queue or "default",
        message=message,
        pods=pod_counts(job.status, job.total_replicas),
        max_attempts=most_attempts(job.spec.max_retry, job.status),
        directory="",
        on=on,
    )


def pod_counts(status: JobStatus, total: int) -> PodCounts:
    return PodCounts(
        running=status.running,
        total=total,
        succeeded=status.succeeded,
        failed=status.failed,
        pending=status.pending,
    )

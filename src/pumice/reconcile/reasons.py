"""`status.state.reason` and `.message`.

Why the job is in its phase, in words for people, with names that programs know.
"""

from __future__ import annotations

import datetime as dt

from pumice.model.job import Job
from pumice.model.snapshot import PodPhase, Snapshot
from pumice.model.vocabulary import Event, Phase
from pumice.reconcile.ledger import Ledger, read_ledger
from pumice.reconcile.phases import DEADLINE
from pumice.reconcile.pod_creation import UNSCHEDULABLE, is_short, why_not
from pumice.reconcile.pod_membership import WANTED
from pumice.reconcile.requested_action import Order
from pumice.reconcile.tally import Tally
from pumice.reconcile.verdict import EVICTED, MIN_AVAILABLE_NOT_MET, RETRIES_EXHAUSTED, Verdict, verdict

_PASSING_ON = frozenset((Phase.ABORTED, Phase.COMPLETED, Phase.TERMINATED))


def reason_for(snapshot: Snapshot, order: Order | None, phase: Phase, counts: Tally) -> Verdict:
    """Why this phase is entered (or kept)."""
    before = snapshot.job.status.state
    was = Phase(before.phase)
    if order is not None and phase is not was:
        return _of_order(snapshot, order)
    if phase is Phase.FAILED and phase is not was:
        return _of_failure(snapshot, was, counts)
    if phase in _PASSING_ON or (phase is was and phase not in WANTED):
        # What led to the winding down is also why it is over.
        return Verdict(before.reason, before.message)
    return Verdict("", "")


def what_is_awaited(snapshot: Snapshot, ledger: Ledger, now: dt.datetime) -> Verdict:
    """Why a job that wants pods does not have them yet; empty if it wants for nothing."""
    if snapshot.troubles:
        trouble = snapshot.troubles[0]
        more = f" (and {len(snapshot.troubles) - 1} more)" if len(snapshot.troubles) > 1 else ""
        return Verdict(trouble.reason, trouble.message + more)
    held = why_not(snapshot, ledger, now) if is_short(snapshot, ledger) else None
    if held is not None:
        return Verdict(held.reason, held.message)
    if snapshot.group is not None and any(pod.phase is PodPhase.PENDING and pod.is_live for pod in snapshot.pods):
        # Some schedulers look at a gang only when its pods are there.
        return Verdict(UNSCHEDULABLE if snapshot.group.message else "", snapshot.group.message)
    return Verdict("", "")


def _of_order(snapshot: Snapshot, order: Order) -> Verdict:
    if order.action == DEADLINE:
        seconds = snapshot.job.spec.active_deadline_seconds
        return Verdict(DEADLINE, f"the job ran longer than its activeDeadlineSeconds, {seconds}")
    if order.command is not None:
        return Verdict("Command", f"{order.command.action} was asked for by Command {order.command.metadata.name}")
    if not order.matches:
        return Verdict(order.reason, "spec.suspend is true" if order.reason else "")
    match = order.matches[0]
    event = match.occurrence.event
    acted = f"; policy {match.path} {event}: {match.action}"
    if event is Event.POD_FAILED:
        failed = verdict(pod for pod in snapshot.pods if pod.version == snapshot.job.status.version)
        if failed is not None:
            return Verdict(failed.reason, failed.message + acted, failed.pod)
    if event is Event.POD_EVICTED:
        name = match.occurrence.short_name
        return Verdict(EVICTED, f"{name} was removed by somebody else{acted}", name)
    whom = match.occurrence.short_name
    return Verdict(str(event), (f"{event} of {whom}" if whom else str(event)) + acted, whom)


def _of_failure(snapshot: Snapshot, was: Phase, counts: Tally) -> Verdict:
    job: Job = snapshot.job
    if was is Phase.RESTARTING:
        return Verdict(RETRIES_EXHAUSTED, f"{_spent_budget(job)}; the last cause: {job.status.state.message}")
    failed = verdict(snapshot.pods)
    needed = job.spec.min_available if job.spec.min_success is None else job.spec.min_success
    if failed is not None and needed >= job.total_replicas:
        return failed
    # Some failures would have been tolerated: there were too many.
    first = f"; {failed.message}" if failed is not None else ""
    short = _short_task(job, counts) or f"{counts.succeeded} of {job.total_replicas} pods succeeded, {needed} needed"
    return Verdict(MIN_AVAILABLE_NOT_MET, short + first, failed.pod if failed is not None else "")


def _spent_budget(job: Job) -> str:
    caused = read_ledger(job.status).restarts_by_task
    for task in job.spec.tasks:
        if task.max_restarts is not None and caused.get(task.name, 0) > task.max_restarts:
            return f"task {task.name} has caused more restarts than its maxRestarts, {task.max_restarts}"
    return f"no retry is left of {job.spec.max_retry}"


def _short_task(job: Job, counts: Tally) -> str:
    """The task that alone has too few successes, where the job as a whole has enough.

    A job that asks for fewer pods than its tasks do together means any of them, and no task counts by itself.
    """
    together = sum(task.min_members for task in job.spec.tasks)
    if not together <= job.spec.min_available <= counts.succeeded:
        return ""
    for task in job.spec.tasks:
        done = counts.of_task(task.name, PodPhase.SUCCEEDED)
        if task.min_available is not None and done < task.min_available:
            return f"{done} of {task.replicas} pods of task {task.name} succeeded, {task.min_available} needed"
    return ""

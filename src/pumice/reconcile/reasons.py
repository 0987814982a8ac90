"""`status.state.reason` and `.message`.

Why the job is in its phase, in words for people, with names that programs know.
"""

from __future__ import annotations

import datetime as dt

from pumice.model.job import Job
from pumice.model.snapshot import Snapshot
from pumice.model.vocabulary import Event, Phase
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.making import is_short, why_not
from pumice.reconcile.orders import Order
from pumice.reconcile.phases import DEADLINE
from pumice.reconcile.standing import WANTED
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
    return Verdict(held.reason, held.message) if held is not None else Verdict("", "")


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
        cause = job.status.state.message
        return Verdict(RETRIES_EXHAUSTED, f"no retry is left of {job.spec.max_retry}; the last cause: {cause}")
    failed = verdict(snapshot.pods)
    if failed is not None:
        return failed
    wanted = job.spec.min_available
    return Verdict(MIN_AVAILABLE_NOT_MET, f"{counts.succeeded} pods succeeded, {wanted} were needed")

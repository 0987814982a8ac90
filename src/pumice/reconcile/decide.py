"""One pass over one job: from what is to what should be done next. Pure; the whole story is in `decide`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from pumice.model.snapshot import Snapshot
from pumice.model.status import JobStatus
from pumice.model.vocabulary import Phase
from pumice.plugins.base import Base
from pumice.reconcile.commands import commands_for
from pumice.reconcile.decision import Decision, DeleteJob
from pumice.reconcile.events import events_for
from pumice.reconcile.invalid_job import refused
from pumice.reconcile.ledger import Ledger, read_ledger, write_ledger
from pumice.reconcile.ledger_update import remembering_presence, remembering_successes
from pumice.reconcile.occurrences import occurrences
from pumice.reconcile.owned_objects import markers
from pumice.reconcile.phases import FINAL, TABLE, Facts, move_for
from pumice.reconcile.pod_creation import grace_ends
from pumice.reconcile.pod_membership import WANTED, keeps_group, must_go
from pumice.reconcile.policies import failure_awaits, matches
from pumice.reconcile.reasons import reason_for, what_is_awaited
from pumice.reconcile.requested_action import ATTENTIVE, choose, left_open, wake_up
from pumice.reconcile.sanitize import plausible_ledger, plausible_status
from pumice.reconcile.tally import Tally, tally
from pumice.reconcile.transition import carried_out, entered, is_exhausted, running_duration, settled
from pumice.reconcile.ttl import expiry


def decide(snapshot: Snapshot, plugins: Sequence[Base], now: dt.datetime) -> Decision:
    if snapshot.job.metadata.deletion_timestamp is not None:
        # The garbage collector takes everything that the job owns.
        return Decision(snapshot.job.status)
    if snapshot.job.status.state.phase not in TABLE:
        return _begun(snapshot, plugins, now)
    if snapshot.faults and snapshot.job.status.state.phase not in FINAL:
        return refused(snapshot, now)
    plugins = () if snapshot.faults else plugins
    snapshot = replace(snapshot, job=plausible_status(snapshot.job, now))
    before, phase = snapshot, Phase(snapshot.job.status.state.phase)

    # What is, and what has happened.
    known = plausible_ledger(read_ledger(snapshot.job.status), snapshot.job, now)
    ledger = remembering_successes(snapshot, known)
    counts = _counted(snapshot, ledger)
    happened = occurrences(snapshot, ledger, counts, now) if phase in ATTENTIVE else []
    found = matches(snapshot.job, happened)

    # What is asked for, and what the table makes of it.
    order = choose(snapshot, ledger, found, now)
    ledger = remembering_presence(snapshot, ledger, left_open(found, order), now)
    move = move_for(phase, order.action if order is not None else None)
    facts = _facts(snapshot, ledger, counts, awaits=failure_awaits(found, now))
    after = move.next_phase(facts)

    # The new status, on paper.
    reason = reason_for(snapshot, order if isinstance(move.to, Phase) else None, after, counts)
    job, ledger = carried_out(snapshot, ledger, move, order)
    status = entered(job.status, after, reason.reason, reason.message, now)
    ledger = settled(ledger, after, now)
    snapshot = replace(snapshot, job=msgspec.structs.replace(job, status=status))
    if after in WANTED:
        awaited = what_is_awaited(snapshot, ledger, now)
        status = entered(status, after, awaited.reason, awaited.message, now)
    ledger = replace(ledger, others=markers(snapshot, plugins, ledger.others))
    status = _with_counts(status, snapshot, ledger)
    snapshot = replace(snapshot, job=msgspec.structs.replace(job, status=status))

    # What follows from it.
    events = events_for(before, snapshot, order, plugins)
    end = expiry(snapshot.job)
    if end is not None and end <= now and after is phase:
        return Decision(status, (DeleteJob(snapshot.job.uid),), events)
    commands = commands_for(snapshot, ledger, plugins, now)
    moments = (end, wake_up(snapshot.job, ledger, found, now), grace_ends(snapshot, ledger, now))
    soonest = min((moment for moment in moments if moment is not None), default=None)
    return Decision(status, commands, events, soonest - now if soonest is not None else None)


def _begun(snapshot: Snapshot, plugins: Sequence[Base], now: dt.datetime) -> Decision:
    """A job that was never looked at begins in Pending. If it does not stay there, that is written all the same."""
    status = entered(snapshot.job.status, Phase.PENDING, "", "", now)
    pending = replace(snapshot, job=msgspec.structs.replace(snapshot.job, status=status))
    decision = decide(pending, plugins, now)
    return decision if decision.status.state.phase == Phase.PENDING else Decision(status)


def _counted(snapshot: Snapshot, ledger: Ledger) -> Tally:
    exhausted = is_exhausted(snapshot.job, ledger)
    return tally(
        snapshot.job, snapshot.pods, ledger, lambda pod: must_go(pod, snapshot.job, ledger, exhausted=exhausted)
    )


def _facts(snapshot: Snapshot, ledger: Ledger, counts: Tally, *, awaits: bool) -> Facts:
    exhausted = is_exhausted(snapshot.job, ledger)
    leaving = sum(must_go(pod, snapshot.job, ledger, exhausted=exhausted) for pod in snapshot.pods)
    old_group = snapshot.group is not None and not keeps_group(Phase(snapshot.job.status.state.phase), ledger)
    return Facts(snapshot.job, counts, exhausted, leaving + old_group, awaits)


def _with_counts(status: JobStatus, snapshot: Snapshot, ledger: Ledger) -> JobStatus:
    counts = _counted(snapshot, ledger)
    return msgspec.structs.replace(
        status,
        min_available=snapshot.job.spec.min_available,
        task_status_count=counts.task_states(),
        pending=counts.pending,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
        terminating=counts.terminating,
        unknown=counts.unknown,
        running_duration=running_duration(status, ledger),
        controlled_resources=write_ledger(ledger),
    )

"""Derives the status of a run from the entries of its journal, one by one. No other code changes a status.

Three facts of a status are not in the journal: how the queue explains that the run waits (`held` and `note`, written by
`RunStatus.waits`), and how large its files are.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Protocol

from msgspec.structs import replace

from pumice.diagnosis.outcome import is_asked
from pumice.diagnosis.pod_ends import how_it_ended, how_it_failed, one_line
from pumice.diagnosis.verdict import plain_verdict
from pumice.diagnosis.verdict_lines import heading_text
from pumice.diagnosis.why import sentence
from pumice.model.job import Job
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.vocabulary import SUSPENDED, Phase
from pumice.reconcile.ledger import most_attempts
from pumice.reconcile.phases import AT_REST
from pumice.store.events import (
    CodeChanged,
    ContainerRestarted,
    HangEnded,
    PhaseChanged,
    PodChanged,
    PortPublished,
    PortTaken,
    RequestAccepted,
    RunHangs,
    RunPlanned,
    RunWaits,
)
from pumice.store.history.entries import (
    Detached,
    Held,
    JournalEntry,
    Lost,
    NoRoom,
    NotStarted,
    Queued,
    Resumed,
    SecretsMissing,
    Started,
)
from pumice.store.journal import Entry
from pumice.store.run_end import NO_ROOM, RunEnded
from pumice.store.run_record import QUEUED, SECRETS_MISSING, PodCounts, PublishedPort, RunRecord, RunStatus

_NOT_STARTED: Final = "NotStarted"
# What holds only while a process works on the run.
_NOT_LIVE: Final[Mapping[str, Any]] = {"hang": None, "published": (), "stopping": False}


class Facts(Protocol):
    """What the status follows from, besides the entry: the history up to this entry."""

    record: RunRecord
    status: RunStatus
    pod_phases: Counter[PodPhase]  # how many pods have each; see `counted_phase`

    @property
    def job(self) -> Job: ...


def derive_status(facts: Facts, entry: Entry, event: JournalEntry | None) -> RunStatus:
    """Return the status after an entry."""
    changes = _end(facts, event, entry.time) if isinstance(event, RunEnded) else _changes(facts, entry, event)
    match event:
        case RunEnded(job) | PhaseChanged(job) | RunPlanned(job):
            changes["pods"] = _count(facts, job.total_replicas)
        case PodChanged():
            changes["pods"] = _count(facts, facts.status.pods.total)
    return replace(facts.status, **changes)


def _changes(facts: Facts, entry: Entry, event: JournalEntry | None) -> dict[str, Any]:  # noqa: C901, PLR0912 - one case per event
    """Return the fields that an event of the job changes. Kinds that are not known here change nothing."""
    status = facts.status
    match event:
        case RunPlanned(job):
            # A run that waited has its resources later, or has them already.
            started = status.started if status.arrival else entry.time
            fresh: dict[str, Any] = {"started": started, "stopped": False, "code_change": None}
            return {**fresh, "max_attempts": most_attempts(job.spec.max_retry, job.status), **_NOT_LIVE}
        case PhaseChanged(job, job_status, attempt, acted):
            state, note = job_status.state, status.note
            if acted is not None and acted.pod:
                note = f"attempt {attempt}: {acted.pod} {acted.event}: {acted.action}"
            phase = {"phase": state.phase, "reason": state.reason, "message": state.message}
            attempts = {"attempt": attempt, "max_attempts": most_attempts(job.spec.max_retry, job_status)}
            return {**phase, **attempts, "note": note}
        case PodChanged(pod, _, follows) if follows:
            return {"note": f"attempt {pod.retry + 1}: {pod.short_name} {one_line(how_it_failed(pod, ''))}"}
        case ContainerRestarted(pod, end, count):
            return {"note": f"{pod.short_name} restart {count}: {how_it_ended(end)}"}
        case RequestAccepted(stop) if stop is not None:
            return {"stopping": True}
        case RequestAccepted() if status.pods.total:
            return {"pods": replace(status.pods, total=facts.job.total_replicas)}
        case RunWaits(why):
            return {"held": why.since, "note": sentence(why)}
        case CodeChanged(change):
            return {"code_change": change}
        case RunHangs(hang):
            return {"hang": hang}
        case HangEnded():
            return {"hang": None}
        case PortPublished(name, port, address):
            return {"published": _publish(status, PublishedPort(pod=name, port=port, address=address))}
        case PortTaken(name, port, address, why):
            return {"published": _publish(status, PublishedPort(pod=name, port=port, address=address, taken=why))}
    return _run_changes(facts, entry, event)


def _publish(status: RunStatus, port: PublishedPort) -> tuple[PublishedPort, ...]:
    """Return the published ports with this one, which replaces what is known of its address."""
    return (*(each for each in status.published if each.address != port.address), port)


def _run_changes(facts: Facts, entry: Entry, event: JournalEntry | None) -> dict[str, Any]:
    """Return the fields that an entry about the run itself changes."""
    ref = facts.record.ref
    match event:
        case Queued(arrival):
            return {"arrival": arrival, "phase": QUEUED, "held": None, "started": None}
        case Detached(arrival):
            return {"arrival": arrival}
        case Held(suspended):
            note = "" if suspended else f"held; pumice resume {ref} queues it"
            held = {"phase": Phase.ABORTED, "reason": SUSPENDED, "message": "", "note": note, "stopped": suspended}
            return {**held, "started": None, "gpus": ()}
        case Started(gpus):
            return {"started": entry.time, "gpus": gpus, "note": "", "reason": "", "message": ""}
        case Resumed():
            ended = {"finished": None, "exit_code": None, "verdict": None, "stopped": False}
            return {"phase": QUEUED, "reason": "", "message": "", "note": "", "started": None, **ended, **_NOT_LIVE}
        case SecretsMissing(message, command):
            about = {"message": message, "note": f"{message}; {command}", "command": command}
            return {"phase": QUEUED, "reason": SECRETS_MISSING, "started": None, "gpus": (), **about}
        case Lost():
            return _lose(facts, entry, event)
        case NoRoom(message):
            about = {"phase": Phase.TERMINATED, "reason": "NoRoom", "message": message, "note": message}
            verdict = plain_verdict("NoRoom", f"{ref}: {message}", facts.status.attempt)
            return {**about, "verdict": verdict, "finished": entry.time, "exit_code": NO_ROOM}
        case NotStarted(reason, message):
            why, note = reason or _NOT_STARTED, message.partition("\n")[0]
            verdict = plain_verdict(why, message, facts.status.attempt)
            failed = {"phase": Phase.FAILED, "reason": why, "message": message, "note": note, "exit_code": 1}
            pods = _without_live(facts.status.pods)
            return {**failed, "verdict": verdict, "finished": entry.time, "pods": pods, **_NOT_LIVE}
    return {}


def _lose(facts: Facts, entry: Entry, lost: Lost) -> dict[str, Any]:
    """Return the changes by the end of the process of the run: its pods end with it."""
    status, ref, message = facts.status, facts.record.ref, lost.message
    about: dict[str, Any] = {"phase": lost.phase, "reason": lost.reason, "message": message, "note": message}
    about |= {"pods": _without_live(status.pods), **_NOT_LIVE}
    if lost.phase == QUEUED:
        return {**about, "started": None, "gpus": ()}
    if lost.phase == Phase.ABORTED:
        return {**about, "reason": SUSPENDED, "started": None, "gpus": (), "stopped": True}
    failed = " failed" if lost.phase == Phase.FAILED else ""
    asked = is_asked(lost.reason)
    # There is no more to say about a run that a person stopped than that.
    verdict = None if asked else plain_verdict(lost.reason, f"{ref}{failed}: {message}", status.attempt)
    ended = {"finished": entry.time, "exit_code": lost.code, "verdict": verdict}
    return {**about, **ended, "stopped": asked}


def _without_live(pods: PodCounts) -> PodCounts:
    """Return the numbers of pods after their process has ended, and they with it."""
    return replace(pods, running=0, pending=0)


def counted_phase(pod: ObservedPod) -> PodPhase:
    """Return the phase as which a pod counts: one that was asked to end has not succeeded."""
    return pod.phase if pod.phase is not PodPhase.SUCCEEDED or pod.has_succeeded else PodPhase.UNKNOWN


def _count(facts: Facts, total: int) -> PodCounts:
    phases = facts.pod_phases
    return PodCounts(
        running=phases[PodPhase.RUNNING],
        total=total,
        succeeded=phases[PodPhase.SUCCEEDED],
        failed=phases[PodPhase.FAILED],
        pending=phases[PodPhase.PENDING],
    )


def _end(facts: Facts, outcome: RunEnded, now: dt.datetime) -> dict[str, Any]:
    """Return the changes by this outcome. A suspended run has not finished."""
    stop, state = outcome.stop, outcome.job.status.state
    suspended = stop is not None and stop.reason == SUSPENDED
    return {
        # Killed pods leave the job in the phase that it had.
        "phase": outcome.phase if outcome.phase in AT_REST or stop is None else Phase.TERMINATED,
        "reason": outcome.reason or state.reason,
        # Of a run that was stopped, the Job names a Command of the engine.
        "message": state.message if stop is None else "" if suspended else stop.text,
        "finished": None if suspended else now,
        "started": None if suspended else facts.status.started,
        "exit_code": outcome.exit_code,
        "verdict": outcome.verdict,
        "note": "" if outcome.verdict is None else one_line(heading_text(outcome.verdict)),
        "stopped": stop is not None and is_asked(stop.reason),
        **_NOT_LIVE,
    }

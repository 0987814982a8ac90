"""Writes the journal that a run on this machine would have from what a cluster says about a Job.

So `RunHistory`, and every view of it, works for both. Pure: the same facts give the same entries.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.admission.defaults import with_defaults
from pumice.client.cluster.archive.kept_logs import kept_pod
from pumice.client.cluster.job_end import job_end
from pumice.client.cluster.job_facts import ClusterPod, JobFacts, is_volcanos
from pumice.client.cluster.submission.code_volumes import as_written
from pumice.client.values import Status, status_of
from pumice.diagnosis.verdict_lines import heading_text
from pumice.diagnosis.why import Why, WhyCode
from pumice.model import keys
from pumice.model.job import Job, JobState, JobStatus
from pumice.model.pod import all_containers
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.units import EPOCH, read_time
from pumice.model.vocabulary import MAX_RETRY, Phase
from pumice.reconcile.consequences import what_follows
from pumice.reconcile.events import EXECUTE_ACTION
from pumice.reconcile.ledger import most_attempts
from pumice.runtime.offline_context import offline_context
from pumice.store.events import PhaseChanged, PodChanged, Progress, RunEvent, RunPlanned, RunWaits, WarningIssued
from pumice.store.history.entries import EventEncoder, JournalEntry, Queued, Started
from pumice.store.history.run_history import RunHistory
from pumice.store.journal import Entry
from pumice.store.run_record import DETACHED, PodCounts, RunRecord

WAITING: Final = frozenset({"", Phase.PENDING})
_PHASES: Final = frozenset[str](Phase)
_CLOCK_SKEW: Final = dt.timedelta(seconds=2)


class Moment(Struct, frozen=True):
    """Something that happened. Equal keys are the same event."""

    time: dt.datetime
    rank: int  # the order of what happened in the same second
    key: tuple[object, ...]
    event: JournalEntry
    follows: dt.datetime | None = None  # its place in the order, where that is not its time
    restarted: bool = False  # it is what a restart of the Job in the same second led to


@dataclass(slots=True)
class JobJournal:
    """The entries of one Job, and their `history`. `add` returns those that are new since the last facts.

    `by_time` numbers them by microseconds since 1970, so that they have an order with the lines of logs.
    """

    record: RunRecord
    by_time: bool = False
    history: RunHistory = field(init=False)
    events: list[RunEvent] = field(default_factory=list)  # of the entries that were added last
    _known: set[tuple[object, ...]] = field(default_factory=set)
    _encoder: EventEncoder = field(default_factory=EventEncoder)
    _seq: int = 0
    _phase: object = None  # the newest that was written

    def __post_init__(self) -> None:
        self.history = RunHistory(self.record)

    def add(self, facts: JobFacts) -> list[Entry]:
        found = []
        phase: Moment | None = None
        for each in _moments(facts):
            if isinstance(each.event, PhaseChanged):
                phase = each
            # An event that says the same as the phase to which it led is no news.
            if each.key in self._known or ("said", each.key[-1]) in self._known:
                continue
            found.append(each)
            self._known.add(each.key)
            if isinstance(each.event, PhaseChanged):
                # Nor is a phase whose message goes away, as it does when another follows.
                self._known |= {(*each.key[:-1], ""), ("said", f"{EXECUTE_ACTION}: {each.event.cause}")}
        found.sort(key=_order)
        phases = [each.key[1] for each in found if isinstance(each.event, PhaseChanged)]
        self._phase = phases[-1] if phases else self._phase
        if phase is not None and phase not in found and phase.key[1] != self._phase:
            # It was entered twice within a second: the first time is known, and the server knows seconds only.
            self._phase = phase.key[1]
            found = sorted([*found, phase], key=_order)
        entries = [entry for each in found for entry in self._entries(each)]
        self.events = [event for each in entries if isinstance(event := self.history.add(each), RunEvent)]
        return entries

    def _entries(self, moment: Moment) -> Iterator[Entry]:
        event = moment.event
        data: list[tuple[str, Any]]
        if isinstance(event, RunEvent):
            data = self._encoder.encode(event)
        else:
            data = [(type(event).__name__, msgspec.to_builtins(event))]
        for kind, value in data:
            self._seq = max(self._seq + 1, int(moment.time.timestamp() * 1e6) if self.by_time else 0)
            elapsed = (moment.time - self.record.created).total_seconds()
            yield Entry(self._seq, moment.time, elapsed, kind, msgspec.Raw(msgspec.json.encode(value)))


def _order(moment: Moment) -> tuple[dt.datetime, bool, int]:
    return moment.follows or moment.time, moment.restarted, moment.rank


def record_of(facts: JobFacts) -> RunRecord:
    """Return the record of the run that a Job on a cluster is."""
    job, metadata = facts.job, facts.manifest["metadata"]
    annotations = metadata.get("annotations") or {}
    return RunRecord(
        uid=job.uid,
        namespace=job.namespace,
        name=job.name,
        number=0,
        host="",
        boot="",
        created=read_time(metadata.get("creationTimestamp")) or EPOCH,
        mode=DETACHED,
        job=as_written(msgspec.to_builtins(job), facts.on, facts.kubeconfig),
        note=str(annotations.get(keys.NOTE) or ""),
        args=read_args(str(annotations.get(keys.ARGS) or "")),
    )


def read_args(text: str) -> list[str]:
    """Return the arguments of an annotation; none if it is not of this client."""
    try:
        return msgspec.json.decode(text or "[]", type=list[str])
    except msgspec.MsgspecError:
        return []


def history_of(facts: JobFacts) -> RunHistory:
    journal = JobJournal(record_of(facts))
    journal.add(facts)
    return journal.history


def summary(facts: JobFacts, on: str) -> Status:
    """Return a Job at one moment."""
    return summary_of(history_of(facts), facts.job, on)


def summary_of(history: RunHistory, job: Job, on: str) -> Status:
    """The numbers of pods are those that its controller counted."""
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


# --- what happened ------------------------------------------------------------------------------------------------


def _moments(facts: JobFacts) -> Iterator[Moment]:
    # What is shown of one Job has the defaults, which its controller may not write down. A list does without.
    job = with_defaults(facts.job, offline_context().registry) if facts.where else facts.job
    created = read_time(facts.manifest["metadata"].get("creationTimestamp")) or EPOCH
    phases = list(_phases(job, created))
    # When the first pod got its node, as far as it is known; None for a Job that waits.
    times = [time for each in facts.pods if (time := each.scheduled or each.started) is not None]
    times += [time for phase, time, _ in phases if phase not in WAITING][:1]
    began = min(times, default=phases[0][1] if phases and has_begun(facts.job.status) else None)
    yield Moment(created, 0, ("queued",), Queued(1))
    if began is not None:
        yield Moment(began, 2, ("started",), Started())
    state = job.status.state
    images = (str(each.get("image") or "") for task in job.spec.tasks for each in all_containers(task.pod_spec))
    plan = RunPlanned(job, ", ".join(dict.fromkeys(filter(None, images))))
    if facts.on:
        plan = replace(plan, name=job.name, directory=f"on {facts.on}/{job.namespace}")
    yield Moment(created, 1, ("planned",), plan)
    if began is None and state.phase in WAITING and (text := state.message or state.reason):
        waits = Why(run=job.name, code=WhyCode.RESOURCES, since=created, message=text)
        yield Moment(
            max(created, read_time(state.last_transition_time) or created), 3, ("waits", text), RunWaits(waits)
        )
    for version in (*facts.earlier_jobs, job):
        yield from _phase_moments(replace(job, status=version.status), created, began)
    all_pods = (*_kept_pods(facts), *facts.earlier_pods, *facts.pods)
    follows = _what_follows(job, all_pods)
    of_pods = [(pod, moment) for pod in all_pods for moment in _pod_moments(pod, follows.get(pod.observed.uid, ""))]
    restarts = {time for phase, time, _ in phases if phase == Phase.RESTARTING}
    for pod, each in of_pods:
        # The clock of a node may be ahead of that of the controller.
        caused = max((time for _, time, _ in phases if time <= each.time <= time + _CLOCK_SKEW), default=None)
        is_new = pod.observed.retry >= job.status.retry_count
        restarted = is_new and any(time == caused and pod.observed.created_at >= time for time in restarts)
        yield replace(each, follows=caused, restarted=restarted)
    for fact in facts.events:
        if fact.reason in _PHASES or (fact.reason == EXECUTE_ACTION and is_volcanos(job.status)):
            # Pumice's controller reports each phase, too, and Volcano's each action, which a phase follows.
            continue
        text = f"{fact.reason}: {fact.message}"
        event_of = WarningIssued(text) if fact.is_warning else Progress(text)
        yield Moment(max(fact.time, created), 8, ("event", fact.time, text), event_of)
    if phases and (ended := job_end(facts, job)) is not None:
        # Whatever the clocks of nodes say, it comes last. Pods that are seen later may change the verdict.
        last = max([phases[-1][1], *(each.time for _, each in of_pods)])
        said = "" if ended.verdict is None else heading_text(ended.verdict)
        yield Moment(last, 9, ("ended", state.phase, state.last_transition_time, said), ended, restarted=True)


def _phase_moments(job: Job, created: dt.datetime, began: dt.datetime | None) -> Iterator[Moment]:
    phases = list(_phases(job, created))
    for number, (phase, time, attempt) in enumerate(phases if began is not None or len(phases) > 1 else ()):
        status = job.status
        if number < len(phases) - 1:
            # What is known of the status at an earlier condition.
            state = JobState(phase=phase, last_transition_time=status.conditions[number].last_transition_time)
            status = JobStatus(state=state, conditions=status.conditions[: number + 1])
        event = PhaseChanged(job, status, attempt, cause=status.state.message)
        # Not with the number: a phase that is entered again is the newest condition, and the only one of the phase.
        key = ("phase", phase, attempt, time, status.state.message)
        # Pods change first, and the phase follows from them.
        restarted = (Phase.RESTARTING, time) in [(each, moment) for each, moment, _ in phases[:number]]
        yield Moment(max(time, began or time), 7, key, event, restarted=restarted)


def _kept_pods(facts: JobFacts) -> Iterator[ClusterPod]:
    """Yield the pods of earlier attempts whose logs are kept, and that are gone."""
    uids = {each.observed.uid for each in facts.pods}
    for tail in facts.kept.tails:
        pod = kept_pod(tail)
        if pod.uid not in uids:
            yield ClusterPod(pod, facts.job.namespace, finished=pod.ended_at)


def phases_of(status: JobStatus, created: dt.datetime) -> list[tuple[str, dt.datetime]]:
    """Return phase and time of each condition, and of the state, which may be newer than all of them."""
    state = status.state
    found = [(each.status, read_time(each.last_transition_time) or created) for each in status.conditions]
    if state.phase and (not found or found[-1][0] != state.phase):
        found.append((state.phase, read_time(state.last_transition_time) or created))
    return found


def _phases(job: Job, created: dt.datetime) -> Iterator[tuple[str, dt.datetime, int]]:
    """Yield each phase with its time and its attempt."""
    status, found = job.status, phases_of(job.status, created)
    to_come = sum(phase == Phase.RESTARTING for phase, _ in found)
    # Volcano's controller counts the restart after the last attempt, too, which is none.
    most = most_attempts(job.spec.max_retry, status)
    for phase, time in found:
        # A retry counts when the Job enters Restarting; older conditions may be gone. What a person asked for is none.
        yield phase, time, min(max(1, status.retry_count + 1 - to_come), most)
        to_come -= phase == Phase.RESTARTING


def has_begun(status: JobStatus) -> bool:
    """Whether a pod of it has run, as far as its controller has counted."""
    return status.running + status.succeeded + status.failed > 0


def _what_follows(job: Job, pods: Iterable[ClusterPod]) -> dict[str, str]:
    """Return what the failure of each pod leads to, by uid. A pod that is being deleted was asked to end."""
    first = dict[str, ClusterPod]()  # as it was when it failed: a policy may delete it then
    for each in pods:
        known = first.get(each.observed.uid)
        if each.observed.is_finished and (known is None or not _has_failed(known.observed)):
            first[each.observed.uid] = each
    finished = sorted(first.values(), key=lambda each: (each.finished or EPOCH, each.name))
    newest = max((each.observed.retry for each in finished), default=0)
    now = replace(job, spec=replace(job.spec, max_retry=job.spec.max_retry or MAX_RETRY))
    # Restarts since then are in the status of today.
    then = replace(now, status=JobStatus())
    ended, found = Counter[int](), dict[str, str]()
    for pod in (each.observed for each in finished):
        ended[pod.retry] += 1
        if _has_failed(pod):
            left = job.total_replicas - ended[pod.retry]
            found[pod.uid] = what_follows(now if pod.retry == newest else then, pod, left)
    return found


def _has_failed(pod: ObservedPod) -> bool:
    return pod.phase is PodPhase.FAILED and not pod.is_deleting


def _pod_moments(pod: ClusterPod, follows: str) -> Iterator[Moment]:
    seen, name = pod.observed, pod.observed.short_name
    new = replace(seen, phase=PodPhase.PENDING, ends=(), ready=False, has_ended=False, waiting=None, restarts=0)
    yield Moment(seen.created_at, 4, ("created", seen.uid), PodChanged(new))
    if pod.started is not None and seen.phase is not PodPhase.PENDING:
        started = replace(seen, phase=PodPhase.RUNNING, ends=(), has_ended=False, changed_at=pod.started, waiting=None)
        yield Moment(max(pod.started, seen.created_at), 5, ("started", seen.uid), PodChanged(started))
    reason = "" if seen.waiting is None else seen.waiting.reason
    if seen.phase is PodPhase.PENDING and not reason and not seen.is_deleting:
        return
    follows = follows if _has_failed(seen) else ""
    now = pod.finished if seen.is_finished else seen.changed_at or pod.started
    key = ("pod", seen.uid, name, seen.phase, reason, seen.restarts, seen.is_deleting)
    yield Moment(max(now or seen.created_at, seen.created_at), 6, key, PodChanged(seen, follows=follows))

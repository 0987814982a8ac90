"""The history of one run: the only fold of its journal. Everything that is shown of a run is an attribute of it.

The owner of the run adds each entry as it appends it, so that readers and the owner derive the same. `StoredHistory`
reads the entries of a run in files.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pumice.diagnosis.failures import Failures
from pumice.diagnosis.verdict import Evidence, Verdict, judge
from pumice.model.job import Job, JobStatus
from pumice.model.slot import NONE
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.vocabulary import Phase
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.ledger import Restart, RestartKind, most_attempts, read_ledger, write_ledger
from pumice.reconcile.ledger_update import record_successes
from pumice.store.events import (
    ContainerRestarted,
    PhaseChanged,
    PodChanged,
    RequestAccepted,
    RunPlanned,
    StatusWritten,
)
from pumice.store.history.derive_status import counted_phase, derive_status
from pumice.store.history.entries import (
    EventDecoder,
    Held,
    JournalEntry,
    Lost,
    NoRoom,
    NotStarted,
    Queued,
    Resumed,
    SecretsMissing,
    Started,
    decode_entry,
)
from pumice.store.history.event_log import EventLog
from pumice.store.history.pod_life import Piece, PodLife
from pumice.store.job_source import JobSource
from pumice.store.journal import Entry
from pumice.store.run_end import RunEnded, Stop
from pumice.store.run_record import RunRecord, RunStatus

# Seconds. Pods are measured at least every minute, unless they are very many.
_NOTICED_LATE: Final = 150.0
_STATUSES: Final = 4  # of the job, in case the newest one is damaged
_ENDS: Final = frozenset((Phase.RESTARTING, Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED, Phase.ABORTED))


class PhaseSpan(msgspec.Struct, frozen=True, kw_only=True):
    phase: str
    start: dt.datetime
    end: dt.datetime | None = None
    attempt: int = 1


class AttemptTimes(Struct):
    number: int
    start: dt.datetime
    end: dt.datetime | None = None
    acted: JobEvent | None = None  # the policy that acted last in it


class Fired(Struct, frozen=True):
    """A policy acted. `spent` is the number of retries used afterwards."""

    time: dt.datetime
    attempt: int
    event: JobEvent
    spent: int


class RunHistory(Struct):
    record: RunRecord
    status: RunStatus = field(default_factory=RunStatus)
    seq: int = 0
    plan: RunPlanned | None = None  # of the newest process
    outcome: RunEnded | None = None  # of the newest process
    granted: dt.datetime | None = None  # when it first got its resources, if it waited for them
    ended: dt.datetime | None = None  # when the newest process recorded its outcome
    phases: list[PhaseSpan] = field(default_factory=list)
    attempts: list[AttemptTimes] = field(default_factory=list)
    lives: dict[str, PodLife] = field(default_factory=dict)  # by uid, in the order of their creation
    pods: dict[str, ObservedPod] = field(default_factory=dict)  # the newest of each short name that counts
    pod_phases: Counter[PodPhase] = field(default_factory=Counter)  # of these
    fired: list[Fired] = field(default_factory=list)
    spent: int = 0  # retries
    first_running: dt.datetime | None = None
    active: list[Piece] = field(default_factory=list)  # when it had its resources; the last one may not have ended
    waited: float = 0.0  # seconds for its resources, in all; not while it was suspended
    losses: list[dt.datetime] = field(default_factory=list)  # when a killed process was noticed
    stop: Stop | None = None  # accepted, and not carried out yet
    replicas: dict[str, int] = field(default_factory=dict)  # by task, as the user scaled it
    events: EventLog = field(default_factory=EventLog)
    damaged: int = 0  # lines that could not be read
    _decoder: EventDecoder = field(default_factory=lambda: EventDecoder(Job()))
    _waits: dt.datetime | None = None  # since when
    _planned_at: dt.datetime | None = None
    _job_statuses: deque[Entry] = field(default_factory=lambda: deque(maxlen=_STATUSES))  # the newest entries with one
    # Pods that succeeded since the newest status of the job was written, and between the two before.
    _successes: tuple[list[ObservedPod], list[ObservedPod]] = field(default_factory=lambda: ([], []))

    def __post_init__(self) -> None:
        self._waits = self.record.created
        try:
            self._decoder.job = msgspec.convert(self.record.job, Job, strict=False)
        except msgspec.ValidationError:
            # What is damaged in the record is not shown; the journal has the job, too.
            self.damaged += 1

    @property
    def job(self) -> Job:
        """The newest Job, with the newest status that was announced."""
        return self._decoder.job

    @property
    def source(self) -> JobSource:
        """The file of its Job, with the lines of the fields."""
        return JobSource.of(self.record.file, self.record.marks)

    @property
    def attempt(self) -> int:
        return self.attempts[-1].number if self.attempts else 1

    @property
    def unenforced(self) -> Mapping[str, Sequence[str]]:
        """By task, the resources that its pods can use beyond their limits."""
        return {} if self.plan is None else self.plan.unenforced

    def seconds_active(self, until: dt.datetime, since: dt.datetime | None = None) -> float | None:
        """Return for how many seconds it had its resources, in all or in a part of its time; None if it never had."""
        if not self.active:
            return None
        pieces = ((max(each.start, since or each.start), min(each.end or until, until)) for each in self.active)
        return sum(max(0.0, (end - start).total_seconds()) for start, end in pieces)

    def span(self, attempt: AttemptTimes) -> tuple[dt.datetime, dt.datetime | None]:
        """Return when an attempt began and ended: the first one with the resources, the last one with the run."""
        begin, end = attempt.start, attempt.end
        if attempt.number == 1:
            # The time in the queue is no part of it.
            begin = self.granted or self.record.created
        if attempt.number == self.attempt:
            end = self.ended or self.status.finished or end
        return begin, end

    def lives_of(self, attempt: int = 0) -> list[PodLife]:
        """Return the last pod of each name in an attempt, or of all attempts, in the order of the tasks."""
        newest = {life.name: life for life in self.lives.values() if attempt in (0, life.attempt)}
        order = {task.name: number for number, task in enumerate(self.job.spec.tasks)}
        return sorted(
            newest.values(), key=lambda life: (order.get(life.pod.task, len(order)), life.pod.task, life.pod.index)
        )

    def failures(self, attempt: int) -> Failures:
        """Return the failures of the last pods of an attempt, and those that were done."""
        failures = Failures()
        for life in self.lives_of(attempt):
            failures.record(life.pod)
        return failures

    def verdict(self, attempt: int) -> Verdict | None:
        """Return what failed in an attempt; None if nothing did. The end of the run knows more about the last one."""
        ended = None if self.outcome is None else self.outcome.first
        if self.outcome is not None and ended is not None and attempt == ended.attempt:
            return self.outcome.verdict
        failures = self.failures(attempt)
        # Of the attempt, whatever became of the job since.
        job, most = replace(self.job, status=JobStatus()), most_attempts(self.job.spec.max_retry, self.job.status)
        evidence = Evidence(job=job, failures=failures.in_order(), succeeded=failures.succeeded(), max_attempts=most)
        return judge(evidence) if evidence.failures else None

    def job_status(self, job: Job) -> JobStatus:
        """Return the status of the job for the next process of the run, with the pods that succeeded since.

        A status is decided before it is written, so a pod may have succeeded in between. It saw every pod that changed
        before the status before it was written.
        """
        status: JobStatus | None = None
        for entry in self._job_statuses:
            with suppress(msgspec.ValidationError, msgspec.DecodeError):  # a damaged one
                written = decode_entry(StatusWritten.__name__, entry.data)
                status = written.status if isinstance(written, StatusWritten) else status
        if status is None:
            return JobStatus()
        ledger = record_successes(read_ledger(status), job, [*self._successes[1], *self._successes[0]])
        return replace(status, controlled_resources=write_ledger(ledger))

    def renew(self, job: Job) -> None:
        """Take the Job as it is now, where changes of its spec and its counts are in no entry, as on a cluster."""
        self._decoder.job = job

    # --- the fold -------------------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> JournalEntry | None:
        """Add an entry; return it decoded. None for one of another format, or of a kind that is not known here."""
        self.seq = entry.seq
        if entry.kind == StatusWritten.__name__:
            # Decoded only if it is needed: there are many, and large ones.
            self._job_statuses.append(entry)
            self._successes = ([], self._successes[0])
            self.status = replace(self.status, seq=entry.seq)
            return None
        try:
            event = self._decoder.decode(entry.kind, entry.data)
            self._add(entry, event)
        except (msgspec.ValidationError, msgspec.DecodeError, LookupError, TypeError, ValueError):
            self.damaged += 1
            self.status = replace(self.status, seq=entry.seq)
            return None
        ran = sum((each.end - each.start).total_seconds() for each in self.active if each.end is not None)
        self.status = replace(derive_status(self, entry, event), seq=entry.seq, ran=round(ran, 3))
        return event

    def _add(self, entry: Entry, event: JournalEntry | None) -> None:  # noqa: C901, PLR0912 - one case per entry
        time = entry.time
        match event:
            case Started():
                self._take_resources(time)
                self.stop = None
                if not self.phases:
                    self.granted = self.granted or time
                if self.attempts and not self.phases:
                    # It waited for its resources.
                    self.attempts[0].start = time
            case Lost():
                self._leave_resources(self._last_sign(time))
                self.losses.append(time)
                self._waits, self.stop = time, None
            case Queued():
                self._waits = self._waits or time
            case Resumed():
                self._leave_resources(time)
                self._waits, self.stop, self.outcome = self._waits or time, None, None
            case Held() | SecretsMissing() | NotStarted() | NoRoom():
                self._leave_resources(time)
                self._waits, self.stop = None, None  # it waits for its user, or has ended
            case RunPlanned():
                # Of an earlier process of the run, only pods that succeeded count.
                self._set_pods({name: pod for name, pod in self.pods.items() if pod.phase is PodPhase.SUCCEEDED})
                self.plan, self._planned_at, self.outcome, self.ended = event, time, None, None
                self.attempts = self.attempts or [AttemptTimes(1, time)]
            case RequestAccepted(stop, replicas):
                self.stop = stop or self.stop
                self.replicas |= replicas
            case PhaseChanged():
                self._change_phase(entry, event)
            case PodChanged():
                self._change_pod(entry, event)
                return
            case ContainerRestarted():
                self._life(event.pod, entry).restart(event, time)
            case RunEnded():
                self.outcome, self.ended, self.stop = event, time, None
                self._leave_resources(time)
                if self.attempts and self.attempts[-1].end is None:
                    self.attempts[-1].end = time
                if self.phases and self.phases[-1].end is None:
                    self.phases[-1] = replace(self.phases[-1], end=time)
        self.events.add(entry, event, self.attempt)

    def _change_phase(self, entry: Entry, event: PhaseChanged) -> None:
        state, time = event.status.state, entry.time
        # A foreground run that need not wait has its resources from its plan on.
        self._take_resources(self._planned_at or time)
        self._job_statuses.append(entry)
        ledger = read_ledger(event.status)
        self.spent = ledger.spent
        if state.phase == Phase.RESTARTING:
            self._set_pods(_kept_pods(self.pods, ledger.restart))
        if not self.attempts or event.attempt > self.attempts[-1].number:
            if self.attempts and self.attempts[-1].end is None:
                self.attempts[-1].end = time
            self.attempts.append(AttemptTimes(event.attempt, time))
        if not self.phases or (self.phases[-1].phase, self.phases[-1].attempt) != (state.phase, event.attempt):
            if self.phases:
                self.phases[-1] = replace(self.phases[-1], end=time)
            self.phases.append(PhaseSpan(phase=state.phase, start=time, attempt=event.attempt))
        if state.phase == Phase.RUNNING:
            self.first_running = self.first_running or time
        if event.acted is not None:
            self.attempts[-1].acted = event.acted
            self.fired.append(Fired(time, event.attempt, event.acted, self.spent))
        # A suspended run continues in the same attempt.
        self.attempts[-1].end = (self.attempts[-1].end or time) if state.phase in _ENDS else None

    def _change_pod(self, entry: Entry, event: PodChanged) -> None:
        pod = event.pod
        before = self.lives.get(pod.uid)
        is_new = before is None or before.pod.phase != pod.phase
        self._life(pod, entry).change(event, entry.time)
        if (same := self.pods.get(pod.short_name)) is not None:
            self.pod_phases[counted_phase(same)] -= 1
        self.pods[pod.short_name] = pod
        self.pod_phases[counted_phase(pod)] += 1
        if pod.phase is PodPhase.SUCCEEDED:
            self._successes[0].append(pod)
        if is_new:
            self.events.add(entry, event, self.attempt)

    def _set_pods(self, pods: dict[str, ObservedPod]) -> None:
        self.pods, self.pod_phases = pods, Counter(map(counted_phase, pods.values()))

    def _life(self, pod: ObservedPod, entry: Entry) -> PodLife:
        life = self.lives.setdefault(pod.uid, PodLife(pod, entry.time))
        life.seq = entry.seq
        return life

    def _take_resources(self, time: dt.datetime) -> None:
        if not self.active or self.active[-1].end is not None:
            self.active.append(Piece(time))
            self.waited += 0.0 if self._waits is None else max(0.0, (time - self._waits).total_seconds())
            self._waits = None

    def _leave_resources(self, time: dt.datetime) -> None:
        """End the run, or this part of it. No pod outlives it, also those of which the journal says no more."""
        if self.active and self.active[-1].end is None:
            self.active[-1].end = max(time, self.active[-1].start)
        for life in self.lives.values():
            life.end(time)

    def _last_sign(self, noticed: dt.datetime) -> dt.datetime:
        """Return when a killed process last measured its pods; when it was noticed, if that was soon after."""
        began = self.active[-1].start if self.active else noticed
        last = max((time for time in self.measured() if began <= time <= noticed), default=noticed)
        return last if (noticed - last).total_seconds() > _NOTICED_LATE else noticed

    def measured(self) -> Iterable[dt.datetime]:
        """Return when pods were measured, which only files know."""
        return ()


def _kept_pods(pods: Mapping[str, ObservedPod], restart: Restart | None) -> dict[str, ObservedPod]:
    """Return the pods that a restart does not replace."""
    match restart:
        case Restart(RestartKind.UNSUCCESSFUL):
            return {name: pod for name, pod in pods.items() if pod.phase is PodPhase.SUCCEEDED}
        case Restart(RestartKind.TARGETS, targets=targets):
            return {name: pod for name, pod in pods.items() if pod.index not in targets.get(pod.task, NONE)}
    return {}

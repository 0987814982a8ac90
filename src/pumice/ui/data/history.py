"""The history of one run, read from its journal: phases, attempts, the lives of its pods, firings of policies, events.

The journal is read once, and continued where the last reading ended; it may have thousands of entries.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.engines.local.events import ContainerRestarted, PhaseChanged, PodChanged, RunPlanned, StatusWritten
from pumice.engines.local.outcome import Outcome
from pumice.engines.local.runs.event_codec import SPEC_CHANGED, EventDecoder
from pumice.engines.local.runs.journal import FILE, Entry, EntryKind
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.verdict import how_it_failed, one_line
from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.model.vocabulary import Phase
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.ledger import read_ledger
from pumice.ui.data.events import EventLog
from pumice.ui.data.log_index import Mark
from pumice.ui.detail_values import PhaseSpan

_BLOCK: Final = 1 << 20
_LONGEST_LINE: Final = 64 << 20


class _Raw(msgspec.Struct, frozen=True):
    """An entry whose data is decoded only if it is needed."""

    seq: int
    time: dt.datetime
    kind: str
    t: float = 0.0
    data: msgspec.Raw = msgspec.Raw(b"null")


_RAW_DECODER: Final = msgspec.json.Decoder(_Raw)
_POD_DECODER: Final = msgspec.json.Decoder(PodChanged, strict=False)
_RESTART_DECODER: Final = msgspec.json.Decoder(ContainerRestarted, strict=False)


@dataclass(slots=True)
class Piece:
    """A part of the life of a pod: from a start of its containers to their end."""

    start: dt.datetime
    end: dt.datetime | None = None
    how: ContainerEnd | None = None  # set if a container ended, and started again


@dataclass(slots=True)
class PodLife:
    """One pod, from its creation to its end. A pod that replaces it is another one."""

    pod: ObservedPod
    changed: dt.datetime
    runs: list[Piece] = field(default_factory=list)
    ended: dt.datetime | None = None
    note: str = ""  # what its failure led to
    seq: int = 0  # of the entry that changed it last
    gpus: tuple[str, ...] = ()  # the devices that it has, or had

    @property
    def name(self) -> str:
        return self.pod.short_name

    @property
    def attempt(self) -> int:
        return self.pod.retry + 1


@dataclass(slots=True)
class AttemptTimes:
    number: int
    start: dt.datetime
    end: dt.datetime | None = None
    acted: JobEvent | None = None


@dataclass(frozen=True, slots=True)
class Fired:
    """A policy acted. `spent` is the number of retries used afterwards."""

    time: dt.datetime
    attempt: int
    event: JobEvent
    phase: str
    spent: int


@dataclass(slots=True)
class RunHistory:
    run: StoredRun
    job: Job = field(default_factory=Job)
    offset: int = 0
    seq: int = 0
    phases: list[PhaseSpan] = field(default_factory=list)
    attempts: list[AttemptTimes] = field(default_factory=list)
    lives: dict[str, PodLife] = field(default_factory=dict)  # by uid, in the order of their creation
    fired: list[Fired] = field(default_factory=list)
    events: EventLog = field(default_factory=EventLog)
    spent: int = 0
    first_running: dt.datetime | None = None
    marks: list[Mark] = field(default_factory=list)  # what the logs show between the lines
    outcome: Outcome | None = None
    damaged: int = 0  # lines that could not be read

    def __post_init__(self) -> None:
        self.job = job_of(self.run)

    @property
    def attempt(self) -> int:
        return self.attempts[-1].number if self.attempts else 1

    def refresh(self) -> bool:
        """Read what is new. False if there is nothing."""
        path = f"{self.run.directory}/{FILE}"
        try:
            size = os.stat(path).st_size  # noqa: PTH116 - asked for often
        except OSError:
            return False
        # The next owner of the run may have removed an incomplete line.
        self.offset = min(self.offset, size)
        if size == self.offset:
            return False
        before = self.seq, self.damaged
        try:
            for raw in self._entries(path):
                if raw.seq > self.seq:
                    self.seq = raw.seq
                    self._add_safely(raw)
        except OSError:
            # Such as the file of another user.
            self.damaged = max(self.damaged, 1)
        return (self.seq, self.damaged) != before

    def _entries(self, path: str) -> Iterator[_Raw]:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            file.seek(self.offset)
            rest = b""
            while block := file.read(_BLOCK):
                complete = block.rfind(b"\n") + 1
                if not complete:
                    rest = (rest + block)[-_LONGEST_LINE:]
                    continue
                content, rest = rest + block[:complete], block[complete:]
                self.offset += len(content)
                for line in content.splitlines():
                    try:
                        yield _RAW_DECODER.decode(line)
                    except (msgspec.DecodeError, ValueError):
                        self.damaged += 1

    def _add_safely(self, raw: _Raw) -> None:
        try:
            self._add(raw)
        except (msgspec.ValidationError, msgspec.DecodeError, LookupError, TypeError, ValueError):
            self.damaged += 1

    def _add(self, raw: _Raw) -> None:
        add = _KINDS.get(raw.kind)
        if add is not None:
            add(self, raw)
            return
        if raw.kind == EntryKind.STARTED and self.attempts and not self.phases:
            # It waited for its room.
            self.attempts[0].start = raw.time
        if raw.kind != StatusWritten.__name__:
            self.events.add_plain(raw.seq, raw.time, raw.kind, msgspec.json.decode(raw.data), self.attempt)

    def _decoded(self, raw: _Raw) -> Any:
        return EventDecoder(self.job).decode(_entry(raw))

    def _planned(self, raw: _Raw) -> None:
        event: RunPlanned = self._decoded(raw)
        self.job = event.job
        if not self.attempts:
            self.attempts.append(AttemptTimes(1, raw.time))
        self.events.add_plain(raw.seq, raw.time, raw.kind, {"images": event.images, "notes": event.notes}, self.attempt)

    def _spec_changed(self, raw: _Raw) -> None:
        decoder = EventDecoder(self.job)
        decoder.decode(_entry(raw))
        self.job = decoder.job
        self.events.add_plain(raw.seq, raw.time, raw.kind, {}, self.attempt)

    def _phase(self, raw: _Raw) -> None:
        event: PhaseChanged = self._decoded(raw)
        state, time, total = event.status.state, raw.time, self.job.total_replicas
        ledger = read_ledger(event.status)
        self.spent = ledger.spent
        self.job = msgspec.structs.replace(self.job, status=event.status)
        if not self.attempts or event.attempt > self.attempts[-1].number:
            if self.attempts and self.attempts[-1].end is None:
                self.attempts[-1].end = time
            self.attempts.append(AttemptTimes(event.attempt, time))
        if not self.phases or self.phases[-1].phase != state.phase or self.phases[-1].attempt != event.attempt:
            if self.phases:
                self.phases[-1] = msgspec.structs.replace(self.phases[-1], end=time)
            self.phases.append(PhaseSpan(phase=state.phase, start=time, attempt=event.attempt))
        if state.phase == Phase.RUNNING:
            self.first_running = self.first_running or time
        if event.acted is not None:
            self.attempts[-1].acted = event.acted
            self.fired.append(Fired(time, event.attempt, event.acted, state.phase, self.spent))
        # A suspended run continues in the same attempt.
        self.attempts[-1].end = (self.attempts[-1].end or time) if state.phase in _ENDS else None
        if event.acted is not None:
            acted = event.acted
            pod = f"{acted.pod}: " if acted.pod else ""
            self._mark(raw, "policy", f"{pod}{acted.event} -> {acted.action} ({acted.policy})", acted.pod)
        text = f"{state.phase:<11} {state.message or state.reason}".rstrip()
        self._mark(raw, "phase", text if state.phase != Phase.RUNNING else f"{text:<11} {event.status.running}/{total}")
        self.events.add_phase(raw.seq, time, event)

    def _pod(self, raw: _Raw) -> None:
        event = _POD_DECODER.decode(raw.data)
        pod = event.pod
        life = self.lives.get(pod.uid)
        is_new = life is None or life.pod.phase != pod.phase
        if life is None:
            life = self.lives[pod.uid] = PodLife(pod, raw.time)
        life.pod, life.changed, life.seq, life.note = pod, raw.time, raw.seq, event.follows or life.note
        life.gpus = event.gpus or life.gpus
        if pod.phase is PodPhase.RUNNING and (not life.runs or life.runs[-1].end is not None):
            life.runs.append(Piece(pod.changed_at or raw.time))
        if pod.is_finished and life.ended is None:
            life.ended = pod.ended_at or raw.time
            if life.runs and life.runs[-1].end is None:
                life.runs[-1].end = max(life.ended, life.runs[-1].start)
        if is_new:
            self.events.add_pod(raw.seq, raw.time, event)
            if pod.phase is PodPhase.FAILED and not pod.is_deleting:
                self._mark(
                    raw, "pod", f"{pod.short_name} failed: {how_it_failed(pod, '')}", pod.short_name, pod.retry + 1
                )

    def _restarted(self, raw: _Raw) -> None:
        event = _RESTART_DECODER.decode(raw.data)
        life = self.lives.get(event.pod.uid)
        if life is None:
            life = self.lives[event.pod.uid] = PodLife(event.pod, raw.time)
        life.pod, life.changed, life.seq = event.pod, raw.time, raw.seq
        end = event.end.finished_at or raw.time
        if not life.runs or life.runs[-1].end is not None:
            life.runs.append(Piece(life.pod.created_at))
        life.runs[-1].end, life.runs[-1].how = max(end, life.runs[-1].start), event.end
        self.events.add_restart(raw.seq, raw.time, event)

    def _ended(self, raw: _Raw) -> None:
        self.outcome = self._decoded(raw)
        self.job = self.outcome.job if self.outcome is not None else self.job
        if self.attempts and self.attempts[-1].end is None:
            self.attempts[-1].end = raw.time
        if self.phases and self.phases[-1].end is None:
            self.phases[-1] = msgspec.structs.replace(self.phases[-1], end=raw.time)
        self.events.add_plain(raw.seq, raw.time, raw.kind, {"message": self.job.status.state.message}, self.attempt)

    def _mark(self, raw: _Raw, kind: str, text: str, pod: str = "", attempt: int | None = None) -> None:
        nanoseconds = int(raw.time.timestamp() * 1e9)
        self.marks.append(Mark(raw.seq, nanoseconds, kind, one_line(text), attempt or self.attempt, pod))

    def of_attempt(self, attempt: int) -> list[PodLife]:
        """Return the last pod of each name in an attempt; with 0 the last of each name."""
        found = {life.name: life for life in self.lives.values() if attempt in (0, life.attempt)}
        return sorted(found.values(), key=lambda life: task_order(self.job, life.pod))


_ENDS: Final = frozenset((Phase.RESTARTING, Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED, Phase.ABORTED))
_KINDS: Final[Mapping[str, Callable[[RunHistory, _Raw], None]]] = {
    RunPlanned.__name__: RunHistory._planned,  # noqa: SLF001 - the table of the class above
    SPEC_CHANGED: RunHistory._spec_changed,  # noqa: SLF001
    PhaseChanged.__name__: RunHistory._phase,  # noqa: SLF001
    PodChanged.__name__: RunHistory._pod,  # noqa: SLF001
    ContainerRestarted.__name__: RunHistory._restarted,  # noqa: SLF001
    Outcome.__name__: RunHistory._ended,  # noqa: SLF001
}


def _entry(raw: _Raw) -> Entry:
    return Entry(raw.seq, raw.time, raw.t, raw.kind, msgspec.json.decode(raw.data))


def job_of(run: StoredRun) -> Job:
    """Return the Job as it was written; an empty one if the record is damaged."""
    try:
        return run.written_job()
    except (msgspec.ValidationError, ValueError):
        return Job()


def task_order(job: Job, pod: ObservedPod) -> tuple[int, str, int]:
    """Sort pods by the order of the tasks in the file, then by index."""
    names = [task.name for task in job.spec.tasks]
    return (names.index(pod.task) if pod.task in names else len(names), pod.task, pod.index)

"""Records a run as it happens: a listener that appends events to the journal and keeps the status for readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from pumice.engines.local.clock import wall_clock
from pumice.engines.local.events import (
    ContainerRestarted,
    PhaseChanged,
    PodChanged,
    RequestAccepted,
    RunEvent,
    RunPlanned,
    RunWaits,
    StatusWritten,
)
from pumice.engines.local.outcome import Outcome
from pumice.engines.local.runs.atomic_files import replace_file
from pumice.engines.local.runs.event_codec import EventDecoder, EventEncoder
from pumice.engines.local.runs.journal import Entry, EntryKind, Journal
from pumice.engines.local.runs.outcome_status import ended_status
from pumice.engines.local.runs.retention import size_of
from pumice.engines.local.runs.run_record import PodCounts, RunStatus
from pumice.engines.local.runs.run_store import STATUS
from pumice.engines.local.verdict import Explanation, how_it_failed, one_line
from pumice.engines.local.why import sentence
from pumice.model.job import Job
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.vocabulary import Phase
from pumice.reconcile.verdict import how_it_ended

# Seconds between two writes of the status, unless the run has ended.
_PAUSE: Final = 0.5


@dataclass(slots=True)
class Recorder:
    """`explain` returns the verdict."""

    directory: Path
    journal: Journal
    explain: Callable[[Outcome], Explanation]
    elapsed: Callable[[], float]
    status: RunStatus = field(default_factory=RunStatus)
    _encoder: EventEncoder = field(default_factory=EventEncoder)
    _pods: dict[str, ObservedPod] = field(default_factory=dict)  # by short name, the newest
    _written: float = float("-inf")
    _changed: bool = False
    _retries: int = 0  # spent, as far as the journal says

    def __call__(self, event: RunEvent) -> None:
        for kind, data in self._encoder.encode(event):
            seq = self.journal.append(kind, data, sync=self._must_last(event)).seq
            self.status = msgspec.structs.replace(self.status, seq=seq)
            self._changed = True
        self._follow(event)
        if isinstance(event, Outcome) or (self._changed and self.elapsed() - self._written >= _PAUSE):
            self.write(sync=isinstance(event, Outcome))

    def go_on(self, status: RunStatus, entries: Sequence[Entry]) -> None:
        """Continue the record of an earlier process of the run. Only its pods that succeeded count."""
        self.status = status
        decoder = EventDecoder(Job())
        for entry in entries:
            if entry.kind in (PodChanged.__name__, PhaseChanged.__name__):
                event = decoder.decode(entry)
                if isinstance(event, PodChanged):
                    self._pods[event.pod.short_name] = event.pod
                elif isinstance(event, PhaseChanged) and event.status.state.phase == Phase.RESTARTING:
                    self._pods.clear()
        self._pods = {name: pod for name, pod in self._pods.items() if pod.phase is PodPhase.SUCCEEDED}

    def _must_last(self, event: RunEvent) -> bool:
        """Whether the event must survive a power failure: how the run ended, accepted requests, spent retries."""
        if isinstance(event, StatusWritten):
            before, self._retries = self._retries, event.status.retry_count
            return self._retries > before
        return isinstance(event, Outcome | RequestAccepted)

    def write(self, *, sync: bool = False) -> None:
        """Write the status. On a full disk the old one stays, and readers find what is newer in the journal."""
        self._changed, self._written = False, self.elapsed()
        content = msgspec.json.encode(self.status) + b"\n"
        while True:
            try:
                replace_file(self.directory / STATUS, content, sync=sync)
            except OSError as error:
                # The end of a run may use the rest of the reserve.
                if sync and self.journal.make_room(len(content)):
                    continue
                self.journal.lost((error.strerror or str(error)).lower())
            return

    def queue(self, arrival: int) -> None:
        """Record that the run waits for its room."""
        entry = self.journal.append(EntryKind.QUEUED, {"arrival": arrival}, sync=True)
        self._set(seq=entry.seq, arrival=arrival, started=None)

    def detach(self, arrival: int) -> None:
        """Record that the run outlives its client. With its number in the queue it can be started again."""
        entry = self.journal.append(EntryKind.DETACHED, {"arrival": arrival}, sync=True)
        self._set(seq=entry.seq, arrival=arrival)
        self.write(sync=True)

    def start(self, gpus: tuple[str, ...]) -> None:
        """Record that a run that waited has its room."""
        entry = self.journal.append(EntryKind.STARTED, {"gpus": gpus}, sync=True)
        self._set(seq=entry.seq, started=wall_clock(), gpus=gpus, note="")
        self.write()

    def _follow(self, event: RunEvent) -> None:
        match event:
            case RunPlanned(job):
                self._plan(job)
            case RunWaits(why):
                self._set(held=why.since, note=sentence(why))
                self.write()
            case PhaseChanged(job, status, attempt, acted):
                state = status.state
                note = self.status.note
                if acted is not None and acted.pod:
                    note = f"attempt {attempt}: {acted.pod} {acted.event}: {acted.action}"
                self._set(phase=state.phase, reason=state.reason, message=state.message, attempt=attempt, note=note)
                if state.phase == Phase.RESTARTING:
                    self._pods.clear()
                self._count(job)
            case PodChanged(pod, _, follows):
                self._pods[pod.short_name] = pod
                if follows:
                    how = one_line(how_it_failed(pod, ""))
                    self._set(note=f"attempt {pod.retry + 1}: {pod.short_name} {how}")
                self._count(None)
            case ContainerRestarted(pod, end, count):
                self._set(note=f"{pod.short_name} restart {count}: {how_it_ended(end)}")
            case Outcome():
                self._end(event)

    def _plan(self, job: Job) -> None:
        # A run that waited has its room later, or has it already.
        started = self.status.started if self.status.arrival else wall_clock()
        self._set(started=started, stopped=False, max_attempts=job.spec.max_retry)
        self._count(job)
        self.write()

    def _end(self, outcome: Outcome) -> None:
        self.status = ended_status(self.status, outcome, self.explain(outcome), wall_clock())
        self._set(size=size_of(self.directory))
        self._count(outcome.job)

    def _set(self, **fields: object) -> None:
        self.status = msgspec.structs.replace(self.status, **fields)

    def _count(self, job: Job | None) -> None:
        phases = [pod.phase for pod in self._pods.values()]
        total = self.status.pods.total if job is None else job.total_replicas
        self._set(
            pods=PodCounts(
                running=phases.count(PodPhase.RUNNING),
                total=total,
                succeeded=phases.count(PodPhase.SUCCEEDED),
                failed=phases.count(PodPhase.FAILED),
                pending=phases.count(PodPhase.PENDING),
            )
        )

"""A run whose journal a test writes entry by entry, by the classes of the store: also what no story of a run has."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pumice.model.job import Job, JobState, JobStatus
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.store.events import PhaseChanged, PodChanged, RunEvent, RunPlanned
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.history.entries import EventEncoder, Held, Lost, Queued, Resumed, Started
from pumice.store.journal import Journal, SequenceNumbers
from pumice.store.run_end import RunEnded
from pumice.store.run_record import RunStatus
from pumice.store.sample_file import SampledPod, SampleWriter, Usage
from scripts.made_runs import RunMaker, Story

KINDS = frozenset(each.__name__ for each in (Queued, Held, Started, Resumed, Lost))
PODS = ("master-0", "worker-0", "worker-1")
Q, S, P, R, HELD = Queued.__name__, Started.__name__, RunPlanned.__name__, Resumed.__name__, Held.__name__
LOST, SUSPENDED, STOPPED = Lost.__name__, "Aborted", "Terminated"
# Suspended and resumed, its process killed, then stopped: seconds since it was submitted, and what happened.
INTERRUPTED = (
    (0.1, Q), (2.0, S), (2.4, P), (3.0, "Running"), (40.0, SUSPENDED),
    (100.0, R), (100.1, Q), (102.0, S), (102.4, P), (103.0, "Running"), (130.0, LOST),
    (130.5, S), (130.9, P), (131.0, "Restarting"), (131.2, "Running"), (150.0, STOPPED),
)  # fmt: skip


@dataclass(slots=True)
class RecordedRun:
    """Moments are seconds after the run was made."""

    run: StoredRun
    job: Job
    time: dt.datetime
    attempt: int = 1
    pods: dict[str, ObservedPod] = field(default_factory=dict)
    _encoder: EventEncoder = field(default_factory=EventEncoder)

    @classmethod
    def make(cls, directory: Path, now: dt.datetime, note: str = "") -> RecordedRun:
        """Make a run of three pods that was submitted an hour ago."""
        maker = RunMaker(RunStore(directory / "pumice"), directory / "jobs", now)
        run = maker.make(Story("pytorch-job", (), "Pending", note=note))
        return cls(run, run.written_job(), run.record.created)

    def write(self, *steps: tuple[float, str], measured: tuple[float, ...] = ()) -> RunStatus:
        """Write what happened, and the status that follows; pods were measured at the moments of `measured`."""
        made, status = self.run.record.created, RunStatus(arrival=1)
        journal = Journal(self.run.directory, SequenceNumbers(), lambda: self.time, lambda: 0.0)
        journal.open()
        for seconds, kind in steps:
            self.time = made + dt.timedelta(seconds=seconds)
            for each, data in self._entries(kind):
                journal.append(each, data)
            status = self._status(status, kind)
        journal.close()
        samples = SampleWriter(self.run.directory)
        for moment in measured:
            pods = [(SampledPod(name, name, 1, 0.0), Usage(moment, 1 << 30)) for name in PODS]
            samples.append(moment, made + dt.timedelta(seconds=moment), pods)
        samples.close()
        self.run.write_status(status)
        return status

    def _entries(self, kind: str) -> list[tuple[str, object]]:
        if kind in KINDS:
            return [(kind, {"reason": "SupervisorLost"} if kind == LOST else {})]
        if kind == P:
            return self._encoder.encode(RunPlanned(self.job, "host"))
        self.attempt += kind == "Restarting"
        status = JobStatus(state=JobState(phase=kind), retry_count=self.attempt - 1, version=self.attempt - 1)
        self.job = msgspec.structs.replace(self.job, status=status)
        events: list[RunEvent] = [PhaseChanged(self.job, status, self.attempt)]
        if kind == "Running":
            self.pods = {name: self._pod(name) for name in PODS}
            events += [PodChanged(pod) for pod in self.pods.values()]
        elif kind in (SUSPENDED, STOPPED):
            ends = (ContainerEnd("main", 143, "", 15, self.time, ""),)
            ended = {"phase": PodPhase.FAILED, "ends": ends, "deleted_at": self.time, "changed_at": self.time}
            events += [PodChanged(msgspec.structs.replace(pod, **ended)) for pod in self.pods.values()]
            events.append(RunEnded(self.job))
        return [entry for event in events for entry in self._encoder.encode(event)]

    def _pod(self, name: str) -> ObservedPod:
        task, _, index = name.rpartition("-")
        retry, made = self.attempt - 1, self.time
        uid = str(uuid.uuid4())
        known = ObservedPod(f"pytorch-job-{name}", uid, task, int(index), retry, retry, PodPhase.RUNNING, made)
        return msgspec.structs.replace(known, changed_at=made, ready=True)

    def _status(self, status: RunStatus, kind: str) -> RunStatus:
        """Return the status as the processes of a run write it: it knows the last start only."""
        changes: dict[str, object] = {}
        if kind == S or (kind == P and status.started is None):
            changes = {"started": self.time, "reason": ""}
        elif kind in (Q, R, LOST):
            changes = {"started": None, "phase": "Pending", "reason": "SupervisorLost" if kind == LOST else ""}
        elif kind == SUSPENDED:
            changes = {"started": None, "phase": kind, "reason": "Suspended", "stopped": True}
        elif kind not in KINDS and kind != P:
            changes = {"phase": kind}
            changes |= {"finished": self.time, "reason": "Stopped", "stopped": True} if kind == STOPPED else {}
        return msgspec.structs.replace(status, **changes)

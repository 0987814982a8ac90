"""The rows of a list of Jobs: what `RunHistory` derives from a Job without its pods.

A list may have ten thousand Jobs, so those that wait, run or have completed are derived at once, from the few fields
that it needs. A test compares that with what `RunHistory` derives.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.client.backend import RECENT, Listing, Selection
from pumice.client.cluster.job_facts import (
    ClusterPod,
    JobEventFact,
    JobFacts,
    is_volcanos,
    lacks_counts,
    read_job,
)
from pumice.client.cluster.journal_entries import (
    WAITING,
    has_begun,
    history_of,
    phases_of,
    pod_counts,
    read_args,
    summary_of,
)
from pumice.client.values import Status
from pumice.diagnosis.outcome import Outcome
from pumice.model import keys
from pumice.model.job import JobStatus
from pumice.model.units import EPOCH, read_time
from pumice.model.vocabulary import MAX_RETRY, Phase
from pumice.reconcile.ledger import most_attempts
from pumice.reconcile.phases import FINAL
from pumice.store.run_record import DETACHED

STOPPED: Final = (Phase.ABORTED, Phase.TERMINATED)
_OUTCOMES: Final[Mapping[str, Outcome]] = {Phase.COMPLETED: Outcome.SUCCEEDED, Phase.RUNNING: Outcome.RUNNING}
_AT_ONCE: Final = frozenset({"", Phase.PENDING, Phase.RUNNING, Phase.COMPLETED})


class _Annotations(Struct, frozen=True):
    submitted_by: str = msgspec.field(name=keys.SUBMITTED_BY, default="")
    note: str = msgspec.field(name=keys.NOTE, default="")
    args: str = msgspec.field(name=keys.ARGS, default="")


class _Metadata(Struct, rename="camel", frozen=True):
    name: str
    uid: str
    namespace: str = ""
    creation_timestamp: str | None = None
    annotations: _Annotations = _Annotations()


class _Task(Struct, frozen=True):
    replicas: int = 0


class _Spec(Struct, rename="camel", frozen=True):
    queue: str = ""
    max_retry: int = MAX_RETRY
    tasks: list[_Task] = []


class _Job(Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: JobStatus = JobStatus()


_JOB: Final = msgspec.json.Decoder(_Job)


class JobRow(Struct, frozen=True):
    status: Status
    submitted_by: str
    is_counted: bool = True  # its status has the numbers of its pods


def job_row(raw: bytes | msgspec.Raw, on: str, since: dt.datetime | None = None) -> JobRow | None:
    """Return a Job as a list shows it; None for one that has finished before `since`."""
    try:
        job = _JOB.decode(raw)
    except msgspec.ValidationError:
        # Some client has written it against its types.
        return JobRow(_derived(raw, on), "")
    state = job.status.state
    if since is not None and state.phase in FINAL and (read_time(state.last_transition_time) or since) < since:
        return None
    status = _at_once(job, on) if state.phase in _AT_ONCE else _derived(raw, on)
    status = replace(status, queue=job.spec.queue or "default")
    is_counted = not (lacks_counts(job.status) and is_volcanos(job.status))
    return JobRow(status, job.metadata.annotations.submitted_by, is_counted)


def listed(raw: bytes | msgspec.Raw, on: str) -> Status:
    row = job_row(raw, on)
    assert row is not None  # no Job is too old  # noqa: S101 - for the type checker
    return row.status


@dataclass(slots=True)
class JobTable:
    """Takes Jobs one by one, and keeps the rows that are wanted: the objects are several times as large."""

    on: str
    selection: Selection
    now: dt.datetime
    me: str = ""  # the user whose Jobs are wanted; empty for all
    seen: set[str] = field(default_factory=set)  # names
    undecided: list[bytes | msgspec.Raw] = field(default_factory=list)  # events and pods say how they ended
    uncounted: set[str] = field(default_factory=set)  # uids of Jobs of which only the pods say how many succeeded
    _rows: list[Status] = field(default_factory=list)
    _others: int = 0  # rows of other users

    def add(self, raw: bytes | msgspec.Raw) -> None:
        selection = self.selection
        is_old = not (selection.everything or selection.names)
        row = job_row(raw, self.on, self.now - RECENT if is_old else None)
        if row is None:
            self.seen.add("")
            return
        status = row.status
        self.seen.add(status.name)
        if selection.names and status.name not in self._names:
            return
        if selection.active and status.is_finished:
            return
        if self.me and row.submitted_by != self.me:
            self._others += 1
            return
        if not row.is_counted:
            self.uncounted.add(status.uid)
        if (status.phase in STOPPED and not status.reason) or (status.is_over and not row.is_counted):
            self.undecided.append(raw)
        else:
            self._rows.append(status)

    def decide(self, events: Mapping[str, Sequence[JobEventFact]], pods: Mapping[str, Sequence[ClusterPod]]) -> None:
        """Add the rows that are undecided, with the events of Commands and the pods by the uid of their Job."""
        for raw in self.undecided:
            read = read_job(raw)
            facts = JobFacts.of(read, pods.get(read[1].uid, ()), events.get(read[1].uid, ()))
            if facts.job.status.state.phase == Phase.COMPLETED:
                numbers = pod_counts(facts.job.status, facts.job.total_replicas)
                self._rows.append(replace(listed(raw, self.on), pods=numbers))
            else:
                self._rows.append(summary_of(history_of(facts), facts.job, self.on))
        self.undecided.clear()

    @property
    def missing(self) -> list[str]:
        return sorted(self._names - self.seen)

    @property
    def _names(self) -> set[str]:
        return {name.partition("@")[0] for name in self.selection.names}

    def listing(self) -> Listing:
        """Return the rows, the newest first."""
        self._rows.sort(key=lambda each: (each.created, each.uid), reverse=True)
        notes = [f"{self._others} Jobs do not name {self.me} in the annotation {keys.SUBMITTED_BY}"]
        return Listing(self._rows, warnings=notes if self._others and not self._rows else ())


def _derived(raw: bytes | msgspec.Raw, on: str) -> Status:
    facts = JobFacts(*read_job(raw))
    return summary_of(history_of(facts), facts.job, on)


def _at_once(job: _Job, on: str) -> Status:
    metadata, status, state = job.metadata, job.status, job.status.state
    created = read_time(metadata.creation_timestamp) or EPOCH
    phases = phases_of(status, created)
    started = next((time for phase, time in phases if phase not in WAITING), created if has_begun(status) else None)
    done = state.phase == Phase.COMPLETED
    finished = phases[-1][1] if done else None
    outcome = _OUTCOMES.get(state.phase, Outcome.WAITING if started is None else Outcome.STARTING)
    return Status(
        run=metadata.name,
        name=metadata.name,
        number=0,
        uid=metadata.uid,
        namespace=metadata.namespace,
        outcome=outcome,
        phase=state.phase or Phase.PENDING,
        reason=state.reason,
        message="" if done else state.message or (state.reason if started is None else ""),
        pods=pod_counts(status, sum(task.replicas for task in job.spec.tasks)),
        attempt=status.retry_count + 1 if started is not None else 1,
        max_attempts=most_attempts(job.spec.max_retry, status),
        note=metadata.annotations.note,
        args=tuple(read_args(metadata.annotations.args)),
        created=created,
        started=started,
        finished=finished,
        exit_code=0 if done else None,
        priority=0,
        mode=DETACHED,
        host="",
        file="",
        directory="",
        ran=0.0 if finished is None or started is None else round(max(0.0, (finished - started).total_seconds()), 3),
        on=on,
    )

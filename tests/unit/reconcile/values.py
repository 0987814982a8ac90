"""Builders of what `decide` reads: pods as an engine sees them, snapshots, occurrences."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec

from pumice.model.findings import SPEC
from pumice.model.job import Job, JobState, JobStatus, LifecyclePolicy
from pumice.model.snapshot import ContainerEnd, ObservedGroup, ObservedPod, PodPhase, Snapshot
from pumice.model.vocabulary import Action, Event
from pumice.reconcile.gangs import pod_group
from pumice.reconcile.ledger import Ledger, write_ledger
from pumice.reconcile.occurrences import Occurrence
from pumice.reconcile.policies import Match
from pumice.reconcile.state import State
from tests.builders import a_job, a_task

NOW = dt.datetime(2030, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def later(seconds: float) -> dt.datetime:
    return NOW + dt.timedelta(seconds=seconds)


def a_pod(name: str = "worker-0", phase: str = "Running", **fields: Any) -> ObservedPod:
    """A pod by its short name."""
    task, _, index = name.rpartition("-")
    known = {
        "name": f"train-{name}",
        "uid": f"uid-{name}",
        "task": task,
        "index": int(index),
        "version": 0,
        "retry": 0,
        "phase": PodPhase(phase),
        "created_at": later(-100),
        "ready": phase == "Running",
    }
    return ObservedPod(**{**known, **fields})


def ended(name: str, code: int = 0, at: float = -10, **fields: Any) -> ObservedPod:
    """A pod whose only container has ended."""
    reason = fields.pop("why", "")
    end = ContainerEnd(name.rpartition("-")[0], code, reason, finished_at=later(at))
    return a_pod(name, "Failed" if code else "Succeeded", ends=(end,), **fields)


def a_snapshot(
    *pods: ObservedPod, job: Job | None = None, phase: str = "Running", ledger: Ledger | None = None, **fields: Any
) -> Snapshot:
    """A job in a phase, with its PodGroup in the queue; `version`, `reason` and the like go to the status."""
    names = ("version", "retry_count", "running", "controlled_resources")
    own = {name: fields.pop(name) for name in names if name in fields}
    state = JobState(
        phase=phase,
        reason=fields.pop("reason", ""),
        message=fields.pop("message", ""),
        last_transition_time=fields.pop("since", "2030-01-02T03:00:00Z") if phase else None,
    )
    status = JobStatus(state=state, **{"controlled_resources": write_ledger(ledger or Ledger(generation=1)), **own})
    job = job or a_two_worker_job()
    metadata = msgspec.structs.replace(job.metadata, generation=job.metadata.generation or 1)
    job = msgspec.structs.replace(job, metadata=metadata, status=status)
    group = observed_group(job, "Inqueue")
    return Snapshot(**{"job": job, "pods": pods, "group": group, **fields})


def observed_group(job: Job, phase: str = "Running", **spec: Any) -> ObservedGroup:
    """The job's PodGroup on the server, with fields of its spec edited."""
    group = pod_group(job)
    group["spec"] |= spec
    return ObservedGroup({group["metadata"]["name"]: group}, phase)


def a_state(*pods: ObservedPod, ledger: Ledger | None = None, **fields: Any) -> State:
    return State.of(a_snapshot(*pods, **fields), ledger or Ledger())


def a_two_worker_job(**spec: Any) -> Job:
    return a_job(a_task("worker", 2), **{"min_available": 2, "max_retry": 3, **spec})


def a_policy(action: str, event: str = "", **fields: Any) -> LifecyclePolicy:
    return LifecyclePolicy(action=action, event=event, **fields)


def happened(event: Event, name: str = "", since: float = 0, **fields: Any) -> Occurrence:
    task, _, index = name.rpartition("-")
    return Occurrence(event, later(since), task, int(index) if index else None, **fields)


def a_match(action: Action, event: Event, name: str = "", due: float = 0, **fields: Any) -> Match:
    policy = a_policy(action, event)
    return Match(happened(event, name, **fields), policy, SPEC / "policies" / 0, later(due))

"""Which pods are missing, and whether they may be made now."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Final

from pumice.model.job import Job
from pumice.model.objects import claim_names, claims
from pumice.model.slot import Slot
from pumice.model.snapshot import ObservedPod, Snapshot, Trouble
from pumice.model.vocabulary import Phase
from pumice.plugins.base import Base
from pumice.plugins.shaping import shaped_pod
from pumice.reconcile.decision import CreatePod
from pumice.reconcile.dependencies import may_start
from pumice.reconcile.gangs import GangMembership
from pumice.reconcile.ledger import Ledger, RestartKind
from pumice.reconcile.pod_membership import WANTED

# Why a job is Pending whose pods of the run before still end.
RESTARTING: Final = "Restarting"
# Why it is Pending while its scheduler finds no room for it.
UNSCHEDULABLE: Final = "Unschedulable"
CLAIM_MISSING: Final = "ClaimMissing"


def pods_to_make(snapshot: Snapshot, ledger: Ledger, plugins: Sequence[Base], now: dt.datetime) -> Iterator[CreatePod]:
    if why_not(snapshot, ledger, now) is not None:
        return
    shapers = (*plugins, GangMembership(snapshot.gang))
    for slot in _missing(snapshot, ledger):
        yield CreatePod(shaped_pod(slot, shapers).manifest)


def why_not(snapshot: Snapshot, ledger: Ledger, now: dt.datetime) -> Trouble | None:
    """What holds all pods back, if anything does."""
    if Phase(snapshot.job.status.state.phase) not in WANTED:
        return Trouble("", "")
    awaited = claims_of_others(snapshot)
    if awaited:
        return Trouble(CLAIM_MISSING, f"waits for PersistentVolumeClaim {', '.join(awaited)}")
    if not snapshot.claims.issuperset(claim_names(snapshot.job)):
        # The rest is made in this pass.
        return Trouble("", "")
    if _old_ones_linger(snapshot, ledger, now):
        return Trouble(RESTARTING, "waits for the pods of the run before to be gone")
    if snapshot.gang.has_groups and (snapshot.group is None or not snapshot.group.admits_pods):
        message = snapshot.group.message if snapshot.group is not None else ""
        return Trouble(UNSCHEDULABLE if message else "", message)
    return None


def claims_of_others(snapshot: Snapshot) -> list[str]:
    """Claims that are missing and that the job does not make itself."""
    own = {claim["metadata"]["name"] for claim in claims(snapshot.job)}
    return [name for name in claim_names(snapshot.job) if name not in snapshot.claims and name not in own]


def grace_ends(snapshot: Snapshot, ledger: Ledger, now: dt.datetime) -> dt.datetime | None:
    """When the pods of the run before are waited for no longer; nothing may happen then that would say so."""
    ends = [pod.deleted_at for pod in _old_ones(snapshot, ledger) if pod.deleted_at is not None]
    return max((end for end in ends if end > now), default=None)


def is_short(snapshot: Snapshot, ledger: Ledger) -> bool:
    """Whether a pod is missing that dependsOn does not hold back."""
    return next(_missing(snapshot, ledger), None) is not None


def _old_ones_linger(snapshot: Snapshot, ledger: Ledger, now: dt.datetime) -> bool:
    """After a restart of the whole job the two runs must not meet; who outlives his grace is waited for no longer."""
    return any(pod.deleted_at is None or now < pod.deleted_at for pod in _old_ones(snapshot, ledger))


def _old_ones(snapshot: Snapshot, ledger: Ledger) -> list[ObservedPod]:
    if ledger.restart is None or ledger.restart.kind is RestartKind.TARGETS:
        return []
    version = snapshot.job.status.version
    return [pod for pod in snapshot.pods if pod.version < version and not ledger.has_succeeded(pod.task, pod.index)]


def _missing(snapshot: Snapshot, ledger: Ledger) -> Iterator[Slot]:
    job: Job = snapshot.job
    there = {(pod.task, pod.index) for pod in snapshot.pods}
    free = may_start(job, snapshot.pods, ledger)
    for task in job.spec.tasks:
        if task.name in free:
            for index in range(task.replicas):
                if (task.name, index) not in there and not ledger.has_succeeded(task.name, index):
                    yield Slot(job, task, index)

"""Which pods are missing, and whether they may be created now."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from pumice.diagnosis.cluster.scheduler_text import gang_sentence
from pumice.diagnosis.pod_waits import CLAIM_MISSING, UNSCHEDULABLE, missing_claims_sentence
from pumice.model.job import TaskSpec
from pumice.model.objects import claim_names, missing_claims_of_others
from pumice.model.slot import NONE, Slot
from pumice.model.snapshot import Failure, Snapshot
from pumice.plugins.base import Base
from pumice.plugins.shaping import shaped_pod
from pumice.reconcile.decision import CreatePod
from pumice.reconcile.dependencies import may_start
from pumice.reconcile.gangs import GangMembership
from pumice.reconcile.state import WANTS_PODS, State

# Reasons of a job that is Pending: pods of the previous run still terminate; a claim does not exist.
RESTARTING: Final = "Restarting"


class PodPlan(Struct, frozen=True):
    missing: Sequence[tuple[TaskSpec, int]] = ()  # slots that need a pod
    blocked: Failure | None = None  # why none of them is created now, as far as there is something to say

    def create(self, snapshot: Snapshot, plugins: Sequence[Base]) -> Iterator[CreatePod]:
        if self.blocked is None:
            shapers = (*plugins, GangMembership(snapshot.gang))
            for task, index in self.missing:
                yield CreatePod(shaped_pod(Slot(snapshot.job, task, index), shapers).manifest)


def plan_pods(state: State, now: dt.datetime) -> PodPlan:
    if state.phase not in WANTS_PODS:
        return PodPlan()
    startable, succeeded = may_start(state), state.ledger.succeeded
    missing = [
        (task, index)
        for task in state.job.spec.tasks
        if task.name in startable
        for index in sorted(set(range(task.replicas)) - state.pods.indexes[task.name] - succeeded.get(task.name, NONE))
    ]
    return PodPlan(missing, _blocked(state, now) if missing else None)


def _blocked(state: State, now: dt.datetime) -> Failure | None:
    snapshot = state.snapshot
    missing_claims = missing_claims_of_others(snapshot.job, snapshot.claims)
    if missing_claims:
        return Failure(CLAIM_MISSING, missing_claims_sentence(missing_claims))
    if not snapshot.claims.issuperset(claim_names(snapshot.job)):
        # This pass creates the others.
        return Failure("", "")
    if any(pod.deleted_at is None or now < pod.deleted_at for pod in state.previous_run):
        # Two runs must not meet; a pod that outlives its grace period is not waited for.
        return Failure(RESTARTING, "waits for the pods of the previous run to terminate")
    if snapshot.gang.has_groups and (snapshot.group is None or not snapshot.group.admits_pods):
        message = snapshot.group.message if snapshot.group is not None else ""
        return Failure(UNSCHEDULABLE if message else "", gang_sentence(message))
    return None

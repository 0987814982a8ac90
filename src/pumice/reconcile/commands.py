"""Everything that follows from the job's (new) phase: what to remove, what to make, what to put right."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from pumice.model.snapshot import Snapshot
from pumice.plugins.base import Base
from pumice.reconcile.decision import DeletePod, EngineCommand, RemoveCommand
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.owned_objects import objects_to_keep
from pumice.reconcile.pod_creation import pods_to_make
from pumice.reconcile.pod_membership import must_go
from pumice.reconcile.requested_action import stale_commands
from pumice.reconcile.transition import is_exhausted


def commands_for(
    snapshot: Snapshot, ledger: Ledger, plugins: Sequence[Base], now: dt.datetime
) -> tuple[EngineCommand, ...]:
    return (
        *_pods_to_remove(snapshot, ledger),
        *objects_to_keep(snapshot, ledger, plugins),
        *pods_to_make(snapshot, ledger, plugins, now),
        *(RemoveCommand(one.metadata.name, one.metadata.uid) for one in stale_commands(snapshot, ledger)),
    )


def _pods_to_remove(snapshot: Snapshot, ledger: Ledger) -> Iterator[DeletePod]:
    exhausted = is_exhausted(snapshot.job, ledger)
    for pod in snapshot.pods:
        if must_go(pod, snapshot.job, ledger, exhausted=exhausted):
            yield DeletePod(pod.name, pod.uid)

"""A turn of the queue: when it is taken again although no run begins or ends."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.scheduling.plan import Waiting
from pumice.engines.local.scheduling.run_queue import active_runs
from pumice.engines.local.service import queued_runs
from pumice.engines.local.service.queue_turn import QueueTurn
from pumice.store.files.owner_lock import OwnerLock
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.run_record import GangPods
from tests.local.queued import record

GIB = 2**30


def test_run_that_waits_for_memory_is_looked_at_again_soon(tmp_path: Path) -> None:
    started: list[str] = []
    available = [2 * GIB]
    now = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]
    store = RunStore(tmp_path / "state")
    store.state.mkdir()

    def launch(run: StoredRun, _lock: OwnerLock) -> None:
        started.append(run.ref)

    def machine(_waiting: Sequence[Waiting]) -> Machine:
        return Machine((0, 1), 2, available[0], (), 4 * GIB)

    turn = QueueTurn(store, launch, lambda: now[0], machine)
    wanted = record(tmp_path, "00000000-0000-0000-0000-000000000001")
    gang = [GangPods(task="worker", count=1, requests={"memory": "3Gi"})]
    queued_runs.submit(store, msgspec.structs.replace(wanted, gang=gang))
    turn.take(active_runs(store))
    assert started == []
    now[0] += dt.timedelta(seconds=5)
    assert any(moment <= now[0] for moment in turn.again_at), "no file tells when other programs free memory"
    available[0] = 4 * GIB
    turn.take(active_runs(store))
    assert started == ["job:1"]

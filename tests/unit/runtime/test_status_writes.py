from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from pumice.engines.memory.clock import EPOCH
from pumice.model.snapshot import JobKey
from pumice.model.status import JobCondition, JobState, JobStatus
from pumice.reconcile.decision import Decision, DeletePod, JobEvent
from pumice.runtime.status_writes import StatusWrites

KEY = JobKey("lab", "train")
SECOND = dt.timedelta(seconds=1)
STORED = JobStatus(state=JobState(phase="Running"), running=1)


def decided(**changes: Any) -> Decision:
    return Decision(msgspec.structs.replace(STORED, **changes))


def written_just_now(interval: dt.timedelta = SECOND) -> StatusWrites:
    writes = StatusWrites(interval)
    writes.written(KEY, EPOCH)
    return writes


@pytest.mark.parametrize(
    ("decision", "waits"),
    [
        pytest.param(decided(running=2), True, id="a count"),
        pytest.param(decided(controlled_resources={"pumice/seen": "x"}), True, id="the ledger"),
        pytest.param(decided(state=JobState(phase="Completed")), False, id="the phase"),
        pytest.param(decided(state=JobState(phase="Running", reason="X")), False, id="the reason"),
        pytest.param(decided(conditions=[JobCondition(status="Running")]), False, id="the conditions"),
        pytest.param(decided(version=1), False, id="the version"),
        pytest.param(decided(retry_count=1), False, id="the retries"),
        pytest.param(Decision(decided(running=2).status, (DeletePod("p", "u"),)), False, id="something is done"),
        pytest.param(Decision(decided(running=2).status, (), (JobEvent("X", "x"),)), False, id="something is said"),
    ],
)
def test_only_counts_can_wait(decision: Decision, waits: bool) -> None:
    until = written_just_now().hold(KEY, STORED, decision, EPOCH)
    assert until == (EPOCH + SECOND if waits else None)


@pytest.mark.parametrize(
    ("writes", "now", "waits"),
    [
        pytest.param(StatusWrites(SECOND), EPOCH, False, id="never written"),
        pytest.param(written_just_now(), EPOCH + SECOND / 2, True, id="written just now"),
        pytest.param(written_just_now(), EPOCH + SECOND, False, id="written long ago"),
        pytest.param(written_just_now(), EPOCH - SECOND, False, id="the clock was set back"),
        pytest.param(written_just_now(dt.timedelta()), EPOCH, False, id="no interval"),
    ],
)
def test_once_per_interval(writes: StatusWrites, now: dt.datetime, waits: bool) -> None:
    assert (writes.hold(KEY, STORED, decided(running=2), now) is not None) is waits


def test_a_pass_starts_from_what_is_held_back() -> None:
    writes, held, other = written_just_now(), decided(running=2), decided(running=7).status
    assert writes.current(KEY, STORED) == STORED
    writes.hold(KEY, STORED, held, EPOCH)
    assert writes.current(KEY, STORED) == held.status
    assert writes.current(KEY, other) == other  # another client has written it
    writes.release(KEY)
    assert writes.current(KEY, STORED) == STORED


def test_what_is_gone_is_forgotten() -> None:
    writes = written_just_now()
    writes.hold(KEY, STORED, decided(running=2), EPOCH)
    writes.forget(KEY)
    assert (writes._held, writes._written) == ({}, {})
    writes.forget(KEY)

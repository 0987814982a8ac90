from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from pumice.engines.memory.timeline import EPOCH
from pumice.model.job import JobCondition, JobState, JobStatus
from pumice.model.snapshot import JobKey
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


def saying(message: str, reason: str = "Unschedulable") -> Decision:
    state = JobState(phase="Running", reason=reason, message=message)
    events = (JobEvent("PodGroupPending", message), JobEvent("Running", "the job is Running"))
    return Decision(msgspec.structs.replace(STORED, state=state, running=3), (), events)


def test_a_message_that_changes_alone_waits_for_its_turn() -> None:
    writes = StatusWrites(text_interval=10 * SECOND)
    stored = saying("3 pods wait").status
    assert writes.quiet(KEY, STORED, saying("3 pods wait"), EPOCH) == (saying("3 pods wait"), None)
    kept, until = writes.quiet(KEY, stored, saying("2 pods wait"), EPOCH + 4 * SECOND)
    assert until == EPOCH + 10 * SECOND
    # The rest of the decision is carried out at once.
    assert kept.status == stored
    assert [event.reason for event in kept.events] == ["Running"]
    assert writes.quiet(KEY, stored, saying("1 pod waits"), EPOCH + 10 * SECOND) == (saying("1 pod waits"), None)


@pytest.mark.parametrize(
    "decision",
    [
        pytest.param(saying("", ""), id="it waits no longer"),
        pytest.param(saying("no image", "ErrImagePull"), id="another reason"),
        pytest.param(decided(state=JobState(phase="Failed", reason="Unschedulable", message="x")), id="another phase"),
    ],
)
def test_more_than_a_message_is_written_at_once(decision: Decision) -> None:
    writes = StatusWrites(text_interval=10 * SECOND)
    stored = saying("3 pods wait").status
    writes.quiet(KEY, STORED, saying("3 pods wait"), EPOCH)
    assert writes.quiet(KEY, stored, decision, EPOCH + SECOND) == (decision, None)


def test_without_an_interval_each_message_is_written() -> None:
    writes = StatusWrites()
    writes.quiet(KEY, STORED, saying("3 pods wait"), EPOCH)
    assert writes.quiet(KEY, saying("3 pods wait").status, saying("2 pods wait"), EPOCH) == (
        saying("2 pods wait"),
        None,
    )

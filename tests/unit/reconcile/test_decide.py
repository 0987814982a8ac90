"""One pass as a whole; what each step does is tested beside its module, and whole lives in tests/scenarios."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.model.job import JobCondition, JobStatus, Metadata, TaskState
from pumice.model.snapshot import Command, CommandTarget, ObservedPod, PodPhase, Snapshot
from pumice.model.vocabulary import Phase
from pumice.plugins.svc import Svc
from pumice.reconcile.decide import decide
from pumice.reconcile.decision import CreatePod, Decision, DeleteJob, DeletePod, Ensure, Remove, RemoveCommand
from pumice.reconcile.ledger import Ledger, read_ledger
from tests.unit.reconcile.values import NOW, a_pod, a_policy, a_snapshot, a_two_worker_job, ended, later


def kinds(decision: Decision) -> list[str]:
    return [type(command).__name__ for command in decision.commands]


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    job = a_two_worker_job(metadata={"deletion_timestamp": "2030-01-01T00:00:00Z"})
    snapshot = a_snapshot(a_pod(), job=job)
    assert decide(snapshot, (), NOW) == Decision(snapshot.job.status)


@pytest.mark.parametrize("phase", ["", "Dreaming"])
def test_a_job_begins_in_pending_with_all_that_follows_from_it(phase: str) -> None:
    decision = decide(a_snapshot(phase=phase), (), NOW)
    assert decision.status.state.phase == "Pending"
    assert kinds(decision) == ["CreatePod", "CreatePod"]


@pytest.mark.parametrize("phase", ["", "Dreaming"])
def test_a_job_that_does_not_stay_in_pending_is_written_there_first(phase: str) -> None:
    decision = decide(a_snapshot(a_pod("worker-0"), a_pod("worker-1"), phase=phase), (), NOW)
    assert decision.status.state.phase == "Pending"
    assert (decision.commands, decision.events) == ((), ())


def test_an_invalid_job_is_refused() -> None:
    decision = decide(a_snapshot(phase="Pending", errors=("bad",)), (Svc(),), NOW)
    assert (decision.status.state.reason, decision.commands) == ("InvalidJob", ())


def test_a_finished_job_is_not_refused_any_more() -> None:
    decision = decide(a_snapshot(phase="Completed", errors=("bad",)), (Svc(),), NOW)
    assert decision.status.state.reason == ""
    assert kinds(decision) == ["Remove"]


def test_a_complete_status() -> None:
    pods = (a_pod("worker-0"), ended("worker-1"))
    snapshot = a_snapshot(*pods, phase="Pending", controlled_resources={"pumice/generation": "1", "note": "x"})
    decision = decide(snapshot, (), NOW)
    assert decision.status == JobStatus(
        state=msgspec.structs.replace(
            snapshot.job.status.state, phase="Running", last_transition_time="2030-01-02T03:04:05Z"
        ),
        min_available=2,
        task_status_count={"worker": TaskState(phase={"Running": 1, "Succeeded": 1})},
        running=1,
        succeeded=1,
        controlled_resources={
            "note": "x",
            "pumice/first-running": "2030-01-02T03:04:05.000000Z",
            "pumice/generation": "1",
            "pumice/seen/worker": "0-1",
            "pumice/succeeded/worker": "1",
        },
        conditions=[JobCondition(status="Running", last_transition_time="2030-01-02T03:04:05Z")],
    )
    assert (decision.commands, decision.requeue_after) == ((), None)
    assert [event.reason for event in decision.events] == ["Running"]


@pytest.mark.parametrize(
    ("records", "known", "expected"),
    [
        pytest.param(True, {}, {"": 2, "worker": 2}, id="at first"),
        pytest.param(True, {"": 3, "worker": 3}, {"": 3, "worker": 3}, id="never again"),
        pytest.param(False, {}, {}, id="not where the spec has it"),
    ],
)
def test_the_first_min_available_is_recorded(records: bool, known: dict[str, int], expected: dict[str, int]) -> None:
    snapshot = a_snapshot(a_pod(), records_min_available=records, ledger=Ledger(min_available=known))
    assert read_ledger(decide(snapshot, (), NOW).status).min_available == expected


def test_what_is_decided_is_counted_as_done() -> None:
    """A pod that is told to go in this pass is terminating in its status."""
    job = a_two_worker_job(policies=[a_policy("RestartJob", "PodFailed")])
    decision = decide(a_snapshot(a_pod("worker-0"), ended("worker-1", 1), job=job), (), NOW)
    status = decision.status
    assert (status.state.phase, status.version, status.retry_count, status.terminating) == ("Restarting", 1, 1, 2)
    assert decision.commands == (
        DeletePod("train-worker-0", "uid-worker-0"),
        DeletePod("train-worker-1", "uid-worker-1"),
        Remove("PodGroup", decision.commands[-1].name),  # type: ignore[union-attr]  # the command before is compared
    )


def test_pods_are_made_of_the_status_that_is_about_to_be_written() -> None:
    decision = decide(a_snapshot(phase="Restarting", version=3, retry_count=2, group=None), (), NOW)
    assert decision.status.state.phase == "Pending"
    (ensure,) = decision.commands
    assert isinstance(ensure, Ensure)
    decision = decide(a_snapshot(phase="Pending", version=3, retry_count=2), (), NOW)
    annotations = [
        command.manifest["metadata"]["annotations"] for command in decision.commands if isinstance(command, CreatePod)
    ]
    assert [(each["volcano.sh/job-version"], each["volcano.sh/job-retry-count"]) for each in annotations] == [
        ("3", "2")
    ] * 2


@pytest.mark.parametrize(
    ("ttl", "expected", "after"),
    [
        pytest.param(100, ["DeleteJob"], None, id="its time is up"),
        pytest.param(300, ["Remove"], 55, id="not yet"),
        pytest.param(None, ["Remove"], None, id="never"),
    ],
)
def test_a_finished_job_goes_in_its_time(ttl: int | None, expected: list[str], after: float | None) -> None:
    # The job ended 245 seconds ago.
    decision = decide(a_snapshot(phase="Completed", job=a_two_worker_job(ttl_seconds_after_finished=ttl)), (), NOW)
    assert kinds(decision) == expected
    assert decision.requeue_after == (None if after is None else dt.timedelta(seconds=after))
    if ttl == 100:
        assert decision.commands == (DeleteJob(a_two_worker_job().uid),)


def test_the_end_is_written_before_the_job_is_removed() -> None:
    job = a_two_worker_job(ttl_seconds_after_finished=0)
    decision = decide(a_snapshot(ended("worker-0"), ended("worker-1"), job=job), (), NOW)
    assert decision.status.state.phase == "Completed"
    assert "DeleteJob" not in kinds(decision)
    assert decision.requeue_after == dt.timedelta()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, None, id="nothing to wait for"),
        pytest.param(
            {"job": a_two_worker_job(policies=[a_policy("AbortJob", "PodFailed", timeout="1m")])}, 50, id="a timeout"
        ),
        pytest.param(
            {"job": a_two_worker_job(active_deadline_seconds=20), "ledger": Ledger(first_running=later(-8))},
            12,
            id="a deadline",
        ),
    ],
)
def test_when_to_come_back(fields: dict[str, Any], expected: float | None) -> None:
    decision = decide(a_snapshot(a_pod("worker-0"), ended("worker-1", 1, -10), **fields), (), NOW)
    assert decision.requeue_after == (None if expected is None else dt.timedelta(seconds=expected))


PODS = st.lists(
    st.builds(
        lambda index, phase, version, retry, deleted: a_pod(
            f"worker-{index}", phase, version=version, retry=retry, deleted_at=NOW if deleted else None
        ),
        st.integers(0, 3),
        st.sampled_from(PodPhase),
        st.integers(0, 1),
        st.integers(0, 1),
        st.booleans(),
    ),
    unique_by=lambda pod: pod.index,
)


@given(PODS, st.sampled_from(Phase), st.integers(0, 4))
def test_any_pass_is_deterministic_and_counts_every_pod(pods: list[ObservedPod], phase: Phase, spent: int) -> None:
    snapshot: Snapshot = a_snapshot(*pods, phase=phase, version=1, retry_count=1, ledger=Ledger(spent=spent))
    decision = decide(snapshot, (), NOW)
    assert decide(snapshot, (), NOW) == decision
    status = decision.status
    remembered = read_ledger(status).succeeded.get("worker", frozenset())
    # Who is on the way out counts there, and its success, if it had one, by memory.
    finished = [pod for pod in pods if pod.phase is PodPhase.SUCCEEDED and not pod.is_deleting]
    kept = {pod.index for pod in finished} - {
        pod.index
        for pod in pods
        for command in decision.commands
        if isinstance(command, DeletePod) and (command.name, command.uid) == (pod.name, pod.uid)
    }
    total = status.pending + status.running + status.succeeded + status.failed + status.unknown + status.terminating
    assert total == len(pods) + len(remembered - kept)


def test_the_order_of_commands() -> None:
    stale = Command(metadata=Metadata(name="c", uid="c"), target=CommandTarget(uid="another"))
    decision = decide(a_snapshot(a_pod("worker-0"), a_pod("worker-7"), commands=(stale,)), (Svc(),), NOW)
    assert kinds(decision) == ["DeletePod", "Ensure", "Ensure", "CreatePod", "RemoveCommand"]
    assert decision.commands[0] == DeletePod("train-worker-7", "uid-worker-7")
    assert decision.commands[-1] == RemoveCommand("c", "c")


def test_a_job_that_has_everything_needs_no_commands() -> None:
    assert decide(a_snapshot(a_pod("worker-0"), a_pod("worker-1")), (), NOW).commands == ()

"""What holds whenever a job has come to rest, whatever happened before."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pumice.model.snapshot import PodPhase
from pumice.reconcile.ledger import read_ledger

if TYPE_CHECKING:
    from tests.scenarios.stage import Stage


def check_rest(stage: Stage) -> None:
    _no_index_twice(stage)
    _budget_is_kept(stage)
    if not stage.keeps_trying:
        _counts_are_true(stage)
        _nothing_is_left_to_do(stage)


def _counts_are_true(stage: Stage) -> None:
    """Counts equal the pods and the remembered successes."""
    status, ledger = stage.status, read_ledger(stage.status)
    if status.state.reason == "InvalidJob":
        return
    standing = Counter(str(pod.phase) for pod in stage.seen if not pod.is_deleting)
    there = {(pod.task, pod.index) for pod in stage.seen if pod.phase is PodPhase.SUCCEEDED and not pod.is_deleting}
    remembered = {(task, index) for task, indexes in ledger.succeeded.items() for index in indexes}
    standing["Succeeded"] += len(remembered - there)
    counted = {
        "Pending": status.pending,
        "Running": status.running,
        "Succeeded": status.succeeded,
        "Failed": status.failed,
        "Unknown": status.unknown,
    }
    assert counted == {name: standing[name] for name in counted}
    assert status.terminating == sum(pod.is_deleting for pod in stage.seen)
    total = sum((Counter(state.phase) for state in status.task_status_count.values()), Counter[str]())
    assert total == +Counter(counted)


def _no_index_twice(stage: Stage) -> None:
    live = Counter((pod.task, pod.index) for pod in stage.seen if pod.is_live)
    assert not [slot for slot, count in live.items() if count > 1]


def _budget_is_kept(stage: Stage) -> None:
    assert stage.spent <= stage.job.spec.max_retry
    assert stage.spent <= stage.status.retry_count


def _nothing_is_left_to_do(stage: Stage) -> None:
    """A further pass changes nothing."""
    status = stage.status
    again, commands = stage.again()
    stage.world.changed.clear()
    assert (again, commands) == (status, [])

"""What holds whenever a job has come to rest, whatever happened before."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pumice.model.snapshot import PodPhase
from pumice.reconcile.ledger import read_ledger

if TYPE_CHECKING:
    from tests.scenarios.simulation import Simulation


def check_rest(sim: Simulation) -> None:
    _no_index_twice(sim)
    _budget_is_kept(sim)
    if not sim.keeps_trying:
        _counts_are_true(sim)
        _nothing_is_left_to_do(sim)


def _counts_are_true(sim: Simulation) -> None:
    """Counts equal the pods and the remembered successes."""
    status, ledger = sim.status, read_ledger(sim.status)
    if status.state.reason == "InvalidJob":
        return
    phases = Counter(str(pod.phase) for pod in sim.seen if not pod.is_deleting)
    there = {(pod.task, pod.index) for pod in sim.seen if pod.phase is PodPhase.SUCCEEDED and not pod.is_deleting}
    remembered = {(task, index) for task, indexes in ledger.succeeded.items() for index in indexes}
    phases["Succeeded"] += len(remembered - there)
    counted = {
        "Pending": status.pending,
        "Running": status.running,
        "Succeeded": status.succeeded,
        "Failed": status.failed,
        "Unknown": status.unknown,
    }
    assert counted == {name: phases[name] for name in counted}
    assert status.terminating == sum(pod.is_deleting for pod in sim.seen)
    total = sum((Counter(state.phase) for state in status.task_status_count.values()), Counter[str]())
    assert total == +Counter(counted)


def _no_index_twice(sim: Simulation) -> None:
    live = Counter((pod.task, pod.index) for pod in sim.seen if pod.is_live)
    assert not [slot for slot, count in live.items() if count > 1]


def _budget_is_kept(sim: Simulation) -> None:
    assert sim.spent <= sim.job.spec.max_retry
    assert sim.spent <= sim.status.retry_count


def _nothing_is_left_to_do(sim: Simulation) -> None:
    """A further pass changes nothing."""
    status = sim.status
    again, commands = sim.again()
    sim.world.changed.clear()
    assert (again, commands) == (status, [])

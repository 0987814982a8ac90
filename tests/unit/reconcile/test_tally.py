from __future__ import annotations

import pytest

from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.tally import Tally, tally
from tests.unit.reconcile.values import NOW, a_pod, a_two_worker_job

JOB = a_two_worker_job()
REMEMBERED = Ledger(succeeded={"worker": frozenset((0, 1))})


def count(*pods: ObservedPod, ledger: Ledger | None = None, doomed: tuple[str, ...] = ()) -> Tally:
    return tally(JOB, pods, ledger or Ledger(), lambda pod: pod.short_name in doomed)


def test_each_phase_has_its_number() -> None:
    phases = ("Pending", "Running", "Running", "Succeeded", "Failed", "Unknown")
    counts = count(*(a_pod(f"worker-{index}", phase) for index, phase in enumerate(phases)))
    numbers = (counts.pending, counts.running, counts.succeeded, counts.failed, counts.unknown, counts.terminating)
    assert numbers == (1, 2, 1, 1, 1, 0)
    assert counts.alive == 4
    assert counts.of_task("worker", PodPhase.RUNNING) == 2
    assert counts.of_task("nobody", PodPhase.RUNNING) == 0


def test_who_is_or_will_be_on_the_way_out_is_terminating_whatever_the_phase() -> None:
    counts = count(a_pod("worker-0", "Failed", deleted_at=NOW), a_pod("worker-1", "Running"), doomed=("worker-1",))
    assert (counts.terminating, counts.running, counts.failed, counts.by_task) == (2, 0, 0, {})


@pytest.mark.parametrize(
    ("pods", "succeeded"),
    [
        pytest.param((), 2, id="both pods are gone"),
        pytest.param((a_pod("worker-0", "Succeeded"),), 2, id="one is there"),
        pytest.param((a_pod("worker-0", "Succeeded"), a_pod("worker-1", "Succeeded")), 2, id="both are there"),
        pytest.param((a_pod("worker-0", "Succeeded", deleted_at=NOW),), 2, id="one is on its way out"),
    ],
)
def test_a_remembered_success_counts_once(pods: tuple[ObservedPod, ...], succeeded: int) -> None:
    assert count(*pods, ledger=REMEMBERED).succeeded == succeeded


def test_tasks_and_phases_are_told_in_order() -> None:
    counts = count(a_pod("worker-0", "Running"), a_pod("ps-0", "Pending"), a_pod("worker-1", "Failed"))
    states = counts.task_states()
    assert [(task, list(state.phase.items())) for task, state in states.items()] == [
        ("ps", [("Pending", 1)]),
        ("worker", [("Failed", 1), ("Running", 1)]),
    ]

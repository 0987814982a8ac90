from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pumice.model.snapshot import ContainerEnd, ObservedGroup, ObservedPod
from pumice.reconcile.ledger import Ledger, Restart, RestartKind
from pumice.reconcile.occurrences import occurrences
from tests.unit.reconcile.values import NOW, a_pod, a_state, a_two_worker_job, ended, later

SEEN = {"worker": frozenset((0, 1))}
BOTH = (a_pod("worker-0"), a_pod("worker-1"))


def found(*pods: ObservedPod, **fields: Any) -> list[tuple[str, str, float]]:
    """Event, pod, and age in seconds."""
    events = occurrences(a_state(*pods, **fields), NOW)
    return [(str(one.event), one.short_name, (NOW - one.since).total_seconds()) for one in events]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(BOTH, [], id="all is well"),
        pytest.param((ended("worker-0", 1, -7), BOTH[1]), [("PodFailed", "worker-0", 7)], id="failed"),
        pytest.param((a_pod("worker-0", "Failed"),), [("PodFailed", "worker-0", 0)], id="failed, at an unknown time"),
        pytest.param((ended("worker-0", 1, 30),), [("PodFailed", "worker-0", 0)], id="the clock of a node is ahead"),
        pytest.param(
            (a_pod("worker-0", "Pending"),), [("PodPending", "worker-0", 100)], id="pending since it was made"
        ),
        pytest.param((a_pod("worker-0", "Unknown"),), [], id="out of sight"),
        pytest.param((ended("worker-0", 1, version=-1),), [], id="failed in an earlier run"),
        pytest.param((ended("worker-5", 1),), [], id="failed where the job has no place"),
        pytest.param((a_pod("worker-0", "Pending", deleted_at=NOW),), [], id="pending on its way out"),
        pytest.param(
            (ended("worker-0", 1, -3), ended("worker-1", 1, -9)),
            [("PodFailed", "worker-1", 9), ("PodFailed", "worker-0", 3)],
            id="the oldest first",
        ),
    ],
)
def test_events_of_pods(pods: tuple[ObservedPod, ...], expected: list[tuple[str, str, float]]) -> None:
    assert found(*pods) == expected


def test_the_exit_code_is_that_of_the_first_failure() -> None:
    ends = (ContainerEnd("main", 1, finished_at=later(-1)), ContainerEnd("init", 7, finished_at=later(-2)))
    state = a_state(a_pod("worker-0", "Failed", ends=ends), a_pod("worker-1", "Failed"))
    assert [one.exit_code for one in occurrences(state, NOW)] == [7, None]


@pytest.mark.parametrize(
    ("pods", "ledger", "expected"),
    [
        pytest.param((BOTH[1],), Ledger(), [], id="never seen"),
        pytest.param((BOTH[1],), Ledger(seen=SEEN), [("PodEvicted", "worker-0", 0)], id="gone"),
        pytest.param((BOTH[1],), Ledger(seen=SEEN, succeeded=SEEN), [], id="gone after its success"),
        pytest.param(
            (BOTH[1],),
            Ledger(evicted={"worker-0": later(-8)}),
            [("PodEvicted", "worker-0", 8)],
            id="gone, and a timeout runs",
        ),
        pytest.param((BOTH[1],), Ledger(evicted={"other-0": NOW}), [], id="a timeout of nobody"),
        pytest.param(BOTH, Ledger(seen={"worker": frozenset((0, 1, 2))}), [], id="scaled away"),
        pytest.param((a_pod("worker-0", deleted_at=NOW), BOTH[1]), Ledger(seen=SEEN), [], id="only asked for"),
        pytest.param(
            (a_pod("worker-0", "Failed", deleted_at=NOW), BOTH[1]),
            Ledger(seen=SEEN),
            [("PodEvicted", "worker-0", 0)],
            id="failed on its way out",
        ),
        pytest.param(
            (a_pod("worker-0", "Failed", deleted_at=NOW), BOTH[1]), Ledger(), [], id="sent away by us, failed"
        ),
        pytest.param(
            (a_pod("worker-0", "Failed", deleted_at=NOW), BOTH[1]),
            Ledger(evicted={"worker-0": later(-5)}),
            [("PodEvicted", "worker-0", 5)],
            id="failed on its way out, and a timeout runs",
        ),
        pytest.param(
            (a_pod("worker-0", "Pending", created_at=later(-1)), BOTH[1]),
            Ledger(evicted={"worker-0": later(-5)}),
            [("PodEvicted", "worker-0", 5), ("PodPending", "worker-0", 1)],
            id="its successor does not run yet",
        ),
        pytest.param(BOTH, Ledger(evicted={"worker-0": later(-5)}), [], id="its successor runs"),
    ],
)
def test_evictions(pods: tuple[ObservedPod, ...], ledger: Ledger, expected: list[tuple[str, str, float]]) -> None:
    assert found(*pods, ledger=ledger) == expected


@pytest.mark.parametrize(
    ("pods", "ledger", "expected"),
    [
        pytest.param((ended("worker-0"), BOTH[1]), Ledger(), [], id="one is left"),
        pytest.param(
            (ended("worker-0", at=-5), ended("worker-1", at=-6)), Ledger(), [("TaskCompleted", "worker-0", 5)], id="all"
        ),
        pytest.param(
            (ended("worker-0", at=-5),),
            Ledger(succeeded={"worker": frozenset((1,))}),
            [("TaskCompleted", "worker-0", 5)],
            id="all, one by memory",
        ),
        pytest.param((), Ledger(succeeded=SEEN), [], id="all by memory: told before"),
        pytest.param(
            (a_pod("worker-0", "Succeeded"), a_pod("worker-1", "Succeeded")),
            Ledger(noticed={"TaskCompleted/worker": later(-4)}),
            [("TaskCompleted", "worker-1", 4)],
            id="nobody knows when, noticed then",
        ),
        pytest.param((a_pod("worker-0", restarts=2), BOTH[1]), Ledger(), [], id="two container restarts"),
        pytest.param(
            (a_pod("worker-0", restarts=1), a_pod("worker-1", "Running", restarts=2)),
            Ledger(),
            [("TaskFailed", "worker-1", 0)],
            id="three in the task",
        ),
        pytest.param(
            (a_pod("worker-0", restarts=3), BOTH[1]),
            Ledger(noticed={"TaskFailed/worker": later(-4)}),
            [("TaskFailed", "worker-0", 4)],
            id="noticed before",
        ),
        pytest.param((a_pod("worker-0", "Unknown", restarts=9), BOTH[1]), Ledger(), [], id="out of sight"),
        pytest.param((a_pod("worker-0", restarts=9, deleted_at=NOW), BOTH[1]), Ledger(), [], id="on its way out"),
    ],
)
def test_occurrences_of_tasks(
    pods: tuple[ObservedPod, ...], ledger: Ledger, expected: list[tuple[str, str, float]]
) -> None:
    job = a_two_worker_job()
    tasks = [msgspec.structs.replace(task, max_retry=3) for task in job.spec.tasks]
    job = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=tasks))
    assert found(*pods, ledger=ledger, job=job) == expected


UNKNOWN = ObservedGroup({}, "Unknown")


@pytest.mark.parametrize(
    ("fields", "ledger", "expected"),
    [
        pytest.param({"group": UNKNOWN}, Ledger(), [("Unknown", "", 0)], id="the group is unknown"),
        pytest.param({"group": UNKNOWN}, Ledger(unknown_since=later(-3)), [("Unknown", "", 3)], id="for a while"),
        pytest.param({"group": None}, Ledger(), [], id="no group"),
        pytest.param(
            {"group": UNKNOWN, "phase": "Restarting"}, Ledger(restart=Restart(RestartKind.ALL)), [], id="on its way out"
        ),
        pytest.param({}, Ledger(), [], id="a job that is new"),
        pytest.param({}, Ledger(generation=1), [], id="as it was"),
        pytest.param(
            {"job": a_two_worker_job(metadata={"generation": 2})},
            Ledger(generation=1),
            [("JobUpdated", "", 0)],
            id="changed",
        ),
        pytest.param(
            {"job": a_two_worker_job(metadata={"generation": 2})},
            Ledger(generation=1, noticed={"JobUpdated": later(-2)}),
            [("JobUpdated", "", 2)],
            id="changed a while ago",
        ),
    ],
)
def test_occurrences_of_the_job(fields: dict[str, Any], ledger: Ledger, expected: list[tuple[str, str, float]]) -> None:
    assert found(*BOTH, ledger=ledger, **fields) == expected

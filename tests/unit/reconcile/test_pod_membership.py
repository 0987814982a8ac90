from __future__ import annotations

from typing import Any

import pytest

from pumice.model.snapshot import ObservedPod
from pumice.model.vocabulary import Phase
from pumice.reconcile.ledger import Ledger, Restart, RestartKind
from pumice.reconcile.pod_membership import has_slot, is_current, is_target, keeps_group, must_go
from tests.unit.reconcile.values import NOW, a_pod, a_snapshot

TARGETS = Ledger(restart=Restart(RestartKind.TARGETS, 1, {"worker": frozenset((0,))}))
ALL = Ledger(restart=Restart(RestartKind.ALL), succeeded={"worker": frozenset((1,))})
RESUMED = Ledger(restart=Restart(RestartKind.UNSUCCESSFUL), succeeded={"worker": frozenset((1,))})


@pytest.mark.parametrize(
    ("name", "expected"),
    [("worker-1", True), ("worker-2", False), ("other-0", False)],
)
def test_a_slot_is_a_place_that_the_job_has(name: str, expected: bool) -> None:
    assert has_slot(a_pod(name), a_snapshot().job) is expected


@pytest.mark.parametrize(
    ("pod", "ledger", "expected"),
    [
        pytest.param(a_pod("worker-0"), Ledger(), False, id="no restart"),
        pytest.param(a_pod("worker-0"), ALL, False, id="a restart of all"),
        pytest.param(a_pod("worker-0"), TARGETS, True, id="meant"),
        pytest.param(a_pod("worker-1"), TARGETS, False, id="another index"),
        pytest.param(a_pod("worker-0", retry=1), TARGETS, False, id="made in its place"),
        pytest.param(a_pod("master-0"), TARGETS, False, id="another task"),
    ],
)
def test_whom_a_targeted_restart_means(pod: ObservedPod, ledger: Ledger, expected: bool) -> None:
    assert is_target(pod, ledger) is expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod("worker-1", version=2), True, id="of this run"),
        pytest.param(a_pod("worker-1", version=1), False, id="of an earlier run"),
        pytest.param(a_pod("worker-2", version=2), False, id="scaled away"),
        pytest.param(a_pod("worker-0", version=2), False, id="to be restarted"),
    ],
)
def test_who_takes_part_in_the_present_run(pod: ObservedPod, expected: bool) -> None:
    assert is_current(pod, a_snapshot(version=2).job, TARGETS) is expected


@pytest.mark.parametrize(
    ("phase", "ledger", "expected"),
    [
        ("Pending", Ledger(), True),
        ("Running", Ledger(), True),
        ("Restarting", TARGETS, True),
        ("Restarting", ALL, False),
        ("Restarting", Ledger(), False),
        ("Aborted", TARGETS, False),
        ("Completed", Ledger(), False),
    ],
)
def test_when_the_group_is_kept(phase: str, ledger: Ledger, expected: bool) -> None:
    assert keeps_group(Phase(phase), ledger) is expected


OLD: dict[str, Any] = {"version": 0}
NEW: dict[str, Any] = {"version": 1}


@pytest.mark.parametrize(
    ("phase", "pod", "ledger", "exhausted", "expected"),
    [
        pytest.param("Running", a_pod(**NEW), Ledger(), False, False, id="in its place"),
        pytest.param("Running", a_pod("worker-5", **NEW), Ledger(), False, True, id="scaled away"),
        pytest.param("Running", a_pod("worker-5", deleted_at=NOW, **NEW), Ledger(), False, False, id="told already"),
        pytest.param("Running", a_pod(**OLD), Ledger(), False, True, id="of an earlier run"),
        pytest.param("Running", a_pod("worker-1", "Succeeded", **OLD), RESUMED, False, False, id="succeeded before"),
        pytest.param("Running", a_pod("worker-1", "Failed", **OLD), RESUMED, False, True, id="failed before"),
        pytest.param("Pending", a_pod(**NEW), TARGETS, False, True, id="target"),
        pytest.param("Restarting", a_pod(**NEW), TARGETS, False, True, id="target while restarting"),
        pytest.param("Restarting", a_pod("worker-1", **NEW), TARGETS, False, False, id="not meant"),
        pytest.param("Restarting", a_pod("worker-0", "Failed", **NEW), TARGETS, True, False, id="kept to look at"),
        pytest.param("Restarting", a_pod("worker-0", "Running", **NEW), TARGETS, True, True, id="alive at the end"),
        pytest.param("Restarting", a_pod("worker-1", "Succeeded", **OLD), ALL, False, True, id="success voided"),
        pytest.param("Restarting", a_pod("worker-1", "Succeeded", **OLD), RESUMED, False, False, id="success kept"),
        pytest.param("Restarting", a_pod("worker-0", "Running", **OLD), RESUMED, False, True, id="resumed anew"),
        pytest.param("Aborting", a_pod("worker-0", "Running", **OLD), Ledger(), False, True, id="winding down"),
        pytest.param("Aborting", a_pod("worker-0", "Failed", **OLD), Ledger(), False, False, id="finished stays"),
        pytest.param("Completed", a_pod("worker-0", "Pending", **NEW), Ledger(), False, True, id="alive after the end"),
    ],
)
def test_who_must_go(phase: str, pod: ObservedPod, ledger: Ledger, exhausted: bool, expected: bool) -> None:
    fields: dict[str, Any] = {"phase": phase, "version": 1}
    assert must_go(pod, a_snapshot(**fields).job, ledger, exhausted=exhausted) is expected

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from pumice.model.gang import NATIVE, NO_GANG
from pumice.model.job import DependsOn, VolumeSpec
from pumice.model.snapshot import ObservedGroup, ObservedPod, Trouble
from pumice.reconcile.ledger import Ledger, Restart, RestartKind
from pumice.reconcile.pod_creation import grace_ends, is_short, pods_to_make, why_not
from tests.builders import UID, a_job, a_task
from tests.unit.reconcile.values import NOW, a_pod, a_snapshot, a_two_worker_job, later

ALL = Ledger(restart=Restart(RestartKind.ALL))
CLAIM = a_two_worker_job(volumes=[VolumeSpec(mount_path="/d", volume_claim_name="shared")])
OWN_CLAIM = a_two_worker_job(volumes=[VolumeSpec(mount_path="/d", volume_claim={"accessModes": ["ReadWriteOnce"]})])


def made(*pods: ObservedPod, ledger: Ledger | None = None, **fields: Any) -> list[str]:
    snapshot = a_snapshot(*pods, **fields)
    commands = pods_to_make(snapshot, ledger or Ledger(), (), NOW)
    return [command.manifest["metadata"]["name"].removeprefix("train-") for command in commands]


@pytest.mark.parametrize(
    ("pods", "ledger", "expected"),
    [
        pytest.param((), Ledger(), ["worker-0", "worker-1"], id="all"),
        pytest.param((a_pod("worker-0"),), Ledger(), ["worker-1"], id="what is missing"),
        pytest.param((a_pod("worker-0", deleted_at=NOW),), Ledger(), ["worker-1"], id="a name that is taken yet"),
        pytest.param((), Ledger(succeeded={"worker": frozenset((0,))}), ["worker-1"], id="who succeeded is not run"),
        pytest.param((a_pod("worker-0"), a_pod("worker-1")), Ledger(), [], id="nobody is missing"),
    ],
)
def test_who_is_made(pods: tuple[ObservedPod, ...], ledger: Ledger, expected: list[str]) -> None:
    assert made(*pods, ledger=ledger) == expected
    assert is_short(a_snapshot(*pods), ledger) is bool(expected)


def test_pods_have_the_form_of_the_gang_provider() -> None:
    [command] = pods_to_make(a_snapshot(job=a_job(), gang=NATIVE), Ledger(), (), NOW)
    assert command.manifest["spec"]["schedulingGroup"] == {"podGroupName": f"train-{UID}"}


def test_dependencies_hold_back() -> None:
    job = a_job(a_task("a"), a_task("b", depends_on=DependsOn(name=["a"])))
    assert made(job=job) == ["a-0"]
    assert made(a_pod("a-0"), job=job) == ["b-0"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"phase": "Restarting"}, Trouble("", ""), id="the phase"),
        pytest.param(
            {"job": CLAIM}, Trouble("ClaimMissing", "waits for PersistentVolumeClaim shared"), id="a claim is missing"
        ),
        pytest.param({"job": CLAIM, "claims": frozenset(("shared",))}, None, id="the claim is there"),
        pytest.param({"job": OWN_CLAIM}, Trouble("", ""), id="a claim that is made in this pass is no trouble"),
        pytest.param({"group": None}, Trouble("", ""), id="no group"),
        pytest.param({"group": ObservedGroup({}, "Pending")}, Trouble("", ""), id="not in the queue"),
        pytest.param(
            {"group": ObservedGroup({}, "Pending", "no room")}, Trouble("Unschedulable", "no room"), id="no room"
        ),
        pytest.param({"group": None, "gang": NO_GANG}, None, id="nobody asks for a group"),
    ],
)
def test_what_holds_all_back(fields: dict[str, Any], expected: Trouble | None) -> None:
    assert why_not(a_snapshot(**fields), Ledger(), NOW) == expected
    assert (made(**fields) == []) is (expected is not None)


WAITS = Trouble("Restarting", "waits for the pods of the run before to be gone")
KEPT = Ledger(restart=Restart(RestartKind.UNSUCCESSFUL), succeeded={"worker": frozenset((0,))})


@pytest.mark.parametrize(
    ("pod", "ledger", "expected", "ends"),
    [
        pytest.param(a_pod(), ALL, WAITS, None, id="an old one stands there"),
        pytest.param(a_pod(deleted_at=later(5)), ALL, WAITS, later(5), id="an old one is ending"),
        pytest.param(a_pod(deleted_at=NOW), ALL, None, None, id="an old one outlives its grace"),
        pytest.param(a_pod(version=1), ALL, None, None, id="a new one"),
        pytest.param(a_pod(), Ledger(), None, None, id="no restart"),
        pytest.param(
            a_pod(), Ledger(restart=Restart(RestartKind.TARGETS, 1)), None, None, id="a targeted restart waits for none"
        ),
        pytest.param(a_pod("worker-0", "Succeeded"), KEPT, None, None, id="a success that is kept"),
    ],
)
def test_two_runs_do_not_meet(
    pod: ObservedPod, ledger: Ledger, expected: Trouble | None, ends: dt.datetime | None
) -> None:
    snapshot = a_snapshot(pod, phase="Pending", version=1)
    assert why_not(snapshot, ledger, NOW) == expected
    assert grace_ends(snapshot, ledger, NOW) == ends

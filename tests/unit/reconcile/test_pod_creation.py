from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import DependsOn, VolumeSpec
from pumice.model.snapshot import Failure, ObservedGroup, ObservedPod
from pumice.model.vocabulary import NATIVE, NO_GANG
from pumice.reconcile.ledger import Ledger, Restart, RestartKind
from pumice.reconcile.pod_creation import plan_pods
from tests.builders import UID, a_job, a_task
from tests.unit.reconcile.values import NOW, a_pod, a_state, a_two_worker_job, later

ALL = Ledger(restart=Restart(RestartKind.ALL))
NO_CLAIM = "PersistentVolumeClaim shared does not exist"
CLAIM = a_two_worker_job(volumes=[VolumeSpec(mount_path="/d", volume_claim_name="shared")])
OWN_CLAIM = a_two_worker_job(volumes=[VolumeSpec(mount_path="/d", volume_claim={"accessModes": ["ReadWriteOnce"]})])


def created(*pods: ObservedPod, **fields: Any) -> list[str]:
    state = a_state(*pods, **fields)
    commands = plan_pods(state, NOW).create(state.snapshot, ())
    return [command.manifest["metadata"]["name"].removeprefix("train-") for command in commands]


@pytest.mark.parametrize(
    ("pods", "ledger", "expected"),
    [
        pytest.param((), Ledger(), ["worker-0", "worker-1"], id="all"),
        pytest.param((a_pod("worker-0"),), Ledger(), ["worker-1"], id="what is missing"),
        pytest.param((a_pod("worker-0", deleted_at=NOW),), Ledger(), ["worker-1"], id="a name that is still taken"),
        pytest.param((), Ledger(succeeded={"worker": frozenset((0,))}), ["worker-1"], id="a success is not run again"),
        pytest.param((a_pod("worker-0"), a_pod("worker-1")), Ledger(), [], id="none is missing"),
    ],
)
def test_which_pods_are_created(pods: tuple[ObservedPod, ...], ledger: Ledger, expected: list[str]) -> None:
    assert created(*pods, ledger=ledger) == expected


def test_pods_have_the_form_of_the_gang_provider() -> None:
    state = a_state(job=a_job(), gang=NATIVE)
    [command] = plan_pods(state, NOW).create(state.snapshot, ())
    assert command.manifest["spec"]["schedulingGroup"] == {"podGroupName": f"train-{UID}"}


def test_a_phase_without_pods() -> None:
    assert created(phase="Restarting") == []


def test_dependencies_hold_pods_back() -> None:
    job = a_job(a_task("a"), a_task("b", depends_on=DependsOn(name=["a"])))
    assert created(job=job) == ["a-0"]
    assert created(a_pod("a-0"), job=job) == ["b-0"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"job": CLAIM}, Failure("ClaimMissing", NO_CLAIM), id="a claim is missing"),
        pytest.param({"job": CLAIM, "claims": frozenset(("shared",))}, None, id="the claim is there"),
        pytest.param({"job": OWN_CLAIM}, Failure("", ""), id="a claim that this pass creates"),
        pytest.param({"group": None}, Failure("", ""), id="no group"),
        pytest.param({"group": ObservedGroup({}, "Pending")}, Failure("", ""), id="not in the queue"),
        pytest.param(
            {"group": ObservedGroup({}, "Pending", "no room")}, Failure("Unschedulable", "no room"), id="no room"
        ),
        pytest.param({"group": None, "gang": NO_GANG}, None, id="no gang"),
    ],
)
def test_what_holds_all_pods_back(fields: dict[str, Any], expected: Failure | None) -> None:
    assert plan_pods(a_state(**fields), NOW).blocked == expected
    assert (created(**fields) == []) is (expected is not None)


WAITS = Failure("Restarting", "waits for the pods of the previous run to terminate")
KEPT = Ledger(restart=Restart(RestartKind.UNSUCCESSFUL), succeeded={"worker": frozenset((0,))})


@pytest.mark.parametrize(
    ("pod", "ledger", "expected"),
    [
        pytest.param(a_pod(), ALL, WAITS, id="an old pod exists"),
        pytest.param(a_pod(deleted_at=later(5)), ALL, WAITS, id="an old pod terminates"),
        pytest.param(a_pod(deleted_at=NOW), ALL, None, id="an old pod outlives its grace period"),
        pytest.param(a_pod(version=1), ALL, None, id="a new one"),
        pytest.param(a_pod(), Ledger(), None, id="no restart"),
        pytest.param(
            a_pod(), Ledger(restart=Restart(RestartKind.TARGETS, 1)), None, id="a targeted restart waits for none"
        ),
        pytest.param(a_pod("worker-0", "Succeeded"), KEPT, None, id="a success that is kept"),
    ],
)
def test_two_runs_do_not_meet(pod: ObservedPod, ledger: Ledger, expected: Failure | None) -> None:
    assert plan_pods(a_state(pod, phase="Pending", version=1, ledger=ledger), NOW).blocked == expected

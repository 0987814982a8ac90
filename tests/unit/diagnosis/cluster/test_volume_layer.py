from __future__ import annotations

from typing import Any

import pytest

from pumice.diagnosis.cluster.volume_layer import missing_claim_cause, mount_cause, unbound_claim_cause, volume_cause
from pumice.model.job import VolumeSpec
from tests.builders import a_task
from tests.unit.diagnosis.cluster.readings import claim, event, job, pod, reading, unscheduled

DATA = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
OWN = VolumeSpec(mount_path="/own", volume_claim={"accessModes": ["ReadWriteOnce"]})
TWO = [VolumeSpec(mount_path=f"/{name}", volume_claim_name=name) for name in ("a", "b")]


@pytest.mark.parametrize(
    ("volumes", "pods", "claims", "message"),
    [
        pytest.param([], (), (), None, id="none is named"),
        pytest.param([OWN], (), (), None, id="the controller creates it"),
        pytest.param(TWO, (), (claim("a"), claim("b")), None, id="they exist"),
        pytest.param(TWO, (), (), "PersistentVolumeClaim a, b do not exist", id="two"),
        pytest.param([], (pod(spec=DATA),), (), "PersistentVolumeClaim data does not exist", id="of a template"),
        pytest.param([], (pod(spec=DATA), pod("worker-1", spec=DATA)), (claim("data"),), None, id="it exists"),
        pytest.param([], (pod(phase="Running", spec=DATA),), (), None, id="a pod that runs has it"),
        pytest.param(TWO[:1], (pod(),), (), None, id="all pods exist"),
    ],
)
def test_claims_that_do_not_exist(volumes: Any, pods: Any, claims: Any, message: str | None) -> None:
    cause = missing_claim_cause(reading(job(a_task(), volumes=volumes), pods=pods, claims=claims))
    assert (None if cause is None else cause.message) == message


@pytest.mark.parametrize(
    ("claims", "reason", "message"),
    [
        pytest.param((claim("data", "Lost"),), "", "PersistentVolumeClaim data is lost: its volume is gone", id="lost"),
        pytest.param((claim("data", "Pending"),), "", "PersistentVolumeClaim data is not bound", id="without a word"),
        pytest.param(
            (claim("data", "Pending"),),
            "WaitForFirstConsumer",
            "PersistentVolumeClaim data is not bound: words",
            id="it waits for the pod",
        ),
        pytest.param((claim("data"),), "", "a claim of worker-0 is not bound: data", id="bound since"),
        pytest.param((), "", "a claim of worker-0 is not bound: data", id="unknown"),
    ],
)
def test_a_claim_that_keeps_a_pod_from_its_node(claims: Any, reason: str, message: str) -> None:
    waits = pod(spec=DATA, conditions=unscheduled("pod has unbound immediate PersistentVolumeClaims"))
    events = (event("PersistentVolumeClaim", "data", reason, "words"),)
    assert volume_cause(reading(pods=(waits,), claims=claims, events=events), waits, "").message == message


def test_a_claim_without_a_name() -> None:
    waits = pod()
    assert volume_cause(reading(), waits, "").message == "a claim of worker-0 is not bound: its name is unknown"


def test_a_claim_that_waits_for_its_first_consumer_is_no_cause() -> None:
    events = (event("PersistentVolumeClaim", "data", "WaitForFirstConsumer", "waiting for first consumer"),)
    situation = reading(pods=(pod(spec=DATA),), claims=(claim("data", "Pending"),), events=events)
    assert unbound_claim_cause(situation) is None


def test_the_volume_of_the_first_pod_that_waits_for_one() -> None:
    failed = event("Pod", "train-worker-1", "FailedAttachVolume", "Multi-Attach error")
    pods = (pod("worker-1"), pod("worker-0"))
    cause = mount_cause(reading(pods=pods, events=(failed,)))
    assert cause is not None
    assert cause.message == "worker-1 waits for a volume: Multi-Attach error"
    assert mount_cause(reading(pods=(pod("worker-1", "Running"),), events=(failed,))) is None

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pumice.model.job import Job, Manifest, VolumeSpec
from pumice.model.snapshot import Failure, ObservedGroup, ObservedPod
from pumice.model.vocabulary import COSCHEDULING, NATIVE, NO_GANG, GangProvider
from pumice.plugins.base import Base
from pumice.plugins.env import Env
from pumice.plugins.shaping import manifest_of, owned_objects
from pumice.plugins.ssh import Ssh
from pumice.plugins.svc import Svc
from pumice.reconcile.decision import EngineCommand, Ensure, Remove
from pumice.reconcile.gangs import pod_groups
from pumice.reconcile.ledger import Ledger, Restart, RestartKind
from pumice.reconcile.owned_objects import reconcile_owned_objects, replaced_secrets, volcano_markers
from pumice.reconcile.state import State
from tests.builders import UID, a_job, a_task, a_template
from tests.unit.reconcile.values import NOW, a_pod, a_state, a_two_worker_job, observed_group

PLUGINS: tuple[Base, ...] = (Svc(disable_network_policy=False), Ssh())
KINDS = ["Service", "ConfigMap", "Secret", "NetworkPolicy"]
TARGETS = Ledger(restart=Restart(RestartKind.TARGETS, 1))
WITH_CLAIM = a_two_worker_job(volumes=[VolumeSpec(mount_path="/d", volume_claim={"accessModes": ["ReadWriteOnce"]})])


def all_of(job: Job) -> dict[tuple[str, str], Manifest]:
    manifests = [manifest_of(extra_object) for extra_object in owned_objects(job, PLUGINS)]
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}


def shown(commands: Iterable[EngineCommand]) -> list[str]:
    lines = []
    for command in commands:
        if isinstance(command, Ensure):
            lines.append(f"ensure {manifest_of(command.owned)['kind']}")
        elif isinstance(command, Remove):
            lines.append(f"remove {command.kind}")
    return lines


def reconciled(*pods: ObservedPod, plugins: tuple[Base, ...] = (), **fields: Any) -> list[str]:
    return shown(reconcile_owned_objects(a_state(*pods, **fields), plugins))


def test_a_new_job_gets_all_objects() -> None:
    assert reconciled(plugins=PLUGINS, group=None, phase="Pending") == [
        f"ensure {kind}" for kind in (*KINDS, "PodGroup")
    ]


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting", "Aborting", "Aborted", "Completing"])
def test_owned_objects_exist_until_the_job_is_over(phase: str) -> None:
    there = all_of(a_two_worker_job())
    ledger = TARGETS if phase == "Restarting" else Ledger()
    group: dict[str, Any] = {} if phase in {"Pending", "Running", "Restarting"} else {"group": None}
    assert reconciled(plugins=PLUGINS, owned_objects=there, phase=phase, ledger=ledger, **group) == []
    del there["ConfigMap", "train-svc"]
    assert reconciled(plugins=PLUGINS, owned_objects=there, phase=phase, ledger=ledger, **group) == ["ensure ConfigMap"]


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated"])
@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod("worker-0", "Succeeded"), [f"remove {kind}" for kind in KINDS], id="finished"),
        pytest.param(a_pod("worker-0", "Running"), [], id="one is alive"),
        pytest.param(a_pod("worker-0", "Failed", deleted_at=NOW), [], id="one is being deleted"),
    ],
)
def test_owned_objects_are_removed_after_the_last_pod(phase: str, pod: ObservedPod, expected: list[str]) -> None:
    there = all_of(a_two_worker_job())
    assert reconciled(pod, plugins=PLUGINS, owned_objects=there, phase=phase, group=None) == expected
    assert reconciled(pod, plugins=PLUGINS, owned_objects={}, phase=phase, group=None) == []


def edited(kind: str, name: str, **parts: Any) -> dict[tuple[str, str], Manifest]:
    there = all_of(a_two_worker_job())
    there[kind, name] = {**there[kind, name], **parts}
    return there


HOSTS = all_of(a_two_worker_job())["ConfigMap", "train-svc"]["data"]
SERVICE = all_of(a_two_worker_job())["Service", "train"]["spec"]
POLICY = all_of(a_two_worker_job())["NetworkPolicy", "train"]["spec"]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param(edited("ConfigMap", "train-svc", data={}), ["ensure ConfigMap"], id="entries were removed"),
        pytest.param(
            edited("ConfigMap", "train-svc", data={**HOSTS, "more": "x"}), ["ensure ConfigMap"], id="one was added"
        ),
        pytest.param(edited("ConfigMap", "train-svc", metadata={"labels": {"a": "b"}}), [], id="labels do not matter"),
        pytest.param(
            edited("Service", "train", spec={**SERVICE, "ipFamilies": ["IPv4"]}), [], id="defaults were added"
        ),
        pytest.param(edited("Service", "train", spec={**SERVICE, "clusterIP": ""}), ["ensure Service"], id="a value"),
        pytest.param(edited("Service", "train", spec={}), ["ensure Service"], id="values were removed"),
        pytest.param(edited("Service", "train", spec=None), ["ensure Service"], id="all of it was removed"),
        pytest.param(
            edited("NetworkPolicy", "train", spec={**POLICY, "ingress": []}), ["ensure NetworkPolicy"], id="a rule"
        ),
        pytest.param(
            edited("NetworkPolicy", "train", spec={**POLICY, "ingress": "x"}), ["ensure NetworkPolicy"], id="no list"
        ),
        pytest.param(edited("Secret", "train-ssh", stringData={"config": "x"}), [], id="a Secret is never rewritten"),
    ],
)
def test_edits_are_undone(there: dict[tuple[str, str], Manifest], expected: list[str]) -> None:
    assert reconciled(plugins=PLUGINS, owned_objects=there) == expected


@pytest.mark.parametrize(
    ("phase", "claims", "expected"),
    [
        pytest.param("Pending", frozenset(), ["ensure PersistentVolumeClaim"], id="created"),
        pytest.param("Pending", None, [], id="exists"),
        pytest.param("Aborted", frozenset(), [], id="not wanted"),
    ],
)
def test_claims(phase: str, claims: frozenset[str] | None, expected: list[str]) -> None:
    names = frozenset(volcano_markers(a_state(job=WITH_CLAIM), ()).values())
    group: dict[str, Any] = {} if phase == "Pending" else {"group": None}
    assert reconciled(job=WITH_CLAIM, phase=phase, claims=names if claims is None else claims, **group) == expected


@pytest.mark.parametrize(
    ("phase", "ledger", "there", "expected"),
    [
        pytest.param("Running", Ledger(), False, ["ensure PodGroup"], id="created"),
        pytest.param("Running", Ledger(), True, [], id="exists"),
        pytest.param("Restarting", TARGETS, True, [], id="a targeted restart keeps it"),
        pytest.param("Restarting", TARGETS, False, ["ensure PodGroup"], id="a targeted restart creates it again"),
        pytest.param("Restarting", Ledger(), True, ["remove PodGroup"], id="a full kill"),
        pytest.param("Completed", Ledger(), True, ["remove PodGroup"], id="over"),
        pytest.param("Completed", Ledger(), False, [], id="over and gone"),
    ],
)
def test_the_group(phase: str, ledger: Ledger, there: bool, expected: list[str]) -> None:
    group: dict[str, Any] = {} if there else {"group": None}
    assert reconciled(phase=phase, ledger=ledger, **group) == expected
    assert reconciled(phase=phase, ledger=ledger, gang=NO_GANG, group=None) == []


@pytest.mark.parametrize(
    ("claims", "there", "expected"),
    [
        pytest.param(frozenset(), False, [], id="a gang that cannot start takes no place in its queue"),
        pytest.param(frozenset(("shared",)), False, ["ensure PodGroup"], id="the claim exists"),
        pytest.param(frozenset(), True, [], id="an existing group stays"),
    ],
)
def test_the_group_waits_for_claims_of_others(claims: frozenset[str], there: bool, expected: list[str]) -> None:
    job = a_two_worker_job(volumes=[VolumeSpec(mount_path="/d", volume_claim_name="shared")])
    group: dict[str, Any] = {} if there else {"group": None}
    assert reconciled(job=job, phase="Pending", claims=claims, **group) == expected


def test_the_group_is_corrected() -> None:
    assert reconciled(group=observed_group(a_two_worker_job(min_available=1))) == ["ensure PodGroup"]


def test_the_group_loses_its_priority_with_its_job() -> None:
    state = a_state(group=observed_group(a_two_worker_job(priority_class_name="high")))
    [command] = reconcile_owned_objects(state, ())
    assert isinstance(command, Ensure)
    assert manifest_of(command.owned)["spec"]["priorityClassName"] == ""
    assert reconciled(group=observed_group(a_two_worker_job(), priorityClassName="")) == []


@pytest.mark.parametrize("provider", [NATIVE, COSCHEDULING], ids=lambda provider: provider.name)
def test_groups_of_other_schedulers_are_corrected(provider: GangProvider) -> None:
    """There is one for each priority class with the native provider; each is looked at by itself."""
    job = a_job(a_task("a", 1, a_template(priorityClassName="high")), a_task("b", 1), min_available=2)
    groups = {group["metadata"]["name"]: group for group in pod_groups(job, provider)}
    assert named(job, provider, None) == [f"ensure {name}" for name in groups]
    assert named(job, provider, groups) == []
    for name, group in groups.items():
        others = {key: value for key, value in groups.items() if key != name}
        (field,) = {"minMember", "schedulingPolicy"} & set(group["spec"])
        for edited in ({**group, "metadata": {}}, {**group, "spec": {**group["spec"], field: None}}):
            assert named(job, provider, {**others, name: edited}) == [f"ensure {name}"]
        assert named(job, provider, {**others, name: {**group, "spec": {field: group["spec"][field]}}}) == []
    assert named(job, provider, groups, phase="Completed") == [f"remove {name}" for name in groups]


def named(job: Job, gang: GangProvider, there: dict[str, Manifest] | None, phase: str = "Running") -> list[str]:
    group = None if there is None else ObservedGroup(there, "Inqueue")
    found = []
    for command in reconcile_owned_objects(a_state(job=job, gang=gang, group=group, phase=phase), ()):
        if isinstance(command, Ensure):
            found.append(f"ensure {manifest_of(command.owned)['metadata']['name']}")
        elif isinstance(command, Remove):
            found.append(f"remove {command.name}")
    return found


def test_the_group_has_the_name_in_the_annotation_of_the_pods() -> None:
    commands = list(reconcile_owned_objects(a_state(phase="Completed"), ()))
    assert commands == [Remove("PodGroup", f"train-{UID}")]


def test_the_markers_of_volcano() -> None:
    (claim,) = volcano_markers(a_state(job=WITH_CLAIM), ()).values()
    known = {f"volume-pvc-{claim}": claim, "plugin-env": "env", "plugin-svc": "svc"}
    state = a_state(job=WITH_CLAIM, ledger=Ledger(others={"plugin-old": "old", "volume-pvc-old": "old"}))
    assert volcano_markers(state, (Env(), Svc())) == known
    assert volcano_markers(a_state(phase="Failed"), (Env(),)) == {}


def test_entries_of_other_programs_stay() -> None:
    assert volcano_markers(a_state(ledger=Ledger(others={"someone/else": "x"})), ()) == {"someone/else": "x"}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(a_state(a_pod()), ["SecretReplaced"], id="gone while pods run"),
        pytest.param(a_state(), [], id="no pod had it yet"),
        pytest.param(a_state(a_pod(), owned_objects=all_of(a_two_worker_job())), [], id="exists"),
        pytest.param(a_state(a_pod(), phase="Completed"), [], id="over"),
        pytest.param(
            a_state(a_pod(), failures=(Failure("NameTaken", "exists", "train-ssh"),)), [], id="reported already"
        ),
    ],
)
def test_a_secret_that_was_deleted(state: State, expected: list[str]) -> None:
    assert [event.reason for event in replaced_secrets(state, PLUGINS)] == expected

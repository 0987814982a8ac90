"""Objects beside the pods: put right when somebody removes or edits them, gone when nobody needs them; and claims."""

from __future__ import annotations

import pytest

from pumice.model.job import Manifest, VolumeSpec
from pumice.reconcile.decision import Ensure
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import Simulation

PLUGINS: dict[str, list[str]] = {"svc": ["--disable-network-policy=false"], "ssh": []}
NAMES = {"Service/train", "ConfigMap/train-svc", "Secret/train-ssh", "NetworkPolicy/train"}


def _keys(sim: Simulation) -> Manifest:
    data = sim.owned_objects["Secret/train-ssh"]["stringData"]
    return {name: value for name, value in data.items() if name != "config"}


@pytest.mark.parametrize("name", sorted(NAMES - {"Secret/train-ssh"}))
@pytest.mark.parametrize("running", [True, False])
def test_a_removed_object_is_recreated(name: str, running: bool) -> None:
    sim = Simulation(job(task("worker", 2), plugins=PLUGINS))
    if running:
        sim.run()
    before, pods = sim.owned_objects[name], sim.uids
    kind, _, called = name.partition("/")
    assert sim.lose(kind, called).owned_objects[name] == before
    assert sim.uids == pods
    assert sim.messages("SecretReplaced") == []


def test_a_secret_comes_back_with_new_keys_and_a_warning(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), plugins=PLUGINS)).run()
    keys, pods = _keys(sim), sim.uids
    sim.lose("Secret", "train-ssh")
    assert _keys(sim).keys() == keys.keys()
    assert not set(_keys(sim).values()) & set(keys.values())
    assert sim.messages("SecretReplaced") == [
        "Secret train-ssh was deleted and is created again with new keys; running pods keep the old ones"
    ]
    assert sim.uids == pods
    assert sim.phase == "Running"


@pytest.mark.parametrize("name", ["ConfigMap/train-svc", "Service/train", "NetworkPolicy/train"])
def test_an_edit_is_undone(name: str) -> None:
    sim = Simulation(job(task("worker", 2), plugins=PLUGINS)).run()
    before = sim.owned_objects[name]
    kind, _, called = name.partition("/")
    field = "data" if kind == "ConfigMap" else "spec"
    sim.edit(kind, called, lambda there: {**there, field: {**there[field], **dict.fromkeys(there[field], "other")}})
    assert sim.owned_objects[name] == before


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param({"id_rsa": "my own", "config": "my own"}, id="edited by somebody"),
        pytest.param({"config": "Host train-worker-0\n  HostName train-worker-0.train\n"}, id="of an older version"),
    ],
)
def test_a_secret_is_never_rewritten(entries: dict[str, str]) -> None:
    """Kubelet would empty its mount in running pods."""
    sim = Simulation(job(task("worker", 2), on("PodFailed", "RestartJob"), plugins=PLUGINS)).run()
    sim.edit("Secret", "train-ssh", lambda there: {**there, "stringData": {**there["stringData"], **entries}})
    edited = sim.owned_objects["Secret/train-ssh"]
    assert edited["stringData"].items() >= entries.items()
    sim.scale(worker=3).run()
    assert sim.owned_objects["Secret/train-ssh"] == edited
    sim.fail("worker-0").run()
    assert sim.owned_objects["Secret/train-ssh"] == edited
    assert sim.messages("SecretReplaced") == []


@pytest.mark.parametrize("action", ["RestartJob", "RestartTask", "RestartPod"])
def test_they_live_through_restarts_with_the_same_keys(simulate: Simulate, action: str) -> None:
    sim = simulate(job(task("worker", 2), on("PodFailed", action), plugins=PLUGINS)).run()
    before = sim.owned_objects
    sim.fail("worker-0")
    assert sim.owned_objects == before
    assert sim.let_go().run().owned_objects == before
    assert sum(isinstance(command, Ensure) for command in sim.engine.done) == 4 + (2 if action == "RestartJob" else 1)


@pytest.mark.parametrize(
    ("action", "end"),
    [("CompleteJob", "Completed"), ("TerminateJob", "Terminated"), ("AbortJob", "Aborted")],
)
def test_they_go_when_the_job_is_over_and_no_pod_is_alive(simulate: Simulate, action: str, end: str) -> None:
    sim = simulate(job(task("worker", 2), plugins=PLUGINS)).run().command(action)
    if sim.slow:
        assert set(sim.owned_objects) == NAMES
        sim.let_go("worker-0")
        assert set(sim.owned_objects) == NAMES
    sim.let_go()
    assert sim.phase == end
    # A job that was only suspended needs its keys again.
    assert set(sim.owned_objects) == (NAMES if end == "Aborted" else set())


def test_markers_name_the_owned_objects() -> None:
    """Tools of Volcano read them."""
    volumes = [VolumeSpec(mount_path="/data", volume_claim_name="data")]
    sim = Simulation(job(task("worker", 1), plugins=PLUGINS, volumes=volumes), claims=("data",)).run()
    noted = {key for key in sim.status.controlled_resources if not key.startswith("pumice/")}
    assert noted == {"plugin-svc", "plugin-ssh", "volume-pvc-data"}
    sim.succeed()
    noted = {key for key in sim.status.controlled_resources if not key.startswith("pumice/")}
    assert noted == {"volume-pvc-data"}


# --- claims


def test_a_claim_is_made_once_and_outlives_every_run(simulate: Simulate) -> None:
    claim_spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = VolumeSpec(mount_path="/data", volume_claim=claim_spec)
    sim = simulate(job(task("worker", 1), on("PodFailed", "RestartJob"), volumes=[volume]))
    (claim,) = sim.world.claims
    for _ in range(3):
        sim.run().fail("worker-0").let_go()
    assert sim.phase == "Failed"
    assert sim.world.claims == {claim}
    made = [one for one in sim.engine.done if isinstance(one, Ensure) and _kind(one) == "PersistentVolumeClaim"]
    assert len(made) == 1


def test_a_claim_of_another_owner_is_awaited(simulate: Simulate) -> None:
    """The job says what it waits for, and goes on when the claim appears; it is never terminated for it."""
    sim = simulate(job(task("worker", 2), volumes=[VolumeSpec(mount_path="/data", volume_claim_name="data")]))
    assert sim.pods == {}
    assert sim.phase == "Pending"
    assert sim.reason == ("ClaimMissing", "PersistentVolumeClaim data does not exist")
    sim.wait(100_000).restart_controller()
    assert sim.messages("PVCError") == ["PersistentVolumeClaim data does not exist"]
    assert sim.phases == ["Pending"]
    assert sim.add_claim("data").counts == {"pending": 2}
    assert sim.reason == ("", "")


def _kind(command: Ensure) -> str:
    manifest = command.owned
    return str(manifest["kind"]) if isinstance(manifest, dict) else "Secret"

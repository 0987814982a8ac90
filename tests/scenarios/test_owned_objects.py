"""Objects beside the pods: put right when somebody removes or edits them, gone when nobody needs them; and claims."""

from __future__ import annotations

import pytest

from pumice.model.job import Manifest, VolumeSpec
from pumice.reconcile.decision import Ensure
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import MakeStage
from tests.scenarios.stage import Stage

PLUGINS: dict[str, list[str]] = {"svc": ["--disable-network-policy=false"], "ssh": []}
NAMES = {"Service/train", "ConfigMap/train-svc", "Secret/train-ssh", "NetworkPolicy/train"}


def _keys(play: Stage) -> Manifest:
    data = play.owned_objects["Secret/train-ssh"]["stringData"]
    return {name: value for name, value in data.items() if name != "config"}


@pytest.mark.parametrize("name", sorted(NAMES - {"Secret/train-ssh"}))
@pytest.mark.parametrize("running", [True, False])
def test_a_removed_object_is_recreated(name: str, running: bool) -> None:
    play = Stage(job(task("worker", 2), plugins=PLUGINS))
    if running:
        play.run()
    before, pods = play.owned_objects[name], play.uids
    kind, _, called = name.partition("/")
    assert play.lose(kind, called).owned_objects[name] == before
    assert play.uids == pods
    assert play.messages("SecretReplaced") == []


def test_a_secret_comes_back_with_new_keys_and_a_warning(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), plugins=PLUGINS)).run()
    keys, pods = _keys(play), play.uids
    play.lose("Secret", "train-ssh")
    assert _keys(play).keys() == keys.keys()
    assert not set(_keys(play).values()) & set(keys.values())
    assert play.messages("SecretReplaced") == [
        "Secret train-ssh was deleted and is created again with new keys; running pods keep the old ones"
    ]
    assert play.uids == pods
    assert play.phase == "Running"


@pytest.mark.parametrize("name", ["ConfigMap/train-svc", "Service/train", "NetworkPolicy/train"])
def test_an_edit_is_undone(name: str) -> None:
    play = Stage(job(task("worker", 2), plugins=PLUGINS)).run()
    before = play.owned_objects[name]
    kind, _, called = name.partition("/")
    field = "data" if kind == "ConfigMap" else "spec"
    play.edit(kind, called, lambda there: {**there, field: {**there[field], **dict.fromkeys(there[field], "other")}})
    assert play.owned_objects[name] == before


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param({"id_rsa": "my own", "config": "my own"}, id="edited by somebody"),
        pytest.param({"config": "Host train-worker-0\n  HostName train-worker-0.train\n"}, id="of an older version"),
    ],
)
def test_a_secret_is_never_rewritten(entries: dict[str, str]) -> None:
    """Kubelet would empty its mount in running pods."""
    play = Stage(job(task("worker", 2), on("PodFailed", "RestartJob"), plugins=PLUGINS)).run()
    play.edit("Secret", "train-ssh", lambda there: {**there, "stringData": {**there["stringData"], **entries}})
    edited = play.owned_objects["Secret/train-ssh"]
    assert edited["stringData"].items() >= entries.items()
    play.scale(worker=3).run()
    assert play.owned_objects["Secret/train-ssh"] == edited
    play.fail("worker-0").run()
    assert play.owned_objects["Secret/train-ssh"] == edited
    assert play.messages("SecretReplaced") == []


@pytest.mark.parametrize("action", ["RestartJob", "RestartTask", "RestartPod"])
def test_they_live_through_restarts_with_the_same_keys(stage: MakeStage, action: str) -> None:
    play = stage(job(task("worker", 2), on("PodFailed", action), plugins=PLUGINS)).run()
    before = play.owned_objects
    play.fail("worker-0")
    assert play.owned_objects == before
    assert play.let_go().run().owned_objects == before
    assert sum(isinstance(command, Ensure) for command in play.engine.done) == 4 + (2 if action == "RestartJob" else 1)


@pytest.mark.parametrize(
    ("action", "end"),
    [("CompleteJob", "Completed"), ("TerminateJob", "Terminated"), ("AbortJob", "Aborted")],
)
def test_they_go_when_the_job_is_over_and_no_pod_is_alive(stage: MakeStage, action: str, end: str) -> None:
    play = stage(job(task("worker", 2), plugins=PLUGINS)).run().command(action)
    if play.slow:
        assert set(play.owned_objects) == NAMES
        play.let_go("worker-0")
        assert set(play.owned_objects) == NAMES
    play.let_go()
    assert play.phase == end
    # A job that was only suspended needs its keys again.
    assert set(play.owned_objects) == (NAMES if end == "Aborted" else set())


def test_markers_name_the_owned_objects() -> None:
    """Tools of Volcano read them."""
    volumes = [VolumeSpec(mount_path="/data", volume_claim_name="data")]
    play = Stage(job(task("worker", 1), plugins=PLUGINS, volumes=volumes), claims=("data",)).run()
    noted = {key for key in play.status.controlled_resources if not key.startswith("pumice/")}
    assert noted == {"plugin-svc", "plugin-ssh", "volume-pvc-data"}
    play.succeed()
    noted = {key for key in play.status.controlled_resources if not key.startswith("pumice/")}
    assert noted == {"volume-pvc-data"}


# --- claims


def test_a_claim_is_made_once_and_outlives_every_run(stage: MakeStage) -> None:
    claim_spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = VolumeSpec(mount_path="/data", volume_claim=claim_spec)
    play = stage(job(task("worker", 1), on("PodFailed", "RestartJob"), volumes=[volume]))
    (claim,) = play.world.claims
    for _ in range(3):
        play.run().fail("worker-0").let_go()
    assert play.phase == "Failed"
    assert play.world.claims == {claim}
    made = [one for one in play.engine.done if isinstance(one, Ensure) and _kind(one) == "PersistentVolumeClaim"]
    assert len(made) == 1


def test_a_claim_of_another_owner_is_awaited(stage: MakeStage) -> None:
    """The job says what it waits for, and goes on when the claim appears; it is never terminated for it."""
    play = stage(job(task("worker", 2), volumes=[VolumeSpec(mount_path="/data", volume_claim_name="data")]))
    assert play.pods == {}
    assert play.phase == "Pending"
    assert play.reason == ("ClaimMissing", "waits for PersistentVolumeClaim data")
    play.wait(100_000).restart_controller()
    assert play.messages("PVCError") == ["waits for PersistentVolumeClaim data"]
    assert play.phases == ["Pending"]
    assert play.add_claim("data").counts == {"pending": 2}
    assert play.reason == ("", "")


def _kind(command: Ensure) -> str:
    manifest = command.owned
    return str(manifest["kind"]) if isinstance(manifest, dict) else "Secret"

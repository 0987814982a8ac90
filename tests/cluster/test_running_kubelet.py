"""The kubelet that runs pods for real does what a kubelet does: grace, restarts, exit codes, files from the API."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pumice.engines.local.state.settings import Settings
from tests.cluster.api import Api, Object, eventually
from tests.cluster.controllers import Controllers
from tests.cluster.jobs import a_job, until_phase
from tests.cluster.running_kubelet import RunningKubelet


@dataclass(frozen=True, slots=True)
class Stage:
    api: Api
    namespace: str
    kubelet: RunningKubelet

    def begin(self, script: str, restart: str = "Never", spec: Object | None = None, **container: object) -> None:
        job = a_job(replicas=1, **(spec or {}))
        pod = job["spec"]["tasks"][0]["template"]["spec"]
        pod["restartPolicy"] = restart
        pod["containers"][0] |= {"command": ["sh", "-c", script], **container}
        pod["volumes"] = [{"name": "files", "configMap": {"name": "files"}}]
        self.api.create("Job", self.namespace, job)

    def pod(self) -> Object:
        return self.api.get("Pod", self.namespace, "train-worker-0")

    def until_said(self, line: str) -> None:
        def said() -> bool:
            assert line in self.kubelet.lines("worker-0"), self.kubelet.said
            return True

        eventually(f"it says {line}", said)


@pytest.fixture
def stage(controllers: Controllers, api: Api, namespace: str, tmp_path: Path) -> Iterator[Stage]:
    settings = Settings(workdir=tmp_path / "work", state=tmp_path / "state")
    settings.workdir.mkdir()
    api.create("ConfigMap", namespace, {"metadata": {"name": "files"}, "data": {"greeting": "hello"}})
    with RunningKubelet(controllers.cluster, namespace, settings) as kubelet:
        controllers.start(namespace)
        yield Stage(api, namespace, kubelet)


def test_a_pod_that_is_told_to_end_may_end_well(stage: Stage) -> None:
    stage.begin("trap 'echo ending; exit 0' TERM; echo up; while :; do sleep 0.1; done")
    stage.until_said("up")
    until_phase(stage.api, stage.namespace, "Running")
    assert stage.pod()["status"]["podIP"].startswith("10.77.")
    stage.api.delete("Pod", stage.namespace, "train-worker-0", {"gracePeriodSeconds": 20})
    stage.until_said("ending")


def test_a_pod_that_does_not_listen_is_killed_when_its_grace_is_over(stage: Stage) -> None:
    stage.begin("trap '' TERM; echo up; while :; do sleep 0.1; done")
    stage.until_said("up")
    uid = stage.pod()["metadata"]["uid"]
    stage.api.delete("Pod", stage.namespace, "train-worker-0", {"gracePeriodSeconds": 1})

    def gone() -> bool:
        found = stage.api.find("Pod", stage.namespace, "train-worker-0")
        return found is None or found["metadata"]["uid"] != uid

    eventually("it is gone", gone)


def test_a_container_is_started_again_as_its_pod_says(stage: Stage) -> None:
    # What it writes outside of volumes is new each time, so it counts in the directory of the host that all see.
    work = stage.kubelet._settings.workdir
    stage.begin(f"echo x >> {work}/tries; test $(wc -l < {work}/tries) = 2 || exit 3", restart="OnFailure")
    until_phase(stage.api, stage.namespace, "Completed")
    [container] = stage.pod()["status"]["containerStatuses"]
    assert container["restartCount"] == 1
    assert container["state"]["terminated"]["exitCode"] == 0


def test_a_failed_container_fails_its_job_with_its_code(stage: Stage) -> None:
    stage.begin("echo no >&2; exit 42")
    ended = until_phase(stage.api, stage.namespace, "Failed")
    assert ended["state"]["message"] == "worker-0 failed first: exit code 42 in container main"
    assert stage.kubelet.lines("worker-0") == ["no"]


def test_config_maps_secrets_and_claims_are_there(stage: Stage) -> None:
    secret = {"metadata": {"name": "word"}, "data": {"WORD": base64.b64encode(b"sesame").decode()}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    stage.begin(
        "cat /files/greeting; echo; echo $WORD; touch /data/kept; echo $HOSTNAME",
        spec={"volumes": [{"mountPath": "/data", "volumeClaim": claim}]},
        volumeMounts=[{"name": "files", "mountPath": "/files"}],
        envFrom=[{"secretRef": {"name": "word"}}],
    )
    # It waits for the Secret, as on any node.
    eventually(
        "it is bound", lambda: any(pod["spec"].get("nodeName") for pod in stage.api.list("Pod", stage.namespace))
    )
    assert stage.kubelet.said == []
    stage.api.create("Secret", stage.namespace, secret)
    until_phase(stage.api, stage.namespace, "Completed")
    assert stage.kubelet.lines("worker-0") == ["hello", "sesame", "train-worker-0"]
    assert [path.name for path in (stage.kubelet._settings.state / "claims").rglob("kept")] == ["kept"]


def test_a_killed_process_restarts_the_job(stage: Stage) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    stage.begin("echo up; exec sleep 600", spec={"policies": policies})
    stage.until_said("up")
    stage.kubelet.kill("train-worker-0")
    eventually("it runs again", lambda: stage.kubelet.lines("worker-0") == ["up", "up"])
    again = until_phase(stage.api, stage.namespace, "Running")
    assert again["retryCount"] == 1

"""The kubelet with real processes behaves like a kubelet: grace period, restarts, exit codes, files from the API."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pumice.store.settings import Settings
from tests.cluster.api import Api, Object, eventually
from tests.cluster.controllers import Controllers
from tests.cluster.jobs import a_job, until_phase
from tests.cluster.sandbox_kubelet import SandboxKubelet
from tests.patience import PATIENCE


@dataclass(frozen=True, slots=True)
class Harness:
    api: Api
    namespace: str
    kubelet: SandboxKubelet

    def begin(
        self,
        script: str,
        restart: str = "Never",
        spec: Object | None = None,
        volumes: list[Object] | None = None,
        **container: object,
    ) -> None:
        job = a_job(replicas=1, **(spec or {}))
        pod = job["spec"]["tasks"][0]["template"]["spec"]
        pod["restartPolicy"] = restart
        pod["containers"][0] |= {"command": ["sh", "-c", script], **container}
        pod["volumes"] = volumes or [{"name": "files", "configMap": {"name": "files"}}]
        self.api.create("Job", self.namespace, job)

    def pod(self) -> Object:
        return self.api.get("Pod", self.namespace, "train-worker-0")

    def wait_for_line(self, line: str) -> None:
        def is_logged() -> bool:
            assert line in self.kubelet.lines("worker-0"), self.kubelet.log_lines
            return True

        eventually(f"the pod prints {line}", is_logged)


@pytest.fixture
def harness(controllers: Controllers, api: Api, namespace: str, tmp_path: Path) -> Iterator[Harness]:
    settings = Settings(workdir=tmp_path / "work", state=tmp_path / "state")
    settings.workdir.mkdir()
    api.create("ConfigMap", namespace, {"metadata": {"name": "files"}, "data": {"greeting": "hello"}})
    with SandboxKubelet(controllers.cluster, namespace, settings) as kubelet:
        controllers.start(namespace)
        yield Harness(api, namespace, kubelet)


def test_a_deleted_pod_can_end_in_its_grace_period(harness: Harness) -> None:
    harness.begin("trap 'echo ending; exit 0' TERM; echo up; while :; do sleep 0.1; done")
    harness.wait_for_line("up")
    until_phase(harness.api, harness.namespace, "Running")
    assert harness.pod()["status"]["podIP"].startswith("10.77.")
    harness.api.delete("Pod", harness.namespace, "train-worker-0", {"gracePeriodSeconds": 20})
    harness.wait_for_line("ending")


def test_a_failed_container_is_restarted_by_its_restart_policy(harness: Harness) -> None:
    # It counts in a directory of the host: its own file system is new after each restart.
    work = harness.kubelet._settings.workdir
    harness.begin(f"echo x >> {work}/tries; test $(wc -l < {work}/tries) = 2 || exit 3", restart="OnFailure")
    until_phase(harness.api, harness.namespace, "Completed")
    [container] = harness.pod()["status"]["containerStatuses"]
    assert container["restartCount"] == 1
    assert container["state"]["terminated"]["exitCode"] == 0


def test_a_failed_container_fails_its_job_with_its_exit_code(harness: Harness) -> None:
    harness.begin("echo no >&2; exit 42")
    ended = until_phase(harness.api, harness.namespace, "Failed")
    assert ended["state"]["message"] == "worker-0 failed first: exit code 42 in container main"
    assert harness.kubelet.lines("worker-0") == ["no"]


def test_config_maps_secrets_and_claims_are_available(harness: Harness) -> None:
    secret = {"metadata": {"name": "word"}, "data": {"WORD": base64.b64encode(b"sesame").decode()}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    harness.begin(
        "cat /files/greeting; echo; echo $WORD; touch /data/kept; echo $HOSTNAME",
        spec={"volumes": [{"mountPath": "/data", "volumeClaim": claim}]},
        volumeMounts=[{"name": "files", "mountPath": "/files"}],
        envFrom=[{"secretRef": {"name": "word"}}],
    )
    # It waits for the Secret.
    eventually(
        "the pod is bound",
        lambda: any(pod["spec"].get("nodeName") for pod in harness.api.list("Pod", harness.namespace)),
    )
    assert harness.kubelet.log_lines == []
    harness.api.create("Secret", harness.namespace, secret)
    until_phase(harness.api, harness.namespace, "Completed")
    assert harness.kubelet.lines("worker-0") == ["hello", "sesame", "train-worker-0"]
    assert [path.name for path in (harness.kubelet._settings.state / "claims").rglob("kept")] == ["kept"]


SHOW_FILES = """
until test -e /whole/more && test -z "$(ls -A /part)"; do sleep 0.1; done
cat /whole/greeting; echo; ls -A /part | wc -l; cat /one
"""


def test_a_changed_object_follows_only_in_whole_mounts(harness: Harness) -> None:
    """Kubelet's atomic writer: a directory that is mounted by subPath goes away, a file stays as it was."""
    config = {"metadata": {"name": "files"}, "data": {"greeting": "hello"}}
    items = [{"key": "greeting", "path": "greeting"}, {"key": "greeting", "path": "part/greeting"}]
    volumes = [{"name": "files", "configMap": {"name": "files"}}]
    volumes += [{"name": "parts", "configMap": {"name": "files", "items": items}}]
    mounts = [
        {"name": "files", "mountPath": "/whole"},
        {"name": "parts", "mountPath": "/part", "subPath": "part"},
        {"name": "parts", "mountPath": "/one", "subPath": "greeting"},
    ]
    harness.begin(f"ls -A /part | wc -l; {SHOW_FILES}", volumes=volumes, volumeMounts=mounts)
    harness.wait_for_line("1")
    config["data"] = {"greeting": "changed", "more": "x"}
    harness.api.patch("ConfigMap", harness.namespace, "files", config)
    until_phase(harness.api, harness.namespace, "Completed")
    assert harness.kubelet.lines("worker-0") == ["1", "changed", "0", "hello"]


def test_scaling_takes_no_ssh_keys_away(harness: Harness) -> None:
    """The Secret is mounted by subPath: pods that run would lose their keys if it changed."""
    script = """
    echo up; until test "$(grep -c . /etc/volcano/worker.host)" = 2; do sleep 0.1; done
    # The ConfigMap has changed, and the kubelet has looked at the Secret, too.
    ls /root/.ssh; exec sleep 600
    """
    harness.begin(script, spec={"plugins": {"svc": [], "ssh": []}})
    harness.wait_for_line("up")
    [task] = harness.api.get("Job", harness.namespace, "train")["spec"]["tasks"]
    harness.api.patch("Job", harness.namespace, "train", {"spec": {"tasks": [{**task, "replicas": 2}]}})
    harness.wait_for_line("id_rsa.pub")
    assert harness.kubelet.lines("worker-0") == ["up", "authorized_keys", "config", "id_rsa", "id_rsa.pub"]


def test_containers_end_before_their_pod(harness: Harness) -> None:
    harness.kubelet.phase_lag = 600
    harness.begin("exit 0")
    eventually("the pod exists", lambda: harness.api.list("Pod", harness.namespace))

    def has_ended() -> bool:
        [pod] = harness.api.list("Pod", harness.namespace)
        [container] = pod["status"].get("containerStatuses") or [{"state": {}}]
        return "terminated" in container["state"]

    eventually("the container has ended", has_ended)
    assert harness.pod()["status"]["phase"] == "Running"
    assert harness.api.get("Job", harness.namespace, "train")["status"].get("succeeded", 0) == 0


def test_a_killed_process_restarts_the_job(harness: Harness) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    harness.begin("echo up; exec sleep 600", spec={"policies": policies})
    harness.wait_for_line("up")
    harness.kubelet.kill("train-worker-0")
    eventually("the pod runs again", lambda: harness.kubelet.lines("worker-0") == ["up", "up"])
    again = until_phase(harness.api, harness.namespace, "Running")
    assert again["retryCount"] == 1


def test_no_older_status_overtakes_a_newer_one(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server refuses a container that was terminated and no longer is."""
    write = harness.kubelet.write
    held, released = threading.Event(), threading.Event()
    written = []

    async def write_late(pod: Object, status: Object) -> None:
        [state] = status["containerStatuses"][0]["state"]
        if state == "running" and not released.is_set():
            held.set()
            await asyncio.to_thread(released.wait)
        written.append(state)
        await write(pod, status)

    monkeypatch.setattr(harness.kubelet, "write", write_late)
    harness.begin("exec sleep 600")
    assert held.wait(PATIENCE)
    [run] = harness.kubelet._runs.values()
    harness.api.delete("Pod", harness.namespace, "train-worker-0", {"gracePeriodSeconds": 1})
    eventually("its processes have ended", run.finished.is_set)
    released.set()
    eventually("both are written", lambda: {"running", "terminated"} <= {*written})
    assert "running" not in written[written.index("terminated") :]

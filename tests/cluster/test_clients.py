"""Changes to a Job by other clients: Commands, a status written by TorchX, changes of the spec, TTL."""

from __future__ import annotations

from tests.cluster.api import Api, Object, eventually, path_of
from tests.cluster.controllers import Controllers
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.jobs import a_job, reasons, send_command, status, until_phase


def live_pods(api: Api, namespace: str) -> list[Object]:
    return [pod for pod in api.list("Pod", namespace) if not pod["metadata"].get("deletionTimestamp")]


def test_commands_are_executed_once(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        controllers.start(namespace)
        api.create("Job", namespace, a_job())
        first = until_phase(api, namespace, "Running")
        send_command(api, namespace, "AbortJob")
        until_phase(api, namespace, "Aborted")
        eventually("the Command is removed", lambda: api.list("Command", namespace) == [])
        assert live_pods(api, namespace) == []
        send_command(api, namespace, "ResumeJob")
        resumed = until_phase(api, namespace, "Running")
        eventually("the Command is removed", lambda: api.list("Command", namespace) == [])
        assert resumed["version"] == first.get("version", 0) + 2
        assert resumed.get("retryCount", 0) == 0
        eventually("both have an event", lambda: reasons(api, namespace).count("CommandIssued") == 2)


def test_a_command_for_an_earlier_job_is_removed_and_ignored(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        controllers.run_job(namespace, a_job())
        send_command(api, namespace, "TerminateJob", uid="4b6a8a1e-0000-4000-8000-000000000000")
        eventually("the Command is removed", lambda: api.list("Command", namespace) == [])
        eventually("there is an event", lambda: "CommandIgnored" in reasons(api, namespace))
        assert status(api, namespace)["state"]["phase"] == "Running"


def test_torchx_cancels_by_writing_the_status(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        controllers.run_job(namespace, a_job())

        def cancelled() -> bool:
            job = api.get("Job", namespace, "train")
            job["status"]["state"]["phase"] = "Aborted"
            return api.ask("PUT", path_of("Job", namespace, "train", "status"), job).status == 200

        eventually("the write is accepted", cancelled)
        eventually("its pods are gone", lambda: live_pods(api, namespace) == [])
        assert until_phase(api, namespace, "Aborted")["state"]["phase"] == "Aborted"
        assert api.get("Job", namespace, "train")["metadata"]["name"] == "train"


def test_a_suspended_job_starts_when_it_is_resumed(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        controllers.start(namespace)
        api.create("Job", namespace, a_job(suspend=True))
        suspended = until_phase(api, namespace, "Aborted")
        assert suspended["state"]["reason"] == "Suspended"
        assert api.list("Pod", namespace) == []
        api.patch("Job", namespace, "train", {"spec": {"suspend": False}})
        until_phase(api, namespace, "Running")


def test_scaling_creates_and_deletes_pods(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        job = controllers.run_job(namespace, a_job(minAvailable=1, plugins={"svc": []}))

        def scale(replicas: int) -> None:
            tasks = [{**job["spec"]["tasks"][0], "replicas": replicas}]
            api.patch("Job", namespace, "train", {"spec": {"tasks": tasks}})
            eventually(f"{replicas} pods", lambda: len(live_pods(api, namespace)) == replicas)
            eventually("all run", lambda: status(api, namespace).get("running") == replicas)
            eventually("the host list follows", lambda: len(hosts()) == replicas)

        def hosts() -> list[str]:
            text: str = api.get("ConfigMap", namespace, "train-svc")["data"]["worker.host"]
            return text.split()

        scale(4)
        scale(1)
        assert status(api, namespace).get("retryCount", 0) == 0


def test_a_finished_job_is_deleted_after_its_ttl(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        controllers.run_job(namespace, a_job(replicas=1, ttlSecondsAfterFinished=1))
        kubelet.finish("train-worker-0")
        eventually("the job is gone", lambda: api.find("Job", namespace, "train") is None)
        eventually("its pods are gone", lambda: api.list("Pod", namespace) == [])

"""Careless or hostile changes to an existing job: other jobs are not affected, and nothing causes a hot loop."""

from __future__ import annotations

import re
import time
from functools import partial

from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers, page
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.jobs import a_job, reasons, send_command, state, status, until_phase
from tests.cluster.processes import Daemon, peak_memory
from tests.cluster.webhooks import Webhooks, dry_run, wait_until_called

LEDGER = {
    "pumice/spent": "x",
    "pumice/void": "9" * 5000,
    "pumice/generation": "-3",
    "pumice/restart": "targets@999999",
    "pumice/target/worker": "0-1",
    "pumice/seen/worker": "0-999999999",
    "pumice/evicted/worker-x": "no",
    "pumice/evicted/worker-1": "2999-01-01T00:00:00Z",
    "pumice/first-running": "never",
    "pumice/": "",
    "big": "x" * 200_000,
}
BROKEN: dict[str, Object] = {
    "malformed ledger": {"controlledResources": LEDGER},
    "wrong numbers": {"version": 2**31 - 1, "retryCount": 2**31 - 1, "running": 77},
    "unknown conditions": {"conditions": [{"status": "Odd"}] * 50},
    "time in the future": {"state": {"lastTransitionTime": "2999-01-01T00:00:00Z", "message": "m" * 100_000}},
    "nulls": {"state": None, "controlledResources": None},
}


def test_a_broken_status_is_repaired(controllers: Controllers, api: Api, namespace: str) -> None:
    names = {f"train-{number}": broken for number, broken in enumerate(BROKEN.values())}
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        controllers.start(namespace)
        policies = [{"event": "PodFailed", "action": "RestartJob"}]
        for name in (*names, "other"):
            api.create("Job", namespace, a_job(name, policies=policies))
        for name in (*names, "other"):
            until_phase(api, namespace, "Running", name)
        for name, broken in names.items():
            api.patch("Job", namespace, name, {"status": broken}, "status")
        for name in names:
            _is_repaired_and_completes(kubelet, api, namespace, name)
        assert status(api, namespace, "other")["running"] == 2
        assert status(api, namespace, "other").get("version", 0) == 0


def _is_repaired_and_completes(kubelet: FakeKubelet, api: Api, namespace: str, job: str) -> None:
    def is_repaired() -> bool:
        found = status(api, namespace, job)
        ledger: Object = found.get("controlledResources", {})
        return found.get("running") == 2 and ledger.get("pumice/seen/worker") == "0-1"

    eventually(f"the status of {job} is repaired", is_repaired)
    # The job then restarts and completes as usual.
    kubelet.finish(f"{job}-worker-0", 1)
    eventually(f"{job} restarts", lambda: status(api, namespace, job).get("retryCount") == 1)
    eventually(f"all of {job} run again", lambda: status(api, namespace, job).get("running") == 2)
    assert status(api, namespace, job)["version"] == 1
    for index in range(2):
        kubelet.finish(f"{job}-worker-{index}")
    until_phase(api, namespace, "Completed", job)


def test_name_conflicts_are_reported_once_and_the_other_objects_are_created(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    container = {"name": "main", "image": "busybox"}
    foreign: list[tuple[str, Object]] = [
        ("Pod", {"metadata": {"name": "train-worker-0"}, "spec": {"containers": [container]}}),
        ("Service", {"metadata": {"name": "train"}, "spec": {"ports": [{"port": 80}]}}),
        ("ConfigMap", {"metadata": {"name": "train-svc"}, "data": {"a": "b"}}),
        ("Secret", {"metadata": {"name": "train-ssh"}, "stringData": {"a": "b"}}),
    ]
    with FakeKubelet(controllers.cluster, namespace):
        for kind, manifest in foreign:
            api.create(kind, namespace, manifest)
        controllers.start(namespace)
        api.create("Job", namespace, a_job(plugins={"svc": [], "ssh": []}))
        eventually("the status says NameTaken", lambda: state(api, namespace).get("reason") == "NameTaken")
        eventually("the other pod runs", lambda: status(api, namespace).get("running") == 1)
        for kind, manifest in foreign:
            assert "ownerReferences" not in api.get(kind, namespace, manifest["metadata"]["name"])["metadata"]
        for kind, manifest in foreign:
            options = {"gracePeriodSeconds": 0} if kind == "Pod" else None
            api.delete(kind, namespace, manifest["metadata"]["name"], options)
        until_phase(api, namespace, "Running")
        eventually("the message is gone", lambda: state(api, namespace).get("message", "") == "")
        for kind, manifest in foreign:
            assert "ownerReferences" in api.get(kind, namespace, manifest["metadata"]["name"])["metadata"]
        assert "SecretReplaced" not in reasons(api, namespace)
        assert reasons(api, namespace).count("NameTaken") <= 4


def test_a_pod_without_its_label_is_reported_and_counts_again_with_it(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        controllers.run_job(namespace, a_job())
        label = api.get("Pod", namespace, "train-worker-0")["metadata"]["labels"]["volcano.sh/job-name"]
        api.patch("Pod", namespace, "train-worker-0", {"metadata": {"labels": {"volcano.sh/job-name": None}}})
        eventually("the status names the pod", lambda: "lost its label" in state(api, namespace).get("message", ""))
        api.patch("Pod", namespace, "train-worker-0", {"metadata": {"labels": {"volcano.sh/job-name": label}}})
        eventually("the pod counts again", lambda: status(api, namespace).get("running") == 2)
        eventually("the message is gone", lambda: state(api, namespace).get("message", "") == "")
        assert kubelet.created == 2


def test_a_command_with_a_foreign_finalizer_is_executed_once(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        first = controllers.start(namespace)
        api.create("Job", namespace, a_job())
        until_phase(api, namespace, "Running")
        send_command(api, namespace, "RestartJob", name="kept", finalizers=["example.com/keep"])
        eventually(
            "the Command is executed", lambda: "deletionTimestamp" in api.get("Command", namespace, "kept")["metadata"]
        )
        eventually("it runs again", lambda: status(api, namespace).get("running") == 2)
        # The second controller has no memory of the Command.
        first.stop()
        controllers.start(namespace)
        api.create("Job", namespace, a_job("next"))
        until_phase(api, namespace, "Running", "next")
        assert status(api, namespace)["version"] == 1
        api.patch("Command", namespace, "kept", {"metadata": {"finalizers": None}})


def test_an_unknown_command_is_deleted_with_an_event(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        controllers.run_job(namespace, a_job())
        for action in ("Dance", "x" * 50_000, ""):
            send_command(api, namespace, action)
        eventually("they are gone", lambda: not api.list("Command", namespace))
        eventually("there are events", lambda: reasons(api, namespace).count("CommandIgnored") == 3)
        assert status(api, namespace).get("version", 0) == 0
        assert status(api, namespace)["running"] == 2


def test_pods_beyond_a_quota_are_retried_with_backoff(controllers: Controllers, api: Api, namespace: str) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "3"}}}
    api.call("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    with FakeKubelet(controllers.cluster, namespace):
        controller = controllers.start(namespace, "--listen=127.0.0.1:0")
        api.create("Job", namespace, a_job(replicas=100))
        eventually("the status says so", lambda: "ResourceQuota " in state(api, namespace).get("message", ""))
        eventually("what fits runs", lambda: status(api, namespace).get("running") == 3)
        began, before = time.monotonic(), passes(controller)
        time.sleep(5)
        # A hot loop would make hundreds of passes per second.
        assert passes(controller) - before < 5 * (time.monotonic() - began)
        assert reasons(api, namespace).count("FailedCreate") <= 3
        api.call("DELETE", f"/api/v1/namespaces/{namespace}/resourcequotas/few")
        until_phase(api, namespace, "Running")


def test_jobs_are_deleted_with_their_namespace(
    garbage_collected: Cluster, controllers: Controllers, api: Api, namespace: str
) -> None:
    ending = f"{namespace[:40]}-x"
    garbage_collected.make_namespace(ending)
    with FakeKubelet(controllers.cluster, ending):
        controller = controllers.start(ending)
        policies = [{"event": "PodEvicted", "action": "RestartJob"}]
        for number in range(5):
            api.create("Job", ending, a_job(f"j{number}", plugins={"svc": [], "ssh": []}, policies=policies))
        for number in range(5):
            until_phase(api, ending, "Running", f"j{number}")
        api.delete("Namespace", "", ending)
        eventually("it is gone", lambda: api.find("Namespace", "", ending) is None)
    assert len(controller.log.read_text().splitlines()) < 30


def _large_job(name: str) -> Object:
    """82 kB, which mount 240,000 volumes: rendered, it took 150 MB."""
    job = a_job(name, volumes=[{"mountPath": f"/m{i}", "volumeClaimName": f"c{i}"} for i in range(600)])
    (task,) = job["spec"]["tasks"]
    job["spec"]["tasks"] = [{**task, "name": f"t{number}", "replicas": 1} for number in range(400)]
    return job


def test_the_webhook_refuses_jobs_that_would_exhaust_the_controller(
    webhooks: Webhooks, api: Api, namespace: str
) -> None:
    webhook = webhooks.start_outside()
    wait_until_called(webhooks.cluster, namespace, a_job("bad", plugins={"pytorhc": []}))
    for number in range(4):
        answer = dry_run(webhooks.cluster, namespace, _large_job(f"large-{number}"))
        assert answer.status == 422
        assert "400 containers x 600 volumes are 240000 mounts" in answer.body["message"]
    assert peak_memory(webhook) < 200


def test_stored_jobs_do_not_exhaust_the_controller(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        for number in range(4):
            api.create("Job", namespace, _large_job(f"large-{number}"))
        controller = controllers.start(namespace)
        for number in range(4):
            is_invalid = partial(_is_invalid, api, namespace, f"large-{number}")
            eventually(f"the status of large-{number} says InvalidJob", is_invalid)
        api.create("Job", namespace, a_job("other"))
        until_phase(api, namespace, "Running", "other")
        assert peak_memory(controller) < 200


def _is_invalid(api: Api, namespace: str, name: str) -> bool:
    return bool(state(api, namespace, name).get("reason") == "InvalidJob")


def passes(controller: Daemon) -> float:
    """Return the number of passes over jobs."""
    found = re.search(r"^pumice_passes_total (\S+)$", page(controller, "/metrics"), re.MULTILINE)
    assert found is not None
    return float(found[1])

"""What clumsy or hostile users do to a job that is there: nobody else is harmed, nothing is tried in a hot loop."""

from __future__ import annotations

import re
import time
import urllib.request

import pytest

from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers
from tests.cluster.jobs import a_job, reasons, state, status, until_phase
from tests.cluster.played_kubelet import PlayedKubelet
from tests.cluster.processes import Daemon

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
NONSENSE: dict[str, Object] = {
    "a ledger": {"controlledResources": LEDGER},
    "numbers": {"version": 2**31 - 1, "retryCount": 2**31 - 1, "running": 77},
    "conditions": {"conditions": [{"status": "Odd"}] * 50},
    "a moment to come": {"state": {"lastTransitionTime": "2999-01-01T00:00:00Z", "message": "m" * 100_000}},
    "nothing": {"state": None, "controlledResources": None},
}


@pytest.mark.parametrize("nonsense", [pytest.param(part, id=what) for what, part in NONSENSE.items()])
def test_nonsense_in_a_status_is_put_right(
    controllers: Controllers, api: Api, namespace: str, nonsense: Object
) -> None:
    with PlayedKubelet(controllers.cluster, namespace) as kubelet:
        controllers.start(namespace)
        policies = [{"event": "PodFailed", "action": "RestartJob"}]
        for name in ("train", "other"):
            api.create("Job", namespace, a_job(name, policies=policies))
            until_phase(api, namespace, "Running", name)
        api.patch("Job", namespace, "train", {"status": nonsense}, "status")

        def is_right() -> bool:
            found = status(api, namespace)
            ledger: Object = found.get("controlledResources", {})
            return found.get("running") == 2 and ledger.get("pumice/seen/worker") == "0-1"

        eventually("it is as it was", is_right)
        # What follows is served as ever: here a restart, and the end.
        kubelet.finish("train-worker-0", 1)
        eventually("it restarts", lambda: status(api, namespace).get("retryCount") == 1)
        eventually("all run again", lambda: status(api, namespace).get("running") == 2)
        assert status(api, namespace)["version"] == 1
        for name in ("train-worker-0", "train-worker-1"):
            kubelet.finish(name)
        until_phase(api, namespace, "Completed")
        assert status(api, namespace, "other")["running"] == 2
        assert status(api, namespace, "other").get("version", 0) == 0


def test_names_that_are_taken_are_told_once_and_what_is_free_is_made(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    container = {"name": "main", "image": "busybox"}
    strangers: list[tuple[str, Object]] = [
        ("Pod", {"metadata": {"name": "train-worker-0"}, "spec": {"containers": [container]}}),
        ("Service", {"metadata": {"name": "train"}, "spec": {"ports": [{"port": 80}]}}),
        ("ConfigMap", {"metadata": {"name": "train-svc"}, "data": {"a": "b"}}),
        ("Secret", {"metadata": {"name": "train-ssh"}, "stringData": {"a": "b"}}),
    ]
    with PlayedKubelet(controllers.cluster, namespace):
        for kind, manifest in strangers:
            api.create(kind, namespace, manifest)
        controllers.start(namespace)
        api.create("Job", namespace, a_job(plugins={"svc": [], "ssh": []}))
        eventually("it is told", lambda: state(api, namespace).get("reason") == "NameTaken")
        eventually("the other pod runs", lambda: status(api, namespace).get("running") == 1)
        for kind, manifest in strangers:
            assert "ownerReferences" not in api.get(kind, namespace, manifest["metadata"]["name"])["metadata"]
        for kind, manifest in strangers:
            options = {"gracePeriodSeconds": 0} if kind == "Pod" else None
            api.delete(kind, namespace, manifest["metadata"]["name"], options)
        until_phase(api, namespace, "Running")
        eventually("the job wants for nothing", lambda: state(api, namespace).get("message", "") == "")
        for kind, manifest in strangers:
            assert "ownerReferences" in api.get(kind, namespace, manifest["metadata"]["name"])["metadata"]
        assert "SecretReplaced" not in reasons(api, namespace)
        assert reasons(api, namespace).count("NameTaken") <= 4


def test_a_pod_that_lost_its_label_is_told_of_and_found_again(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with PlayedKubelet(controllers.cluster, namespace) as kubelet:
        controllers.start(namespace)
        api.create("Job", namespace, a_job())
        until_phase(api, namespace, "Running")
        label = api.get("Pod", namespace, "train-worker-0")["metadata"]["labels"]["volcano.sh/job-name"]
        api.patch("Pod", namespace, "train-worker-0", {"metadata": {"labels": {"volcano.sh/job-name": None}}})
        eventually("it is told", lambda: "lost its label" in state(api, namespace).get("message", ""))
        api.patch("Pod", namespace, "train-worker-0", {"metadata": {"labels": {"volcano.sh/job-name": label}}})
        eventually("it is found", lambda: status(api, namespace).get("running") == 2)
        eventually("the job wants for nothing", lambda: state(api, namespace).get("message", "") == "")
        assert kubelet.created == 2


def _command(api: Api, namespace: str, name: str, action: str, **metadata: object) -> None:
    uid = api.get("Job", namespace, "train")["metadata"]["uid"]
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": uid}
    command = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "action": action, "target": target}
    api.create("Command", namespace, {**command, "metadata": {"name": name, **metadata}})


def test_a_command_that_somebody_s_finalizer_keeps_is_obeyed_once(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with PlayedKubelet(controllers.cluster, namespace):
        first = controllers.start(namespace)
        api.create("Job", namespace, a_job())
        until_phase(api, namespace, "Running")
        _command(api, namespace, "kept", "RestartJob", finalizers=["example.com/keep"])
        eventually("it was obeyed", lambda: "deletionTimestamp" in api.get("Command", namespace, "kept")["metadata"])
        eventually("it runs again", lambda: status(api, namespace).get("running") == 2)
        # The next one knows nothing of what the first has seen.
        first.stop()
        controllers.start(namespace)
        api.create("Job", namespace, a_job("next"))
        until_phase(api, namespace, "Running", "next")
        assert status(api, namespace)["version"] == 1
        api.patch("Command", namespace, "kept", {"metadata": {"finalizers": None}})


def test_a_command_that_asks_for_nothing_we_know_is_removed_and_told_of(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with PlayedKubelet(controllers.cluster, namespace):
        controllers.start(namespace)
        api.create("Job", namespace, a_job())
        until_phase(api, namespace, "Running")
        for name, action in (("dance", "Dance"), ("long", "x" * 50_000), ("empty", "")):
            _command(api, namespace, name, action)
        eventually("they are gone", lambda: not api.list("Command", namespace))
        eventually("it is told", lambda: reasons(api, namespace).count("CommandIgnored") == 3)
        assert status(api, namespace).get("version", 0) == 0
        assert status(api, namespace)["running"] == 2


def test_what_a_quota_refuses_is_not_asked_for_all_the_time(controllers: Controllers, api: Api, namespace: str) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "3"}}}
    api.call("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    with PlayedKubelet(controllers.cluster, namespace):
        controller = controllers.start(namespace, "--listen=127.0.0.1:0")
        api.create("Job", namespace, a_job(replicas=100))
        eventually("it is told", lambda: "exceeded quota" in state(api, namespace).get("message", ""))
        eventually("what fits runs", lambda: status(api, namespace).get("running") == 3)
        began, looks = time.monotonic(), passes(controller)
        time.sleep(5)
        # Later each time: far fewer than one for each millisecond that a refusal takes.
        assert passes(controller) - looks < 5 * (time.monotonic() - began)
        assert reasons(api, namespace).count("FailedCreate") <= 3
        api.call("DELETE", f"/api/v1/namespaces/{namespace}/resourcequotas/few")
        until_phase(api, namespace, "Running")


def test_jobs_of_a_namespace_that_ends_go_with_it(
    garbage_collected: Cluster, controllers: Controllers, api: Api, namespace: str
) -> None:
    ending = f"{namespace[:40]}-x"
    garbage_collected.make_namespace(ending)
    with PlayedKubelet(controllers.cluster, ending):
        controller = controllers.start(ending)
        policies = [{"event": "PodEvicted", "action": "RestartJob"}]
        for number in range(5):
            api.create("Job", ending, a_job(f"j{number}", plugins={"svc": [], "ssh": []}, policies=policies))
        for number in range(5):
            until_phase(api, ending, "Running", f"j{number}")
        api.delete("Namespace", "", ending)
        eventually("it is gone", lambda: api.find("Namespace", "", ending) is None)
    assert len(controller.log.read_text().splitlines()) < 30


def passes(controller: Daemon) -> float:
    """How often it has looked at a job."""
    place = eventually("it listens", lambda: re.findall(r"http://127\.0\.0\.1:\d+", controller.log.read_text()))
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{place[0]}/metrics") as answer:
        found = re.search(r"^pumice_passes_total (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return float(found[1])

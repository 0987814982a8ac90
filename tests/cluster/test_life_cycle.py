"""Policies, restarts, suspension, scaling and deletion on a real API server, each with the whole status in the end.

One controller serves all namespaces, with exactly the permissions that are installed. The pods are played.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers
from tests.cluster.jobs import a_job, until_phase
from tests.cluster.played_kubelet import PlayedKubelet

NAME = "train"
RESTART = [{"event": "PodFailed", "action": "RestartJob"}]


@pytest.fixture(scope="module")
def controller(pumice_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    starter = Controllers(pumice_cluster, tmp_path_factory.mktemp("controller"))
    starter.start("")
    yield
    starter.stop()


@dataclass(frozen=True, slots=True)
class Story:
    api: Api
    namespace: str
    kubelet: PlayedKubelet

    def begin(self, job: Object) -> None:
        self.api.create("Job", self.namespace, job)
        until_phase(self.api, self.namespace, "Running")

    def until(self, phase: str, **counts: int) -> Object:
        """The whole status once it has that phase and these counts, without times and the controller's own notes."""

        def reached() -> Object:
            status: Object = self.api.get("Job", self.namespace, NAME)["status"]
            wanted = {"phase": phase, **counts}
            assert {"phase": status["state"]["phase"], **{name: status.get(name, 0) for name in counts}} == wanted, (
                status
            )
            return status

        return _timeless(eventually(f"{phase} {counts}", reached))

    def fail(self, pod: str, code: int = 1, reason: str = "") -> None:
        self.kubelet.finish(f"{NAME}-{pod}", code, reason)

    def complete(self, *pods: str) -> None:
        for pod in pods:
            self.kubelet.finish(f"{NAME}-{pod}")

    def uids(self) -> dict[str, str]:
        """Of the pods that are not about to go."""
        pods = self.api.list("Pod", self.namespace)
        return {
            pod["metadata"]["name"].removeprefix(f"{NAME}-"): pod["metadata"]["uid"]
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
        }


def _timeless(status: Object) -> Object:
    """A phase that is entered again moves to the end of the conditions."""
    status.pop("controlledResources", None)
    if "runningDuration" in status:
        status["runningDuration"] = "some"
    status["state"].pop("lastTransitionTime")
    status["conditions"] = [each["status"] for each in status["conditions"]]
    return status


@pytest.fixture
def story(controller: None, pumice_cluster: Cluster, api: Api, namespace: str) -> Iterator[Story]:
    with PlayedKubelet(pumice_cluster, namespace) as kubelet:
        yield Story(api, namespace, kubelet)


def _workers(**phases: int) -> Object:
    return {"worker": {"phase": phases}}


def test_a_failed_pod_restarts_the_job(story: Story) -> None:
    story.begin(a_job(policies=RESTART))
    before = story.uids()
    story.fail("worker-1", 3)
    assert story.until("Running", running=2, retryCount=1) == {
        "conditions": ["Restarting", "Pending", "Running"],
        "minAvailable": 2,
        "retryCount": 1,
        "running": 2,
        "state": {"phase": "Running"},
        "taskStatusCount": _workers(Running=2),
        "version": 1,
    }
    assert set(before.values()).isdisjoint(story.uids().values())
    story.complete("worker-0", "worker-1")
    assert story.until("Completed") == {
        "conditions": ["Restarting", "Pending", "Running", "Completed"],
        "minAvailable": 2,
        "retryCount": 1,
        "runningDuration": "some",
        "state": {"phase": "Completed"},
        "succeeded": 2,
        "taskStatusCount": _workers(Succeeded=2),
        "version": 1,
    }


def test_without_a_policy_the_others_go_on_and_the_job_fails_in_the_end(story: Story) -> None:
    story.begin(a_job())
    story.fail("worker-1", 7)
    going_on = story.until("Running", failed=1)
    assert (going_on["running"], going_on["taskStatusCount"]) == (1, _workers(Failed=1, Running=1))
    story.complete("worker-0")
    assert story.until("Failed") == {
        "conditions": ["Pending", "Running", "Failed"],
        "failed": 1,
        "minAvailable": 2,
        "runningDuration": "some",
        "state": {
            "phase": "Failed",
            "reason": "PodFailed",
            "message": "worker-1 failed first: exit code 7 in container main",
        },
        "succeeded": 1,
        "taskStatusCount": _workers(Failed=1, Succeeded=1),
    }


def test_restarts_come_to_an_end(story: Story) -> None:
    story.begin(a_job(policies=RESTART, maxRetry=2))
    story.fail("worker-1", 7)
    story.until("Running", running=2, retryCount=1)
    story.fail("worker-0", 137, "OOMKilled")
    ended = story.until("Failed", terminating=0)
    assert ended["state"]["reason"] == "RetriesExhausted"
    assert "worker-0" in ended["state"]["message"]
    assert (ended["retryCount"], ended["failed"]) == (2, 1)
    # The pods of the last attempt stay, for whoever looks for the cause.
    assert "worker-0" in story.uids()


def test_policies_may_name_exit_codes(story: Story) -> None:
    policies = [{"exitCodes": [3, 4], "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}]
    story.begin(a_job(policies=policies))
    story.fail("worker-1", 4)
    story.until("Running", running=2, retryCount=1)
    story.fail("worker-0", 5)
    message = "worker-0 failed first: exit code 5 in container main; policy spec.policies[1] PodFailed: AbortJob"
    assert story.until("Aborted", terminating=0) == {
        "conditions": ["Restarting", "Pending", "Running", "Aborting", "Aborted"],
        "failed": 1,
        "minAvailable": 2,
        "retryCount": 1,
        "state": {"phase": "Aborted", "reason": "PodFailed", "message": message},
        "taskStatusCount": _workers(Failed=1),
        "version": 2,
    }


def test_a_job_that_takes_too_long_fails(story: Story) -> None:
    story.begin(a_job(activeDeadlineSeconds=1))
    ended = story.until("Failed", terminating=0)
    assert ended["state"]["reason"] == "DeadlineExceeded"
    assert ended["conditions"] == ["Pending", "Running", "Failed"]
    assert story.uids() == {}


@pytest.mark.parametrize(
    ("action", "kept"),
    [
        pytest.param("RestartTask", {"master-0", "master-1"}, id="the task"),
        pytest.param("RestartPod", {"master-0", "master-1", "worker-0"}, id="the pod"),
    ],
)
def test_a_failed_pod_restarts_only(story: Story, action: str, kept: set[str]) -> None:
    task = a_job()["spec"]["tasks"][0]
    tasks = [{**task, "name": name} for name in ("master", "worker")]
    story.begin(a_job(tasks=tasks, policies=[{"event": "PodFailed", "action": action}]))
    before = story.uids()
    story.fail("worker-1", 3)
    again = story.until("Running", running=4, retryCount=1)
    assert again["taskStatusCount"] == {"master": {"phase": {"Running": 2}}, **_workers(Running=2)}
    after = story.uids()
    assert {pod for pod, uid in after.items() if before[pod] == uid} == kept


def test_a_suspended_job_keeps_what_its_pods_need(story: Story) -> None:
    story.begin(a_job(plugins={"ssh": [], "svc": ["--disable-network-policy=false"]}))
    kinds = ("Service", "ConfigMap", "Secret", "NetworkPolicy")
    before = {kind: [each["metadata"]["uid"] for each in story.api.list(kind, story.namespace)] for kind in kinds}
    story.api.patch("Job", story.namespace, NAME, {"spec": {"suspend": True}})
    assert story.until("Aborted", terminating=0) == {
        "conditions": ["Pending", "Running", "Aborting", "Aborted"],
        "minAvailable": 2,
        "state": {"phase": "Aborted", "reason": "Suspended", "message": "spec.suspend is true"},
        "version": 1,
    }
    assert story.uids() == {}
    story.api.patch("Job", story.namespace, NAME, {"spec": {"suspend": False}})
    resumed = story.until("Running", running=2)
    assert (resumed["version"], resumed.get("retryCount", 0)) == (2, 0)
    after = {kind: [each["metadata"]["uid"] for each in story.api.list(kind, story.namespace)] for kind in kinds}
    assert after == before


def test_an_evicted_pod_is_made_anew(story: Story) -> None:
    story.begin(a_job(policies=[{"event": "PodEvicted", "action": "RestartPod"}]))
    before = story.uids()
    story.kubelet.evict(f"{NAME}-worker-0")
    again = story.until("Running", running=2, retryCount=1)
    assert again["state"] == {"phase": "Running"}
    after = story.uids()
    assert (after["worker-0"] != before["worker-0"], after["worker-1"]) == (True, before["worker-1"])


def test_a_job_waits_for_quota_and_says_so(story: Story) -> None:
    path = f"/api/v1/namespaces/{story.namespace}/resourcequotas"
    story.api.call("POST", path, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}})
    eventually("the quota counts", lambda: story.api.call("GET", f"{path}/few").get("status", {}).get("hard"))
    story.api.create("Job", story.namespace, a_job())

    def waits() -> Object:
        status: Object = story.api.get("Job", story.namespace, NAME).get("status", {})
        return status if status.get("state", {}).get("reason") == "FailedCreate" else {}

    waiting = eventually("it says why it waits", waits)
    assert waiting["state"]["phase"] == "Pending"
    assert "exceeded quota: few" in waiting["state"]["message"]
    more = {"spec": {"hard": {"pods": "5"}}}
    story.api.call("PATCH", f"{path}/few", more, "application/merge-patch+json")
    assert story.until("Running", running=2)["state"] == {"phase": "Running"}


def test_dependent_tasks_wait_for_their_turn(story: Story) -> None:
    task = a_job()["spec"]["tasks"][0]
    first = {**task, "name": "first", "replicas": 1}
    second = {**task, "dependsOn": {"name": ["first"], "condition": "Completed"}}
    story.api.create("Job", story.namespace, a_job(tasks=[first, second], minAvailable=1))
    eventually("the first one runs", lambda: set(story.uids()) == {"first-0"})
    story.until("Running", running=1)
    assert set(story.uids()) == {"first-0"}
    story.complete("first-0")
    story.until("Running", running=2)
    story.complete("worker-0", "worker-1")
    assert story.until("Completed")["taskStatusCount"] == {
        "first": {"phase": {"Succeeded": 1}},
        **_workers(Succeeded=2),
    }


def test_everything_goes_with_the_job(garbage_collected: Cluster, story: Story) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    plugins = {"ssh": [], "svc": ["--disable-network-policy=false"]}
    story.begin(a_job(plugins=plugins, volumes=[{"mountPath": "/data", "volumeClaim": claim}]))
    kinds = ("Service", "ConfigMap", "Secret", "NetworkPolicy", "PersistentVolumeClaim", "Pod")

    def left() -> set[str]:
        found = {
            f"{kind}/{each['metadata']['name']}" for kind in kinds for each in story.api.list(kind, story.namespace)
        }
        return found - {"ConfigMap/kube-root-ca.crt"}

    assert {each.partition("/")[0] for each in left()} == set(kinds)
    garbage_collected.kubectl("delete", "jobs.batch.volcano.sh", NAME, "-n", story.namespace, "--wait=false")
    # The collector looks for new kinds of owners every half minute.
    eventually("all is gone", lambda: left() == set(), within=120)

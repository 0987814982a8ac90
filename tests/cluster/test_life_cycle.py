"""Policies, restarts, suspension and deletion on a real API server, each with the whole final status.

One controller serves all namespaces, with exactly the installed permissions. The kubelet is a fake one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.jobs import a_job, until_phase

NAME = "train"
RESTART = [{"event": "PodFailed", "action": "RestartJob"}]


@pytest.fixture(scope="module")
def controller(pumice_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    starter = Controllers(pumice_cluster, tmp_path_factory.mktemp("controller"))
    starter.start("")
    yield
    starter.stop()


@dataclass(frozen=True, slots=True)
class JobUnderTest:
    api: Api
    namespace: str
    kubelet: FakeKubelet

    def start(self, manifest: Object) -> None:
        self.api.create("Job", self.namespace, manifest)
        until_phase(self.api, self.namespace, "Running")

    def until(self, phase: str, **counts: int) -> Object:
        """Wait for a phase and counts, and return the whole status without times and the ledger."""

        def reached() -> Object:
            status: Object = self.api.get("Job", self.namespace, NAME)["status"]
            wanted = {"phase": phase, **counts}
            assert {"phase": status["state"]["phase"], **{name: status.get(name, 0) for name in counts}} == wanted, (
                status
            )
            return status

        return _without_times(eventually(f"{phase} {counts}", reached))

    def fail(self, pod: str, code: int = 1, reason: str = "") -> None:
        self.kubelet.finish(f"{NAME}-{pod}", code, reason)

    def complete(self, *pods: str) -> None:
        for pod in pods:
            self.kubelet.finish(f"{NAME}-{pod}")

    def pod_uids(self) -> dict[str, str]:
        """Return the uids of the pods that are not being deleted, by task and index."""
        pods = self.api.list("Pod", self.namespace)
        return {
            pod["metadata"]["name"].removeprefix(f"{NAME}-"): pod["metadata"]["uid"]
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
        }


def _without_times(status: Object) -> Object:
    status.pop("controlledResources", None)
    if "runningDuration" in status:
        status["runningDuration"] = "some"
    status["state"].pop("lastTransitionTime")
    status["conditions"] = [each["status"] for each in status["conditions"]]
    return status


@pytest.fixture
def job(controller: None, pumice_cluster: Cluster, api: Api, namespace: str) -> Iterator[JobUnderTest]:
    with FakeKubelet(pumice_cluster, namespace) as kubelet:
        yield JobUnderTest(api, namespace, kubelet)


def _workers(**phases: int) -> Object:
    return {"worker": {"phase": phases}}


def test_a_failed_pod_restarts_the_job(job: JobUnderTest) -> None:
    job.start(a_job(policies=RESTART))
    before = job.pod_uids()
    job.fail("worker-1", 3)
    assert job.until("Running", running=2, retryCount=1) == {
        "conditions": ["Restarting", "Pending", "Running"],
        "minAvailable": 2,
        "retryCount": 1,
        "running": 2,
        "state": {"phase": "Running"},
        "taskStatusCount": _workers(Running=2),
        "version": 1,
    }
    assert set(before.values()).isdisjoint(job.pod_uids().values())
    job.complete("worker-0", "worker-1")
    assert job.until("Completed") == {
        "conditions": ["Restarting", "Pending", "Running", "Completed"],
        "minAvailable": 2,
        "retryCount": 1,
        "runningDuration": "some",
        "state": {"phase": "Completed"},
        "succeeded": 2,
        "taskStatusCount": _workers(Succeeded=2),
        "version": 1,
    }


def test_without_a_policy_the_other_pods_continue_and_the_job_fails(job: JobUnderTest) -> None:
    job.start(a_job())
    job.fail("worker-1", 7)
    continued = job.until("Running", failed=1)
    assert (continued["running"], continued["taskStatusCount"]) == (1, _workers(Failed=1, Running=1))
    job.complete("worker-0")
    assert job.until("Failed") == {
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


def test_a_job_fails_when_its_retries_are_exhausted(job: JobUnderTest) -> None:
    job.start(a_job(policies=RESTART, maxRetry=2))
    job.fail("worker-1", 7)
    job.until("Running", running=2, retryCount=1)
    job.fail("worker-0", 137, "OOMKilled")
    ended = job.until("Failed", terminating=0)
    assert ended["state"]["reason"] == "RetriesExhausted"
    assert "worker-0" in ended["state"]["message"]
    assert (ended["retryCount"], ended["failed"]) == (2, 1)
    # The pods of the last attempt are kept for diagnosis.
    assert "worker-0" in job.pod_uids()


def test_policies_with_exit_codes(job: JobUnderTest) -> None:
    policies = [{"exitCodes": [3, 4], "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}]
    job.start(a_job(policies=policies))
    job.fail("worker-1", 4)
    job.until("Running", running=2, retryCount=1)
    job.fail("worker-0", 5)
    message = "worker-0 failed first: exit code 5 in container main; policy spec.policies[1] PodFailed: AbortJob"
    assert job.until("Aborted", terminating=0) == {
        "conditions": ["Restarting", "Pending", "Running", "Aborting", "Aborted"],
        "failed": 1,
        "minAvailable": 2,
        "retryCount": 1,
        "state": {"phase": "Aborted", "reason": "PodFailed", "message": message},
        "taskStatusCount": _workers(Failed=1),
        "version": 2,
    }


def test_a_job_fails_after_its_active_deadline(job: JobUnderTest) -> None:
    job.start(a_job(activeDeadlineSeconds=1))
    ended = job.until("Failed", terminating=0)
    assert ended["state"]["reason"] == "DeadlineExceeded"
    assert ended["conditions"] == ["Pending", "Running", "Failed"]
    assert job.pod_uids() == {}


@pytest.mark.parametrize(
    ("action", "kept"),
    [
        pytest.param("RestartTask", {"master-0", "master-1"}, id="task"),
        pytest.param("RestartPod", {"master-0", "master-1", "worker-0"}, id="pod"),
    ],
)
def test_a_failed_pod_restarts_only_its(job: JobUnderTest, action: str, kept: set[str]) -> None:
    task = a_job()["spec"]["tasks"][0]
    tasks = [{**task, "name": name} for name in ("master", "worker")]
    job.start(a_job(tasks=tasks, policies=[{"event": "PodFailed", "action": action}]))
    before = job.pod_uids()
    job.fail("worker-1", 3)
    again = job.until("Running", running=4, retryCount=1)
    assert again["taskStatusCount"] == {"master": {"phase": {"Running": 2}}, **_workers(Running=2)}
    after = job.pod_uids()
    assert {pod for pod, uid in after.items() if before[pod] == uid} == kept


def test_a_suspended_job_keeps_its_owned_objects(job: JobUnderTest) -> None:
    job.start(a_job(plugins={"ssh": [], "svc": ["--disable-network-policy=false"]}))
    kinds = ("Service", "ConfigMap", "Secret", "NetworkPolicy")
    before = {kind: [each["metadata"]["uid"] for each in job.api.list(kind, job.namespace)] for kind in kinds}
    job.api.patch("Job", job.namespace, NAME, {"spec": {"suspend": True}})
    assert job.until("Aborted", terminating=0) == {
        "conditions": ["Pending", "Running", "Aborting", "Aborted"],
        "minAvailable": 2,
        "state": {"phase": "Aborted", "reason": "Suspended", "message": "spec.suspend is true"},
        "version": 1,
    }
    assert job.pod_uids() == {}
    job.api.patch("Job", job.namespace, NAME, {"spec": {"suspend": False}})
    resumed = job.until("Running", running=2)
    assert (resumed["version"], resumed.get("retryCount", 0)) == (2, 0)
    after = {kind: [each["metadata"]["uid"] for each in job.api.list(kind, job.namespace)] for kind in kinds}
    assert after == before


def test_an_evicted_pod_is_recreated(job: JobUnderTest) -> None:
    job.start(a_job(policies=[{"event": "PodEvicted", "action": "RestartPod"}]))
    before = job.pod_uids()
    job.kubelet.evict(f"{NAME}-worker-0")
    again = job.until("Running", running=2, retryCount=1)
    assert again["state"] == {"phase": "Running"}
    after = job.pod_uids()
    assert (after["worker-0"] != before["worker-0"], after["worker-1"]) == (True, before["worker-1"])


def test_a_job_waits_for_quota_and_reports_it(job: JobUnderTest) -> None:
    path = f"/api/v1/namespaces/{job.namespace}/resourcequotas"
    job.api.call("POST", path, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}})
    eventually("the quota is active", lambda: job.api.call("GET", f"{path}/few").get("status", {}).get("hard"))
    job.api.create("Job", job.namespace, a_job())

    def waits() -> Object:
        status: Object = job.api.get("Job", job.namespace, NAME).get("status", {})
        return status if status.get("state", {}).get("reason") == "FailedCreate" else {}

    waiting = eventually("the status has the reason", waits)
    assert waiting["state"]["phase"] == "Pending"
    assert "ResourceQuota few has no room: " in waiting["state"]["message"]
    more = {"spec": {"hard": {"pods": "5"}}}
    job.api.call("PATCH", f"{path}/few", more, "application/merge-patch+json")
    assert job.until("Running", running=2)["state"] == {"phase": "Running"}


def test_dependent_tasks_wait_for_their_condition(job: JobUnderTest) -> None:
    task = a_job()["spec"]["tasks"][0]
    first = {**task, "name": "first", "replicas": 1}
    second = {**task, "dependsOn": {"name": ["first"], "condition": "Completed"}}
    job.api.create("Job", job.namespace, a_job(tasks=[first, second], minAvailable=1))
    eventually("the first task has a pod", lambda: set(job.pod_uids()) == {"first-0"})
    job.until("Running", running=1)
    assert set(job.pod_uids()) == {"first-0"}
    job.complete("first-0")
    job.until("Running", running=2)
    job.complete("worker-0", "worker-1")
    assert job.until("Completed")["taskStatusCount"] == {
        "first": {"phase": {"Succeeded": 1}},
        **_workers(Succeeded=2),
    }


def test_owned_objects_are_deleted_with_the_job(garbage_collected: Cluster, job: JobUnderTest) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    plugins = {"ssh": [], "svc": ["--disable-network-policy=false"]}
    job.start(a_job(plugins=plugins, volumes=[{"mountPath": "/data", "volumeClaim": claim}]))
    kinds = ("Service", "ConfigMap", "Secret", "NetworkPolicy", "PersistentVolumeClaim", "Pod")

    def left() -> set[str]:
        found = {f"{kind}/{each['metadata']['name']}" for kind in kinds for each in job.api.list(kind, job.namespace)}
        return found - {"ConfigMap/kube-root-ca.crt"}

    assert {each.partition("/")[0] for each in left()} == set(kinds)
    garbage_collected.kubectl("delete", "jobs.batch.volcano.sh", NAME, "-n", job.namespace, "--wait=false")
    # The garbage collector discovers new kinds of owners every half minute.
    eventually("all objects are gone", lambda: left() == set())

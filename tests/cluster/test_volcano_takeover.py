"""Takeover of a job from Volcano's controller: no pod is restarted, and the job ends as it would have."""

from __future__ import annotations

import pytest

from tests.cluster.api import Api, Object, eventually
from tests.cluster.controllers import Controllers
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.jobs import a_job, send_command, status, until_phase

VERSION, RETRIES = "3", "1"
CLAIM = "train-pvc-0123456789ab"


def owned(job: Object, kind: str, name: str, **parts: object) -> Object:
    owner = {key: job[key] for key in ("apiVersion", "kind")} | {key: job["metadata"][key] for key in ("name", "uid")}
    reference = {**owner, "controller": True, "blockOwnerDeletion": True}
    return {"kind": kind, "metadata": {"name": name, "ownerReferences": [reference]}, **parts}


def pod(job: Object, index: int) -> Object:
    """Return a pod as Volcano's controller creates it."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    made = owned(job, "Pod", f"{name}-worker-{index}")
    common = {"volcano.sh/task-index": str(index), "volcano.sh/task-spec": "worker", "volcano.sh/job-name": name}
    made["metadata"]["labels"] = {**common, "volcano.sh/job-namespace": job["metadata"]["namespace"]}
    made["metadata"]["annotations"] = {
        **common,
        "scheduling.k8s.io/group-name": f"{name}-{uid}",
        "volcano.sh/queue-name": "default",
        "volcano.sh/job-version": VERSION,
        "volcano.sh/job-retry-count": RETRIES,
        "volcano.sh/template-uid": f"{name}-worker",
    }
    made["spec"] = {**job["spec"]["tasks"][0]["template"]["spec"], "schedulerName": "volcano"}
    return made


def started_by_volcano(api: Api, namespace: str) -> Object:
    """Create a running job with all its objects."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    job = a_job(
        plugins={"svc": []},
        policies=[{"event": "PodFailed", "action": "RestartJob"}, {"event": "JobUpdated", "action": "RestartJob"}],
        # Volcano writes the name of the claim into the spec.
        volumes=[{"mountPath": "/data", "volumeClaim": claim, "volumeClaimName": CLAIM}],
        minAvailable=2,
    )
    job = api.create("Job", namespace, job)
    name, uid = "train", job["metadata"]["uid"]
    api.create("PersistentVolumeClaim", namespace, owned(job, "PersistentVolumeClaim", CLAIM, spec=claim))
    api.create("ConfigMap", namespace, owned(job, "ConfigMap", f"{name}-svc", data={"worker.host": "as it was"}))
    service = {"clusterIP": "None", "selector": {"volcano.sh/job-name": name}, "ports": [{"port": 1}]}
    api.create("Service", namespace, owned(job, "Service", name, spec=service))
    policy = {"podSelector": {"matchLabels": {"volcano.sh/job-name": name}}, "policyTypes": ["Ingress"]}
    api.create("NetworkPolicy", namespace, owned(job, "NetworkPolicy", name, spec=policy))
    group = owned(job, "PodGroup", f"{name}-{uid}", spec={"minMember": 2, "queue": "default"})
    group |= {"apiVersion": "scheduling.volcano.sh/v1beta1", "status": {"phase": "Running"}}
    api.create("PodGroup", namespace, group)
    for index in range(2):
        api.create("Pod", namespace, pod(job, index))
    volcano = {
        "state": {"phase": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        "minAvailable": 2,
        "running": 2,
        "version": int(VERSION),
        "retryCount": int(RETRIES),
        "controlledResources": {"plugin-svc": "svc", f"volume-pvc-{CLAIM}": CLAIM},
    }
    return api.patch("Job", namespace, name, {"status": volcano}, "status")


def uids(api: Api, kind: str, namespace: str) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in api.list(kind, namespace)}


@pytest.mark.parametrize("gang", ["volcano", "none"])
def test_a_running_job_continues(controllers: Controllers, api: Api, namespace: str, gang: str) -> None:
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        started_by_volcano(api, namespace)
        eventually(
            "its pods run",
            lambda: [each.get("status", {}).get("phase") for each in api.list("Pod", namespace)] == ["Running"] * 2,
        )
        before = uids(api, "Pod", namespace)
        controllers.start(namespace, gang=gang)
        eventually("our controller serves it", lambda: _is_ours(api, namespace))
        assert uids(api, "Pod", namespace) == before
        assert set(uids(api, "PersistentVolumeClaim", namespace)) == {CLAIM}
        found = status(api, namespace)
        assert (found["state"]["phase"], found["version"], found["retryCount"]) == ("Running", 3, 1)
        assert found["controlledResources"]["plugin-svc"] == "svc"
        for index in range(2):
            kubelet.finish(f"train-worker-{index}")
        found = until_phase(api, namespace, "Completed")
        assert found["succeeded"] == 2
        assert uids(api, "Pod", namespace) == before


def _is_ours(api: Api, namespace: str) -> bool:
    """Whether our controller has written its ledger and updated the host list."""
    kept = status(api, namespace).get("controlledResources", {})
    hosts = api.get("ConfigMap", namespace, "train-svc")["data"].get("worker.host", "")
    return any(key.startswith("pumice/") for key in kept) and "train-worker-1.train" in hosts


def test_a_suspended_job_is_resumed_by_a_command(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        api.create("Job", namespace, a_job(minAvailable=2))
        api.patch("Job", namespace, "train", {"status": {"state": {"phase": "Aborted"}, "version": 1}}, "status")
        controllers.start(namespace)
        send_command(api, namespace, "ResumeJob")
        until_phase(api, namespace, "Running")
        assert len(api.list("Pod", namespace)) == 2

"""Owned objects of a job: created, restored after deletion or edits, and never taken over from another owner."""

from __future__ import annotations

import base64

import pytest

from tests.cluster.api import Api, Object, eventually
from tests.cluster.controllers import Controllers
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.jobs import a_job, reasons, state, until_phase

PLUGINS = {"svc": ["--disable-network-policy=false"], "ssh": [], "env": []}


@pytest.fixture
def running(controllers: Controllers, api: Api, namespace: str) -> Object:
    """A job with all kinds of owned objects, and its pods."""
    controllers.start(namespace)
    job = api.create("Job", namespace, a_job(plugins=PLUGINS))
    eventually("the pods exist", lambda: len(api.list("Pod", namespace)) == 2)
    return job


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param("Service", "train", id="Service"),
        pytest.param("ConfigMap", "train-svc", id="ConfigMap"),
        pytest.param("NetworkPolicy", "train", id="NetworkPolicy"),
        pytest.param("Secret", "train-ssh", id="Secret"),
    ],
)
def test_a_deleted_object_is_recreated(running: Object, api: Api, namespace: str, kind: str, name: str) -> None:
    before = api.get(kind, namespace, name)
    assert before["metadata"]["ownerReferences"][0]["uid"] == running["metadata"]["uid"]
    api.delete(kind, namespace, name)

    def recreated() -> Object:
        found = api.find(kind, namespace, name) or {}
        return found if found and found["metadata"]["uid"] != before["metadata"]["uid"] else {}

    after = eventually("it is recreated", recreated)
    assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
    if kind == "Secret":
        assert after["data"].keys() == before["data"].keys()
        assert after["data"]["id_rsa"] != before["data"]["id_rsa"]
        assert after["data"]["config"] == before["data"]["config"]


def test_an_edited_config_map_is_restored(running: Object, api: Api, namespace: str) -> None:
    before = api.get("ConfigMap", namespace, "train-svc")
    api.patch("ConfigMap", namespace, "train-svc", {"data": {"worker.host": "wrong", "extra": "x"}})
    eventually("it is restored", lambda: api.get("ConfigMap", namespace, "train-svc")["data"] == before["data"])
    assert api.get("ConfigMap", namespace, "train-svc")["metadata"]["uid"] == before["metadata"]["uid"]


def test_an_edited_service_is_restored(running: Object, api: Api, namespace: str) -> None:
    before = api.get("Service", namespace, "train")["spec"]
    wrong = {"publishNotReadyAddresses": not before["publishNotReadyAddresses"]}
    api.patch("Service", namespace, "train", {"spec": wrong})
    eventually("it is restored", lambda: api.get("Service", namespace, "train")["spec"] == before)


def test_a_secret_is_never_rewritten(running: Object, api: Api, namespace: str) -> None:
    """Neither after an edit nor after scaling: kubelet would empty its mount in running pods."""
    mine = base64.b64encode(b"my own").decode()
    edited = api.patch("Secret", namespace, "train-ssh", {"data": {"config": mine, "id_rsa": mine}})
    [task] = running["spec"]["tasks"]
    api.patch("Job", namespace, "train", {"spec": {"tasks": [{**task, "replicas": 3}]}})
    # Owned objects are written before pods.
    eventually("the third pod exists", lambda: len(api.list("Pod", namespace)) == 3)
    assert "train-worker-2" in api.get("ConfigMap", namespace, "train-svc")["data"]["worker.host"]
    assert api.get("Secret", namespace, "train-ssh") == edited


def test_objects_of_other_owners_are_not_changed(controllers: Controllers, api: Api, namespace: str) -> None:
    theirs = api.create("Service", namespace, {"metadata": {"name": "train"}, "spec": {"ports": [{"port": 80}]}})
    controllers.start(namespace)
    api.create("Job", namespace, a_job(plugins={"svc": []}))
    eventually("the job says so", lambda: "does not belong to this job" in state(api, namespace).get("message", ""))
    assert state(api, namespace)["phase"] == "Pending"
    assert (
        api.get("Service", namespace, "train")["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
    )
    api.delete("Service", namespace, "train")
    eventually("the pod is created", lambda: len(api.list("Pod", namespace)) == 2)
    eventually("the message is gone", lambda: "does not belong" not in state(api, namespace).get("message", ""))


def test_completion_deletes_owned_objects_but_no_pods(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        controllers.run_job(namespace, a_job(plugins=PLUGINS))
        for index in range(2):
            kubelet.finish(f"train-worker-{index}")
        until_phase(api, namespace, "Completed")
        left = (("Service", "train"), ("ConfigMap", "train-svc"), ("Secret", "train-ssh"), ("NetworkPolicy", "train"))
        eventually("the objects are gone", lambda: all(api.find(kind, namespace, name) is None for kind, name in left))
        assert len(api.list("Pod", namespace)) == 2


def test_a_job_waits_for_a_missing_claim(controllers: Controllers, api: Api, namespace: str) -> None:
    controllers.start(namespace)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [{"mountPath": "/data", "volumeClaimName": "data"}, {"mountPath": "/out", "volumeClaim": claim}]
    api.create("Job", namespace, a_job(volumes=volumes))
    eventually("the status says ClaimMissing", lambda: state(api, namespace).get("reason") == "ClaimMissing")
    assert api.list("Pod", namespace) == []
    api.create("PersistentVolumeClaim", namespace, {"metadata": {"name": "data"}, "spec": claim})
    pods = eventually("there are pods", lambda: api.list("Pod", namespace))
    claims = {
        volume["persistentVolumeClaim"]["claimName"] for volume in pods[0]["spec"]["volumes"] if _is_claim(volume)
    }
    made = [one for one in api.list("PersistentVolumeClaim", namespace) if one["metadata"].get("ownerReferences")]
    assert claims == {"data", made[0]["metadata"]["name"]}


def _is_claim(volume: Object) -> bool:
    return "persistentVolumeClaim" in volume


def test_the_secret_of_a_required_plugin_is_created(controllers: Controllers, api: Api, namespace: str) -> None:
    """Mpi requires ssh, also if no webhook has added it to the job."""
    controllers.start(namespace)
    tasks = {"master": 1, "worker": 1}
    job = a_job(plugins={"mpi": []})
    template = job["spec"]["tasks"][0]["template"]
    job["spec"]["tasks"] = [{"name": name, "replicas": count, "template": template} for name, count in tasks.items()]
    api.create("Job", namespace, job)
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        until_phase(api, namespace, "Running")
        keys = api.get("Secret", namespace, "train-ssh")["data"]["id_rsa"]
        for name in tasks:
            assert api.get("Secret", namespace, "train-ssh")["data"]["id_rsa"] == keys
            kubelet.finish(f"train-{name}-0")
        until_phase(api, namespace, "Completed")
    eventually("the Secret is deleted", lambda: api.find("Secret", namespace, "train-ssh") is None)
    assert "SecretReplaced" not in reasons(api, namespace)


def test_a_pod_of_another_owner_is_not_taken_over(controllers: Controllers, api: Api, namespace: str) -> None:
    owner = api.create("ConfigMap", namespace, {"metadata": {"name": "other"}})["metadata"]["uid"]
    foreign = {
        "metadata": {
            "name": "train-worker-0",
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": owner}],
        },
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    uid = api.create("Pod", namespace, foreign)["metadata"]["uid"]
    controllers.start(namespace)
    api.create("Job", namespace, a_job())
    eventually("the status names the pod", lambda: "train-worker-0 exists" in state(api, namespace).get("message", ""))
    assert api.get("Pod", namespace, "train-worker-0")["metadata"]["uid"] == uid

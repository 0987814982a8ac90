"""Gang providers on a real API server: native with kube-scheduler, volcano and coscheduling without theirs."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pumice.model.job import Manifest
from pumice.model.vocabulary import GANG_PROVIDERS
from tests.cluster.api import Api, eventually, path_of
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers, phase
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.jobs import state
from tests.cluster.render_comparison import check_created

NODE = "node-of-gangs"
HEARTBEAT = 5.0
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
QUANTITY = {"x-kubernetes-int-or-string": True}


def a_job(name: str, tasks: dict[str, int], **spec: object) -> Manifest:
    def task(word: str, replicas: int) -> Manifest:
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        return {"name": word, "replicas": replicas, "template": {"spec": _pod_spec(container, word, spec)}}

    fields = {key: value for key, value in spec.items() if key != "priorities"}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": [task(word, replicas) for word, replicas in tasks.items()], **fields},
    }


def _pod_spec(container: Manifest, task: str, spec: dict[str, object]) -> Manifest:
    priorities = spec.get("priorities")
    own = {"priorityClassName": priorities[task]} if isinstance(priorities, dict) and task in priorities else {}
    return {
        "containers": [container],
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": NODE},
        **own,
    }


def bound(api: Api, namespace: str) -> list[str]:
    """The names of the pods that use resources of the node."""
    pods = [pod for pod in api.list("Pod", namespace) if pod["status"]["phase"] != "Succeeded"]
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]


@pytest.fixture
def node(scheduled: Cluster) -> Iterator[None]:
    """A node with room for four pods. Heartbeats keep the controllers from marking it as unreachable."""
    scheduled.make_node(NODE, cpu="4")
    api, over = scheduled.api(), threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT):
            now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: TID251 - the controllers' clock
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
            api.patch("Node", "", NODE, {"status": {"conditions": [ready]}}, "status")

    thread = threading.Thread(target=beat)
    thread.start()
    yield
    over.set()
    thread.join()
    api.delete("Node", "", NODE)


def test_two_gangs_that_do_not_fit_together_never_deadlock(
    controllers: Controllers, api: Api, namespace: str, node: None
) -> None:
    """Each has three pods and the node has room for four: one gang runs completely, and then the other."""
    cluster = controllers.cluster
    controllers.start(namespace, gang="native")
    partly: list[tuple[str, ...]] = []

    def runs(name: str) -> bool:
        here = [pod for pod in bound(api, namespace) if pod.startswith(name)]
        others = [pod for pod in bound(api, namespace) if not pod.startswith(name)]
        if here and others:
            partly.append(tuple(here + others))
        return phase(cluster, namespace, name) == "Running"

    with FakeKubelet(cluster, namespace, bind=False) as kubelet:
        for name in ("first", "second"):
            api.create("Job", namespace, a_job(name, {"worker": 3}))
        leader = eventually("one job runs", lambda: next((one for one in ("first", "second") if runs(one)), ""))
        other = "second" if leader == "first" else "first"
        eventually("the other has its pods", lambda: len(api.list("Pod", namespace)) == 6)
        assert sorted(bound(api, namespace)) == [f"{leader}-worker-{index}" for index in range(3)]
        assert phase(cluster, namespace, other) == "Pending"
        eventually("its status has the reason", lambda: state(api, namespace, other).get("reason") == "Unschedulable")
        # The scheduler says of a pod or of the group what is missing, whichever it looks at first.
        message = state(api, namespace, other)["message"]
        assert any(words in message for words in (" waits: Unschedulable: ", "minCount (3) cannot be satisfied: "))
        for index in range(3):
            kubelet.finish(f"{leader}-worker-{index}")
        eventually("the first is completed", lambda: phase(cluster, namespace, leader) == "Completed")
        eventually("the other runs", lambda: runs(other))
    assert partly == []
    assert {pod["spec"]["schedulerName"] for pod in api.list("Pod", namespace)} == {"default-scheduler"}


def test_a_gang_of_no_pods_grows_when_the_job_is_scaled_up(controllers: Controllers, api: Api, namespace: str) -> None:
    controllers.start(namespace, gang="native")
    job = a_job("empty", {"worker": 0, "tester": 1}, minAvailable=0)
    uid = api.create("Job", namespace, job)["metadata"]["uid"]
    eventually("its pod is there", lambda: len(api.list("Pod", namespace)) == 1)
    job["spec"]["tasks"][0]["replicas"] = 2
    api.patch("Job", namespace, "empty", {"spec": {"tasks": job["spec"]["tasks"], "minAvailable": 3}})
    eventually("its pods are there", lambda: len(api.list("Pod", namespace)) == 3)

    def minimum() -> int:
        return int(api.get("NativePodGroup", namespace, f"empty-{uid}")["spec"]["schedulingPolicy"]["gang"]["minCount"])

    eventually("the gang has grown", lambda: minimum() == 3)
    # The cluster has no node; there is no other problem.
    assert state(api, namespace, "empty").get("reason", "") in ("", "Unschedulable")


def test_with_volcano_pods_are_created_when_the_group_is_in_its_queue(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    cluster = controllers.cluster
    controllers.start(namespace, gang="volcano")
    uid = api.create("Job", namespace, a_job("train", {"worker": 2}))["metadata"]["uid"]
    name = f"train-{uid}"
    group = eventually("the group exists", lambda: api.find("PodGroup", namespace, name) or {})
    assert group["spec"]["minMember"] == 2
    assert group["metadata"]["ownerReferences"][0]["uid"] == uid
    pending = {
        "type": "Unschedulable",
        "status": "True",
        "message": "no room",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    api.patch("PodGroup", namespace, name, {"status": {"phase": "Pending", "conditions": [pending]}})
    eventually("the status has the message", lambda: state(api, namespace, "train").get("message") == "no room")
    assert api.list("Pod", namespace) == []
    api.patch("PodGroup", namespace, name, {"status": {"phase": "Inqueue", "conditions": None}})
    pods = eventually("the pods are created", lambda: api.list("Pod", namespace))
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
    assert {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in pods} == {name}
    assert phase(cluster, namespace, "train") == "Pending"


@pytest.fixture
def coscheduling(api: Api, namespace: str) -> Iterator[str]:
    """The path of the plugin's PodGroups, whose CRD is reduced to the fields that Pumice writes; no plugin runs."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    groups = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups"
    fields = {"minMember": {"type": "integer"}, "minResources": {"type": "object", "additionalProperties": QUANTITY}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"}
    spec = {"group": "scheduling.x-k8s.io", "scope": "Namespaced", "names": names, "versions": [version]}
    made = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    note = {"api-approved.kubernetes.io": "unapproved, a test"}
    crd = {**made, "metadata": {"name": "podgroups.scheduling.x-k8s.io", "annotations": note}}
    # That of the last test may still be in deletion.
    eventually("it is created", lambda: api.ask("POST", path, crd).status == 201)
    eventually("it is served", lambda: api.ask("GET", groups).status == 200)
    yield groups
    api.call("DELETE", f"{path}/podgroups.scheduling.x-k8s.io")


@pytest.mark.parametrize("gang", ["native", "coscheduling"])
def test_an_edited_group_is_restored(
    controllers: Controllers, api: Api, namespace: str, gang: str, coscheduling: str
) -> None:
    controllers.start(namespace, gang=gang)
    uid = api.create("Job", namespace, a_job("train", {"worker": 2}))["metadata"]["uid"]
    path = f"{path_of('NativePodGroup', namespace) if gang == 'native' else coscheduling}/train-{uid}"
    eventually("the group exists", lambda: api.ask("GET", path).status == 200)
    created = api.call("GET", path)
    edit = {"schedulingPolicy": {"gang": {"minCount": 1}}} if gang == "native" else {"minMember": 1}
    api.call("PATCH", path, {"spec": edit}, "application/merge-patch+json")
    eventually("it is restored", lambda: api.call("GET", path)["spec"] == created["spec"])
    assert api.call("GET", path)["metadata"]["uid"] == created["metadata"]["uid"]


@pytest.fixture
def job_file(api: Api, namespace: str, tmp_path: Path) -> Iterator[Path]:
    """A Job with every kind of object; its tasks have two priorities, which are two native PodGroups."""
    path, priority = "/apis/scheduling.k8s.io/v1/priorityclasses", f"high-{namespace}"[:60]
    api.call("POST", path, {"metadata": {"name": priority}, "value": 1})
    job = a_job(
        "train",
        {"master": 1, "worker": 2},
        priorities={"master": priority},
        plugins={"env": [], "ssh": [], "svc": ["--disable-network-policy=false"]},
        volumes=[{"mountPath": "/data", "volumeClaim": CLAIM}],
    )
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(job), encoding="utf-8")
    yield file
    api.call("DELETE", f"{path}/{priority}")


@pytest.mark.parametrize("gang", GANG_PROVIDERS)
def test_the_controller_creates_exactly_what_render_prints(
    controllers: Controllers, namespace: str, gang: str, job_file: Path, request: pytest.FixtureRequest
) -> None:
    if gang == "coscheduling":
        request.getfixturevalue("coscheduling")
    check_created(controllers, namespace, job_file, gang)

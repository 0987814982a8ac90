"""The test cluster itself: pods, native gangs, permissions and garbage collection."""

from __future__ import annotations

import pytest

from tests.cluster.api import Api, RefusedError, eventually
from tests.cluster.cluster import Cluster

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}


def test_pods_can_be_created_and_listed(cluster: Cluster, api: Api, namespace: str) -> None:
    api.create("Pod", namespace, POD)
    assert cluster.kubectl("get", "pods", "-n", namespace, "-o", "name") == "pod/p\n"


def test_native_gangs_are_served(api: Api) -> None:
    served = api.call("GET", "/apis/scheduling.k8s.io/v1beta1")["resources"]
    assert "podgroups" in {each["name"] for each in served}


def test_the_plain_user_has_no_permissions(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(RefusedError, match="403"):
        cluster.api("plain-token").list("Pod", namespace)


def test_owned_objects_are_deleted_with_their_owner(garbage_collected: Cluster, api: Api, namespace: str) -> None:
    owner = api.create("ConfigMap", namespace, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    api.create("ConfigMap", namespace, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    api.delete("ConfigMap", namespace, "owner")
    eventually("the owned object is gone", lambda: api.find("ConfigMap", namespace, "owned") is None)

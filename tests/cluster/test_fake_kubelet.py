"""The fake kubelet writes the same status as a real one."""

from __future__ import annotations

from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.fake_kubelet import FakeKubelet, PodScript


def _pod(name: str) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
    }


def _phase(api: Api, namespace: str, name: str) -> str:
    return str(api.get("Pod", namespace, name)["status"]["phase"])


def test_a_status_is_not_written_to_a_newer_pod(cluster: Cluster, api: Api, namespace: str) -> None:
    with FakeKubelet(cluster, namespace, lambda _pod: PodScript(pending=True)) as kubelet:
        earlier = api.create("Pod", namespace, _pod("stuck"))
        kubelet.evict("stuck")
        eventually("it is gone", lambda: api.list("Pod", namespace) == [])
        api.create("Pod", namespace, _pod("stuck"))
        kubelet.submit(kubelet.write(earlier, {"phase": "Failed"}))
        assert _phase(api, namespace, "stuck") == "Pending"

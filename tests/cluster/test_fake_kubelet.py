"""The fake kubelet writes the same status as a real one."""

from __future__ import annotations

from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.fake_kubelet import FakeKubelet, PodScript, by_task


def _pod(name: str) -> Object:
    return {
        "metadata": {"name": name, "annotations": {"volcano.sh/task-spec": name}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
    }


def _phase(api: Api, namespace: str, name: str) -> str:
    return str(api.get("Pod", namespace, name)["status"]["phase"])


def test_pods_run_end_and_are_deleted(cluster: Cluster, api: Api, namespace: str) -> None:
    scripts = {"quick": PodScript(seconds=0, code=3), "stuck": PodScript(pending=True)}
    with FakeKubelet(cluster, namespace, by_task(scripts)) as kubelet:
        for name in ("quick", "stuck", "steady"):
            api.create("Pod", namespace, _pod(name))
        eventually("quick fails", lambda: _phase(api, namespace, "quick") == "Failed")
        [ended] = api.get("Pod", namespace, "quick")["status"]["containerStatuses"]
        assert ended["state"]["terminated"]["exitCode"] == 3
        eventually("steady runs", lambda: _phase(api, namespace, "steady") == "Running")
        assert api.get("Pod", namespace, "steady")["status"]["podIP"].startswith("10.100.")
        kubelet.finish("steady")
        assert _phase(api, namespace, "steady") == "Succeeded"
        assert _phase(api, namespace, "stuck") == "Pending"
        for name in ("quick", "stuck", "steady"):
            kubelet.evict(name)
        eventually("all are gone", lambda: api.list("Pod", namespace) == [])
        assert kubelet.created == 3


def test_a_status_is_not_written_to_a_newer_pod(cluster: Cluster, api: Api, namespace: str) -> None:
    with FakeKubelet(cluster, namespace, by_task({"stuck": PodScript(pending=True)})) as kubelet:
        earlier = api.create("Pod", namespace, _pod("stuck"))
        kubelet.evict("stuck")
        eventually("it is gone", lambda: api.list("Pod", namespace) == [])
        api.create("Pod", namespace, _pod("stuck"))
        kubelet.submit(kubelet.write(earlier, {"phase": "Failed"}))
        assert _phase(api, namespace, "stuck") == "Pending"

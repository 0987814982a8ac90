"""A node that does not answer: the Job says so, and goes on when the node is back."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator

import pytest

from pumice.model.units import to_microseconds
from tests.cluster.api import Api, eventually
from tests.kubelet.jobs import Jobs, job, task
from tests.kubelet.node import NAME, Node

pytestmark = pytest.mark.kubelet
IMPATIENT = [
    {"key": f"node.kubernetes.io/{each}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}
    for each in ("not-ready", "unreachable")
]


SPARE = "spare"
LEASES = "kube-node-lease"
RENEWED_EVERY = 5.0  # seconds; a node whose Lease is older than 40 is lost


@pytest.fixture
def _spare_node(api: Api) -> Iterator[None]:
    """A second node that is ready and takes no pods: Kubernetes evicts nothing while all nodes are lost."""
    taint = {"key": "spare", "effect": "NoExecute"}
    api.create("Node", "", {"metadata": {"name": SPARE}, "spec": {"unschedulable": True, "taints": [taint]}})
    ready = {"type": "Ready", "status": "True", "reason": "Spare", "message": "", "lastHeartbeatTime": _now()}
    api.patch("Node", "", SPARE, {"status": {"conditions": [ready]}}, "status")
    api.create("Lease", LEASES, {"metadata": {"name": SPARE}, "spec": {"holderIdentity": SPARE, "renewTime": _now()}})
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED_EVERY):
            api.patch("Lease", LEASES, SPARE, {"spec": {"renewTime": _now()}})

    renewal = threading.Thread(target=renew)
    renewal.start()
    try:
        yield
    finally:
        ended.set()
        renewal.join()
        api.delete("Lease", LEASES, SPARE)
        api.delete("Node", "", SPARE)


def _now() -> str:
    now = dt.datetime.now(dt.UTC)  # noqa: TID251 - the Lease of a real cluster
    return to_microseconds(now)


@pytest.mark.usefixtures("_spare_node")
def test_the_job_names_the_node_and_restarts_when_it_is_back(node: Node, jobs: Jobs) -> None:
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    jobs.create(job("lost", task(replicas=2, pod={"tolerations": IMPATIENT}), policies=policies))
    jobs.until_running("lost", 2)
    before = {each["metadata"]["uid"] for each in jobs.pods()}
    node.kubelet.pause()
    try:
        eventually("the node is lost", lambda: not node.is_ready())
        eventually("the pods are evicted", lambda: all("deletionTimestamp" in pod["metadata"] for pod in jobs.pods()))
        eventually("the Job names the node", lambda: NAME in jobs.state("lost").get("message", ""))
    finally:
        node.kubelet.resume()
    eventually("the node is back", node.is_ready)
    eventually("it restarted", lambda: jobs.status("lost").get("retryCount", 0) >= 1)
    jobs.until_phase("lost", "Running")
    jobs.until_running("lost", 2)
    assert not before & {each["metadata"]["uid"] for each in jobs.pods()}

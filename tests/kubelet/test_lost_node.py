"""A node that does not answer: the Job says so, and goes on when the node is back."""

from __future__ import annotations

import pytest

from tests.cluster.api import eventually
from tests.kubelet.jobs import Jobs, job, task
from tests.kubelet.node import NAME, Node

pytestmark = pytest.mark.kubelet
IMPATIENT = [
    {"key": f"node.kubernetes.io/{each}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}
    for each in ("not-ready", "unreachable")
]


def test_the_job_names_the_node_and_restarts_when_it_is_back(node: Node, jobs: Jobs) -> None:
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    jobs.create(job("lost", task(replicas=2, pod={"tolerations": IMPATIENT}), policies=policies))
    jobs.until_running("lost", 2)
    before = {each["metadata"]["uid"] for each in jobs.pods()}
    node.kubelet.pause()
    try:
        eventually("the node is lost", lambda: not node.is_ready())
        eventually("the pods are evicted", lambda: all("deletionTimestamp" in pod["metadata"] for pod in jobs.pods()))
        eventually("the Job names the node", lambda: NAME in jobs.state("lost").get("message", ""), within=60)
    finally:
        node.kubelet.resume()
    eventually("the node is back", node.is_ready)
    eventually("it restarted", lambda: jobs.status("lost").get("retryCount", 0) >= 1)
    jobs.until_phase("lost", "Running")
    jobs.until_running("lost", 2)
    assert not before & {each["metadata"]["uid"] for each in jobs.pods()}

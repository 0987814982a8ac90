"""Scaling a job whose pods reach each other by ssh: nothing that running pods have goes away."""

from __future__ import annotations

import json

import pytest

from tests.cluster.api import Object, eventually
from tests.kubelet.jobs import Jobs, container, job, task

pytestmark = [pytest.mark.kubelet, pytest.mark.needs("sshd")]
SSHD = "mkdir -p /run/sshd; /usr/sbin/sshd -D & wait"


def test_keys_stay_and_new_pods_are_reached_and_reach_the_others(jobs: Jobs) -> None:
    plugins: Object = {"env": [], "svc": [], "ssh": []}
    jobs.create(job("plain", task(replicas=2, pod={"containers": [container(SSHD)]}), minAvailable=1, plugins=plugins))
    jobs.until_running("plain", 2)
    secret = jobs.api.get("Secret", jobs.namespace, "plain-ssh")
    keys = _keys(jobs, "plain-w-0")
    assert len(keys) == 4
    _reach(jobs, "plain-w-0", "plain-w-1")

    jobs.kubectl("patch", "vcjob", "plain", "--type=json", "-p", _replicas(3))
    jobs.until_running("plain", 3)
    # kubelet renews all volumes of a pod at once: when the hosts are there, the Secret has been looked at, too.
    for pod in ("plain-w-0", "plain-w-1"):
        eventually("kubelet renewed the hosts", lambda pod=pod: "plain-w-2" in _hosts(jobs, pod))  # type: ignore[misc]  # mypy has no type for such a default

    assert _keys(jobs, "plain-w-0") == _keys(jobs, "plain-w-1") == keys
    assert jobs.api.get("Secret", jobs.namespace, "plain-ssh") == secret
    for source, target in (("0", "1"), ("0", "2"), ("2", "0"), ("1", "2")):
        _reach(jobs, f"plain-w-{source}", f"plain-w-{target}")

    jobs.kubectl("patch", "vcjob", "plain", "--type=merge", "-p", _lower(jobs, 1))
    eventually("two pods are gone", lambda: [each["metadata"]["name"] for each in jobs.pods()] == ["plain-w-0"])
    assert jobs.state("plain")["phase"] == "Running"
    assert _keys(jobs, "plain-w-0") == keys


def _keys(jobs: Jobs, pod: str) -> list[str]:
    return jobs.execute(pod, "ls /root/.ssh")[1].split()


def _hosts(jobs: Jobs, pod: str) -> str:
    return jobs.execute(pod, "cat /etc/volcano/w.host")[1]


def _reach(jobs: Jobs, source: str, target: str) -> None:
    """Log in from one pod to another; sshd may need a moment to start."""

    def reached() -> bool:
        code, printed = jobs.execute(source, f"ssh {target} hostname")
        assert code == 0, printed
        assert target in printed.split()
        return True

    eventually(f"{source} reaches {target}", reached)


def _replicas(number: int) -> str:
    return f'[{{"op": "replace", "path": "/spec/tasks/0/replicas", "value": {number}}}]'


def _lower(jobs: Jobs, number: int) -> str:
    """Lower the replicas and both minimums, which may be defaults."""
    [only] = jobs.api.get("Job", jobs.namespace, "plain")["spec"]["tasks"]
    lowered = {**only, "replicas": number, "minAvailable": number}
    return json.dumps({"spec": {"minAvailable": number, "tasks": [lowered]}})

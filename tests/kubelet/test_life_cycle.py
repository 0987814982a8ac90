"""Policies, suspension and removal with real pods, grace periods and garbage collection."""

from __future__ import annotations

import pytest

from tests.cluster.api import Object, eventually
from tests.kubelet.jobs import Jobs, container, job, task
from tests.kubelet.node import NAME

pytestmark = pytest.mark.kubelet
OWNED = ("Pod", "Service", "ConfigMap", "Secret", "NativePodGroup")
PLUGINS: Object = {"env": [], "svc": [], "ssh": []}


def left(jobs: Jobs) -> list[str]:
    """Return what exists in the namespace, except what Kubernetes puts into each."""
    found = [f"{kind} {each['metadata']['name']}" for kind in OWNED for each in jobs.api.list(kind, jobs.namespace)]
    return [each for each in found if each != "ConfigMap kube-root-ca.crt"]


def test_a_job_restarts_until_its_retries_are_spent(jobs: Jobs) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    pod = {"containers": [container("sleep 1; exit 7")]}
    jobs.create(job("bad", task(pod=pod), task("other"), maxRetry=2, policies=policies))
    status = jobs.until_phase("bad", "Failed")
    assert status["state"]["reason"] == "RetriesExhausted", status
    assert "w-0" in status["state"]["message"], status
    assert "exit code 7" in status["state"]["message"], status


def test_only_the_failed_pod_is_replaced(jobs: Jobs) -> None:
    """It fails the first time and succeeds the second, which a file on the node remembers."""
    script = "test -e /seen/x && exit 0; touch /seen/x; exit 1"
    pod = {
        "containers": [container(script, volumeMounts=[{"name": "seen", "mountPath": "/seen"}])],
        "volumes": [{"name": "seen", "hostPath": {"path": f"/run/{jobs.namespace}", "type": "DirectoryOrCreate"}}],
    }
    other = task("other", pod={"containers": [container("sleep 8")]})
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    jobs.create(job("again", task(pod=pod), other, policies=policies))
    jobs.until_running("again", 1)
    before = jobs.pod("again-other-0")["metadata"]["uid"]
    status = jobs.until_phase("again", "Completed")
    assert status["retryCount"] == 1
    assert jobs.pod("again-other-0")["metadata"]["uid"] == before


def test_the_others_end_in_their_grace_period_when_a_task_completes(jobs: Jobs) -> None:
    last = task(
        pod={"containers": [container("sleep 2")]}, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]
    )
    slow = {
        "containers": [{**container(), "command": ["sh", "-c", "trap 'sleep 4; exit 0' TERM; sleep 600 & wait"]}],
        "terminationGracePeriodSeconds": 30,
    }
    jobs.create(job("done", last, task("slow", 2, pod=slow), minAvailable=3))
    jobs.until_phase("done", "Completing")
    jobs.until_phase("done", "Completed")


@pytest.mark.parametrize("flags", [("--wait=false",), ("--force", "--grace-period=0")], ids=["delete", "force"])
def test_a_removed_pod_restarts_the_job(jobs: Jobs, flags: tuple[str, ...]) -> None:
    jobs.create(job("robbed", task(replicas=2), policies=[{"event": "PodEvicted", "action": "RestartJob"}]))
    jobs.until_running("robbed", 2)
    before = {each["metadata"]["uid"] for each in jobs.pods()}
    jobs.kubectl("delete", "pod", "robbed-w-1", *flags)
    eventually("it restarted", lambda: jobs.status("robbed").get("retryCount") == 1)
    jobs.until_phase("robbed", "Running")
    jobs.until_running("robbed", 2)
    assert not before & {each["metadata"]["uid"] for each in jobs.pods()}


def test_suspended_and_resumed_with_the_same_keys(jobs: Jobs) -> None:
    jobs.create(job("paused", task(replicas=2), plugins=PLUGINS))
    jobs.until_running("paused", 2)
    secret = jobs.api.get("Secret", jobs.namespace, "paused-ssh")["data"]
    jobs.patch("paused", {"suspend": True})
    status = jobs.until_phase("paused", "Aborted")
    assert status["state"]["reason"] == "Suspended"
    assert jobs.pods() == []
    jobs.patch("paused", {"suspend": False})
    jobs.until_phase("paused", "Running")
    jobs.until_running("paused", 2)
    assert jobs.api.get("Secret", jobs.namespace, "paused-ssh")["data"] == secret


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_a_job_deleted_while_it_runs_leaves_nothing(jobs: Jobs, cascade: str) -> None:
    jobs.create(job("gone", task(replicas=2), plugins=PLUGINS))
    jobs.until_running("gone", 2)
    assert len(left(jobs)) == 6
    jobs.kubectl("delete", "vcjob", "gone", f"--cascade={cascade}")
    eventually("nothing is left", lambda: left(jobs) == [])


def test_a_finished_job_goes_after_its_time_to_live(jobs: Jobs) -> None:
    short = task(pod={"containers": [container("exit 0")]})
    jobs.create(job("brief", short, plugins=PLUGINS, ttlSecondsAfterFinished=3))
    eventually("it ran", jobs.pods)
    eventually("nothing is left", lambda: jobs.api.find("Job", jobs.namespace, "brief") is None and left(jobs) == [])


def test_the_deadline_of_a_job_ends_its_pods(jobs: Jobs) -> None:
    jobs.create(job("long", task(replicas=2), activeDeadlineSeconds=4))
    state = jobs.until_phase("long", "Failed")["state"]
    assert state["reason"] == "DeadlineExceeded"
    eventually("no pod runs", lambda: jobs.pods() == [])


def test_a_gang_waits_as_a_whole_until_there_is_room(jobs: Jobs) -> None:
    room = jobs.api.get("Node", "", NAME)["status"]["allocatable"]["cpu"]
    half = {"requests": {"cpu": f"{int(room) * 1000 // 4}m"}}
    first, second = (
        job(name, task(replicas=3, pod={"containers": [container(script, resources=half)]}))
        for name, script in (("first", "sleep 10"), ("second", "sleep 1"))
    )
    jobs.create(first)
    jobs.until_running("first", 3)
    jobs.create(second)
    state = eventually("it says why it waits", lambda: _unschedulable(jobs, "second"))
    # The scheduler speaks of their group, or first of one of the pods.
    assert any(why in state["message"] for why in ("minCount", "Insufficient cpu")), state
    assert jobs.status("second").get("running", 0) == 0
    jobs.until_phase("second", "Completed")


def _unschedulable(jobs: Jobs, name: str) -> dict[str, str]:
    state = jobs.state(name)
    return state if state.get("reason") == "Unschedulable" else {}


def test_a_drained_node_restarts_the_job_when_it_is_back(jobs: Jobs) -> None:
    jobs.create(job("moved", task(replicas=2), policies=[{"event": "PodEvicted", "action": "RestartJob"}]))
    jobs.until_running("moved", 2)
    try:
        jobs.cluster.kubectl("drain", NAME, "--pod-selector=volcano.sh/job-name=moved", "--timeout=60s")
    finally:
        jobs.cluster.kubectl("uncordon", NAME)
    eventually("it restarted", lambda: jobs.status("moved").get("retryCount", 0) >= 1)
    jobs.until_phase("moved", "Running")
    jobs.until_running("moved", 2)

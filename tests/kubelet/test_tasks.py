"""Tasks with real pods: names and host files, dependencies by readiness, partitions, exit codes, sidecars."""

from __future__ import annotations

import pytest

from tests.cluster.api import Object, eventually
from tests.kubelet.jobs import Jobs, container, job, task

pytestmark = pytest.mark.kubelet


def remembering(jobs: Jobs, script: str) -> Object:
    """A pod with /seen, which the pods of a test share and which outlives them."""
    folder = {"path": f"/run/{jobs.namespace}", "type": "DirectoryOrCreate"}
    return {
        "containers": [container(script, volumeMounts=[{"name": "seen", "mountPath": "/seen"}])],
        "volumes": [{"name": "seen", "hostPath": folder}],
    }


def test_the_example_of_the_env_plugin(jobs: Jobs) -> None:
    jobs.apply_example("env-plugin.yaml")
    jobs.until_phase("shards", "Completed")
    lines = [jobs.logs(f"shards-worker-{index}").strip() for index in range(4)]
    assert lines == [f"shard {index} of 4" for index in range(4)]


@pytest.mark.needs("busybox")
def test_the_example_of_the_svc_plugin(jobs: Jobs) -> None:
    jobs.apply_example("svc-plugin.yaml")
    jobs.until_phase("lookup", "Completed")


def test_a_task_waits_until_the_one_it_depends_on_is_ready(jobs: Jobs) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    server = {"containers": [container("sleep 6; touch /tmp/ready; sleep 600", readinessProbe=probe)]}
    client = {"containers": [container("exit 0")]}
    last = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    jobs.create(
        job(
            "ordered",
            task("server", pod=server),
            task("client", pod=client, dependsOn={"name": ["server"]}, policies=last),
        )
    )
    eventually("the client exists", lambda: jobs.api.find("Pod", jobs.namespace, "ordered-client-0"))
    ready = next(each for each in jobs.pod("ordered-server-0")["status"]["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "True"
    assert ready["lastTransitionTime"] <= jobs.pod("ordered-client-0")["metadata"]["creationTimestamp"]
    jobs.until_phase("ordered", "Completed")


def test_a_failed_pod_restarts_its_partition_only(jobs: Jobs) -> None:
    script = 'test "$VC_TASK_INDEX" = 1 -a ! -e /seen/x && sleep 4 && touch /seen/x && exit 1; sleep 600'
    partitions = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
    policies = [{"event": "PodFailed", "action": "RestartPartition"}]
    pods = task(replicas=4, pod=remembering(jobs, script), partitionPolicy=partitions, policies=policies)
    jobs.create(job("parts", pods, plugins={"env": [], "svc": []}))
    jobs.until_running("parts", 4)
    before = {each["metadata"]["name"]: each["metadata"]["uid"] for each in jobs.pods()}
    eventually("it restarted", lambda: jobs.status("parts").get("retryCount") == 1)
    jobs.until_running("parts", 4)
    after = {each["metadata"]["name"]: each["metadata"]["uid"] for each in jobs.pods()}
    assert {name for name in before if before[name] != after[name]} == {"parts-w-0", "parts-w-1"}


def test_a_policy_for_an_exit_code(jobs: Jobs) -> None:
    policies = [{"exitCodes": [64], "action": "AbortJob"}, {"event": "PodFailed", "action": "RestartJob"}]
    jobs.create(job("input", task(pod={"containers": [container("exit 64")]}), policies=policies))
    status = jobs.until_phase("input", "Aborted")
    assert status.get("retryCount", 0) == 0


def test_a_sidecar_does_not_keep_a_job_from_completing(jobs: Jobs) -> None:
    sidecar = {**container(), "name": "side", "restartPolicy": "Always"}
    jobs.create(job("aside", task(pod={"containers": [container("sleep 2")], "initContainers": [sidecar]})))
    jobs.until_phase("aside", "Completed")


def test_a_container_that_fails_twice_restarts_in_its_pod(jobs: Jobs) -> None:
    script = "test -e /seen/2 && exit 0; test -e /seen/1 && touch /seen/2; touch /seen/1; exit 1"
    jobs.create(job("stubborn", task(pod={**remembering(jobs, script), "restartPolicy": "OnFailure"})))
    status = jobs.until_phase("stubborn", "Completed")
    assert status.get("retryCount", 0) == 0
    [pod] = jobs.pods()
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 2

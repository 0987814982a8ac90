"""Why a Job failed, in kubelet's words: its reason and message first, then how the container ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.api import Object
from tests.kubelet.jobs import Jobs, container, job, task

pytestmark = pytest.mark.kubelet
EAT = "exec tail /dev/zero"  # keeps the last line, which never ends
SMALL = {"limits": {"memory": "32Mi"}}

# The pod, the reason of the job, and what its message says.
CAUSES: dict[str, tuple[Object, str, list[str]]] = {
    "evicted": (
        {
            "containers": [
                container(
                    "head -c 3000000 /dev/zero > /s/x; sleep 600", volumeMounts=[{"name": "s", "mountPath": "/s"}]
                )
            ],
            "volumes": [{"name": "s", "emptyDir": {"sizeLimit": "1Mi"}}],
        },
        "Evicted",
        ["w-0", 'Usage of EmptyDir volume "s" exceeds the limit "1Mi"'],
    ),
    "deadline": (
        {"activeDeadlineSeconds": 3},
        "DeadlineExceeded",
        ["w-0", "Pod was active on the node longer than"],
    ),
    "noprogram": (
        {"containers": [{**container(), "command": ["nosuchprogram"]}]},
        "PodFailed",
        ["w-0", "StartError", 'exec: "nosuchprogram": executable file not found in $PATH'],
    ),
    "oom": ({"containers": [container(EAT, resources=SMALL)]}, "OOMKilled", ["w-0", "OOMKilled"]),
    "code": ({"containers": [container("exit 7")]}, "PodFailed", ["w-0", "exit code 7"]),
    "init": (
        {"initContainers": [{**container("exit 9"), "name": "first"}]},
        "PodFailed",
        ["w-0", "exit code 9", "first"],
    ),
}


@pytest.fixture(scope="module")
def failed(controller: object, request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """All jobs of the table at once, because each takes a while to fail."""
    jobs = Jobs(request.getfixturevalue("cluster"), "causes")
    jobs.cluster.make_namespace(jobs.namespace)
    for name, (pod, _, _) in CAUSES.items():
        jobs.create(job(name, task(pod=pod)))
    policies = [{"event": "PodEvicted", "action": "AbortJob"}]
    jobs.create(job("policy", task(pod=CAUSES["evicted"][0]), policies=policies))
    yield jobs
    jobs.remove_namespace()


@pytest.mark.parametrize("name", CAUSES)
def test_the_job_names_the_cause(failed: Jobs, name: str) -> None:
    _, reason, words = CAUSES[name]
    state = failed.until_phase(name, "Failed")["state"]
    assert state["reason"] == reason, state
    for each in words:
        assert each in state["message"], state


def test_an_eviction_by_kubelet_meets_the_policy_for_evictions(failed: Jobs) -> None:
    failed.until_phase("policy", "Aborted")

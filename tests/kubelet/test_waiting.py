"""A Job whose pods cannot start says why, in kubelet's words, until they do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.api import Object, eventually
from tests.kubelet.jobs import Jobs, container, job, task

pytestmark = pytest.mark.kubelet
MISSING = [{"configMapRef": {"name": "settings"}}]

# The container, the restart policy, the reasons of kubelet, and what the message says.
WAITING: dict[str, tuple[Object, str, set[str], str]] = {
    "nopull": (
        {"image": "127.0.0.1:5999/none:1"},
        "Never",
        {"ErrImagePull", "ImagePullBackOff"},
        "127.0.0.1:5999/none:1",
    ),
    "noconfig": ({"envFrom": MISSING}, "Never", {"CreateContainerConfigError"}, 'configmap "settings" not found'),
    "crashing": (container("exit 3"), "OnFailure", {"CrashLoopBackOff"}, "back-off"),
}


@pytest.fixture(scope="module")
def waiting(controller: object, request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """All jobs of the table at once, because each waits for a while."""
    jobs = Jobs(request.getfixturevalue("cluster"), "waiting")
    jobs.cluster.make_namespace(jobs.namespace)
    for name, (fields, restart, _, _) in WAITING.items():
        pod: Object = {"containers": [{**container(), **fields}], "restartPolicy": restart}
        jobs.create(job(name, task(pod=pod)))
    yield jobs
    jobs.remove_namespace()


@pytest.mark.parametrize("name", WAITING)
def test_the_job_says_what_its_pod_waits_for(waiting: Jobs, name: str) -> None:
    _, _, reasons, words = WAITING[name]

    def says() -> bool:
        state = waiting.state(name)
        assert state.get("reason") in reasons, state
        assert words in state["message"], state
        assert "w-0" in state["message"], state
        return True

    eventually(f"{name} says why it waits", says)
    printed = eventually(
        "an event says so, too", lambda: [event for event in waiting.events(name) if event["reason"] in reasons]
    )
    assert len(printed) == 1, printed


def test_the_reason_goes_when_the_pod_runs(waiting: Jobs) -> None:
    eventually("it waits", lambda: waiting.state("noconfig").get("reason") == "CreateContainerConfigError")
    waiting.api.create("ConfigMap", waiting.namespace, {"metadata": {"name": "settings"}, "data": {"A": "1"}})
    waiting.until_phase("noconfig", "Running")
    eventually("the reason is gone", lambda: waiting.state("noconfig").get("reason", "") == "")


def test_a_policy_for_pending_pods_names_what_they_wait_for(jobs: Jobs) -> None:
    pod = {"containers": [{**container(), "image": "127.0.0.1:5999/none:1"}]}
    policy = {"event": "PodPending", "action": "AbortJob", "timeout": "5s"}
    jobs.create(job("pending", task(pod=pod), policies=[policy]))
    state = jobs.until_phase("pending", "Aborted")["state"]
    assert "PodPending" in state["message"], state
    assert "ImagePull" in state["message"], state

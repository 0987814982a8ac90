"""The client reads what only a real node has: logs of containers and their restarts, and what kubelet says of pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.api import Api, Object, eventually
from tests.kubelet.jobs import Jobs, container, job, task
from tests.kubelet.outside import OutsideController
from tests.kubelet.typist import Typist

pytestmark = pytest.mark.kubelet
SHARED: Object = {
    "volumes": [{"name": "s", "emptyDir": {}}],
    "initContainers": [container("echo prepared", name="prepare")],
}
MOUNT: Object = {"volumeMounts": [{"name": "s", "mountPath": "/s"}]}
# A kubelet keeps the log of the execution before the newest one only while this one runs.
TWICE = """
[ -e /s/tried ] || { echo try 0; touch /s/tried; exit 1; }
echo try 1
until [ -e /s/done ]; do sleep 0.2; done
"""
GROWS = "echo begun; head -c 3000000 /dev/zero > /s/x; sleep 600"
KEY: Object = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "token", "key": "absent"}}}]}

# The pod, and what `why` says of its Job.
WAITING: dict[str, tuple[Object, list[str]]] = {
    "nopull": ({"containers": [{**container(), "image": "127.0.0.1:5999/none:1"}]}, ["127.0.0.1:5999/none:1"]),
    "crashing": (
        {"containers": [container("echo ValueError; exit 3")], "restartPolicy": "OnFailure"},
        ["CrashLoopBackOff", "exit code 3", "pumice logs crashing/w-0 --tail 30 --on admin"],
    ),
    "nokey": ({"containers": [container(**KEY)]}, ["absent", "add key absent to Secret token"]),
    "unmatched": ({"nodeSelector": {"gpu": "a100"}}, ["didn't match Pod's node affinity/selector"]),
    "tainted": ({"nodeSelector": {"kubernetes.io/hostname": "second"}}, ["untolerated taint"]),
    "toolarge": ({"containers": [container(resources={"requests": {"cpu": "64"}})]}, ["cpu"]),
    "lost": ({"nodeName": "second"}, ["node second does not answer: nothing is known of w-0"]),
}


@pytest.fixture(scope="module")
def typists(controller: OutsideController, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Jobs, Typist]]:
    """All jobs at once, because each waits for a while. No kubelet serves the second node."""
    cluster = controller.cluster
    jobs, api = Jobs(cluster, "reading"), cluster.api()
    cluster.make_namespace(jobs.namespace)
    labels = {"kubernetes.io/hostname": "second"}
    taint = {"key": "repair", "effect": "NoSchedule"}
    api.create("Node", "", {"metadata": {"name": "second", "labels": labels}, "spec": {"taints": [taint]}})
    # It is lost a while later, because nobody renews this.
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    api.patch("Node", "", "second", {"status": {"conditions": [ready]}}, "status")
    api.create("Secret", jobs.namespace, {"metadata": {"name": "token"}, "stringData": {"other": "1"}})
    for name, (pod, _) in WAITING.items():
        jobs.create(job(name, task(pod=pod)))
    _run_without_kubelet(jobs, "lost-w-0")
    try:
        yield jobs, Typist.there(tmp_path_factory.mktemp("reader"), cluster, jobs.namespace)
    finally:
        jobs.remove_namespace()
        api.delete("Node", "", "second")


def _run_without_kubelet(jobs: Jobs, name: str) -> None:
    """Write the status of a pod that its node would write, were there one."""
    eventually("the pod exists", lambda: jobs.api.find("Pod", jobs.namespace, name))
    ready = {"type": "Ready", "status": "True"}
    state = {"running": {"startedAt": "2026-11-17T12:00:00Z"}}
    ran = {"name": "c", "image": "busybox", "imageID": "", "ready": True, "restartCount": 0, "state": state}
    status = {"phase": "Running", "conditions": [ready], "containerStatuses": [ran]}
    jobs.api.patch("Pod", jobs.namespace, name, {"status": status}, "status")


@pytest.mark.parametrize("name", WAITING)
def test_why_says_what_the_pod_waits_for(typists: tuple[Jobs, Typist], name: str) -> None:
    typist = typists[1]
    words = WAITING[name][1]

    def says() -> bool:
        said = typist.run("why", name).stdout
        assert all(word in said for word in words), said
        return True

    eventually(f"why {name}", says)


def test_logs_have_init_containers_and_restarts_once_each(typists: tuple[Jobs, Typist]) -> None:
    jobs, typist = typists
    pod = {**SHARED, "containers": [container(TWICE, **MOUNT)], "restartPolicy": "OnFailure"}
    jobs.create(job("again", task(replicas=2, pod=pod)))
    lines = ["prepared\n", "try 0\n", "try 1\n"]
    with typist.started("logs", "-f", "again", "--no-prefix") as followed:
        for index in (0, 1):
            typist.until("try 1", "logs", f"again/w-{index}")
            said = typist.run("logs", f"again/w-{index}", "--no-prefix").stdout
            assert said.splitlines(keepends=True) == lines
        assert typist.run("logs", "again", "--previous", "--no-prefix").stdout == 2 * "try 0\n"
        assert typist.run("logs", "again/w-0", "-c", "prepare", "--no-prefix").stdout == "prepared\n"
        for index in (0, 1):
            assert typist.run("exec", f"again/w-{index}", "--", "touch", "/s/done").returncode == 0
        assert followed.ended() == 0, followed.err
    assert sorted(followed.out) == sorted(2 * lines)


def test_a_pod_is_evicted_while_its_log_is_read(typists: tuple[Jobs, Typist]) -> None:
    jobs, typist = typists
    volumes = [{"name": "s", "emptyDir": {"sizeLimit": "1Mi"}}]
    jobs.create(job("evicted", task(pod={"containers": [container(GROWS, **MOUNT)], "volumes": volumes})))
    with typist.started("logs", "-f", "evicted") as followed:
        assert followed.ended() == 0, followed.err
    assert followed.out == ["w-0  begun\n"]
    assert typist.run("wait", "evicted").returncode == 100
    said = typist.run("why", "evicted").stdout
    assert 'Usage of EmptyDir volume "s" exceeds the limit "1Mi"' in said, said


@pytest.fixture
def log_tails(controller: OutsideController) -> Iterator[None]:
    """The controller keeps the ends of logs."""
    controller.stop()
    controller.flags = ("--keep-log-tails",)
    controller.start()
    controller.wait_until_it_leads()
    yield
    controller.stop()
    controller.flags = ()
    controller.start()
    controller.wait_until_it_leads()


@pytest.mark.usefixtures("log_tails")
def test_the_last_lines_of_earlier_attempts_are_kept(
    jobs: Jobs, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> None:
    typist = Typist.there(tmp_path_factory.mktemp("reader"), jobs.cluster, jobs.namespace)
    pod = {"containers": [container("echo ValueError: nan; exit 3")]}
    jobs.create(job("retries", task(pod=pod, policies=[{"event": "PodFailed", "action": "RestartJob"}]), maxRetry=2))
    assert typist.run("wait", "retries").returncode == 100
    names = [each["metadata"]["name"] for each in api.list("Secret", jobs.namespace)]
    assert names == ["retries-log-tails"]
    assert typist.run("logs", "retries", "--attempt", "1").stdout == "w-0  ValueError: nan\n"
    assert "ValueError: nan" in typist.run("why", "retries").stdout

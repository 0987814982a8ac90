"""A Job says in the words of kubelet why its pods cannot start, why they failed, and which node does not answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import pod_status
from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers
from tests.cluster.fake_kubelet import RUN_UNTIL_STOPPED, FakeKubelet, PodScript
from tests.cluster.jobs import a_job, reasons, state, until_phase
from tests.cluster.kubelet import NODE

# As a kubelet writes them.
PULL = pod_status.waiting("ErrImagePull", 'failed to pull and unpack image "127.0.0.1:5999/none:1": connection refused')
BACK_OFF = pod_status.waiting("ImagePullBackOff", 'Back-off pulling image "127.0.0.1:5999/none:1"')
CRASHES = pod_status.waiting("CrashLoopBackOff", "back-off 10s restarting failed container=main pod=crash-worker-0")
OVER_LIMIT = 'Usage of EmptyDir volume "s" exceeds the limit "1Mi". '


def behaviour(pod: Object) -> PodScript:
    if pod["metadata"]["name"].startswith("pull-"):
        return PodScript(pending=True)
    return PodScript(deletion_seconds=3600) if pod["metadata"]["name"].startswith("lost-") else RUN_UNTIL_STOPPED


@pytest.fixture
def kubelet(pumice_cluster: Cluster, controllers: Controllers, namespace: str) -> Iterator[FakeKubelet]:
    controllers.start(namespace)
    with FakeKubelet(pumice_cluster, namespace, behaviour) as kubelet:
        yield kubelet


def test_status_and_events_say_why(api: Api, namespace: str, kubelet: FakeKubelet) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodEvicted", "action": "AbortJob"}]
    for name in ("pull", "crash", "evict", "lost"):
        api.create("Job", namespace, a_job(name, 1, policies=policies if name == "evict" else []))
    for name in ("crash", "evict", "lost"):
        until_phase(api, namespace, "Running", name)

    def reason(name: str, wanted: str) -> str:
        def reached() -> tuple[str]:
            found = state(api, namespace, name)
            assert found.get("reason", "") == wanted, found
            return (str(found.get("message", "")),)

        return eventually(f"{name} {wanted}", reached)[0]

    # The node of this pod does not answer, so that the pod stays although its grace period is over.
    api.delete("Pod", namespace, "lost-worker-0", {"gracePeriodSeconds": 1})

    eventually("the pod", lambda: kubelet.newest_pod("pull-worker-0"))
    kubelet.show("pull-worker-0", PULL)
    assert reason("pull", "ErrImagePull").startswith("worker-0 waits: ErrImagePull: failed to pull and unpack image")
    kubelet.show("crash-worker-0", CRASHES, restarts=1)
    assert reason("crash", "CrashLoopBackOff").startswith("worker-0 waits: CrashLoopBackOff: back-off 10s")
    kubelet.evict_over_limit("evict-worker-0", OVER_LIMIT)
    until_phase(api, namespace, "Aborted", "evict")
    assert reason("evict", "Evicted") == (
        f"worker-0 failed first: Evicted: {OVER_LIMIT.rstrip('. ')}; signal 9 (SIGKILL) in container main; "
        "policy spec.policies[1] PodEvicted: AbortJob"
    )

    for _ in range(5):
        kubelet.show("pull-worker-0", BACK_OFF)
        assert reason("pull", "ImagePullBackOff").startswith("worker-0 waits: ImagePullBackOff: Back-off pulling image")
        kubelet.show("pull-worker-0", PULL)
        kubelet.show("crash-worker-0", pod_status.running(), restarts=1)
        kubelet.show("crash-worker-0", CRASHES, restarts=2)
    assert reason("crash", "CrashLoopBackOff")
    # Nothing changes any more but the time: it has run for ten seconds.
    kubelet.show("crash-worker-0", pod_status.running(), restarts=3)
    kubelet.show("pull-worker-0", pod_status.running())
    assert reason("pull", "") == ""
    assert reason("crash", "") == ""

    assert reason("lost", "NodeLost").startswith(f"node {NODE} does not answer: nothing is known of worker-0;")
    for name, wanted in (("pull", "ErrImagePull"), ("crash", "CrashLoopBackOff"), ("lost", "NodeLost")):
        found = reasons(api, namespace, name)
        assert [
            each for each in found if each in ("ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", "NodeLost")
        ] == [wanted]
    api.delete("Pod", namespace, "lost-worker-0", {"gracePeriodSeconds": 0})

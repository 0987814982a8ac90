"""A Job says in the words of kubelet why its pods cannot start, why they failed, and which node does not answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from pumice.cli.main import main
from tests.cluster import pod_status
from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers
from tests.cluster.fake_kubelet import RUN_UNTIL_STOPPED, FakeKubelet, PodScript
from tests.cluster.jobs import a_job, reasons, state, until_phase
from tests.cluster.kubelet import NODE
from tests.cluster.staged_cluster import Setup

# As a kubelet writes them.
PULL = pod_status.waiting("ErrImagePull", 'failed to pull and unpack image "127.0.0.1:5999/none:1": connection refused')
BACK_OFF = pod_status.waiting("ImagePullBackOff", 'Back-off pulling image "127.0.0.1:5999/none:1"')
CRASHES = pod_status.waiting("CrashLoopBackOff", "back-off 10s restarting failed container=main pod=crash-worker-0")
TOO_MUCH = "a LimitRange of namespace NS refuses the pods: maximum memory per Container is 4Gi, but limit is 8Gi"
INSECURE = "PodSecurity baseline:latest of namespace NS refuses the pods: host namespaces (hostNetwork=true)"
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


def _quota(at: Setup) -> Object:
    hard = {"requests.cpu": "3"}
    at.api.create("ResourceQuota", at.namespace, {"metadata": {"name": "team"}, "spec": {"hard": hard}})
    eventually("the quota is known", lambda: at.api.get("ResourceQuota", at.namespace, "team").get("status"))
    return a_job("train", 1) | {"spec": _needs(cpu="8")}


def _limit_range(at: Setup) -> Object:
    limit = {"type": "Container", "max": {"memory": "4Gi"}}
    at.api.create("LimitRange", at.namespace, {"metadata": {"name": "small"}, "spec": {"limits": [limit]}})
    return a_job("train", 1) | {"spec": _needs(memory="8Gi")}


def _needs(**amounts: str) -> Object:
    container = {"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
    return {"tasks": [{"name": "worker", "replicas": 1, "template": {"spec": {"containers": [container]}}}]}


def _pod_security(at: Setup) -> Object:
    at.label(**{"pod-security.kubernetes.io/enforce": "baseline"})
    job = a_job("train", 1)
    job["spec"]["tasks"][0]["template"]["spec"]["hostNetwork"] = True
    return job


def _missing_claim(_at: Setup) -> Object:
    return a_job("train", 1, volumes=[{"mountPath": "/data", "volumeClaimName": "data"}])


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        pytest.param(
            _quota,
            ("Quota", "ResourceQuota team has no room: requests.cpu: 8 wanted, 3 of 3 free, 5 short"),
            id="quota",
        ),
        pytest.param(
            _limit_range,
            (
                "Admission",
                "a LimitRange of namespace NS refuses the pods: maximum memory per Container is 4Gi, but limit is 8Gi",
            ),
            id="LimitRange",
        ),
        pytest.param(
            _pod_security,
            (
                "Admission",
                "PodSecurity baseline:latest of namespace NS refuses the pods: host namespaces (hostNetwork=true)",
            ),
            id="PodSecurity",
        ),
        pytest.param(_missing_claim, ("Volume", "PersistentVolumeClaim data does not exist"), id="claim"),
    ],
)
def test_the_status_has_the_sentence_of_why(
    controllers: Controllers,
    namespace: str,
    capsys: pytest.CaptureFixture[str],
    stage: Callable[[Setup], Object],
    said: tuple[str, str],
) -> None:
    code, sentence = said
    at, sentence = Setup(controllers.cluster, namespace), sentence.replace("NS", namespace)
    controllers.start(namespace)
    at.api.create("Job", namespace, stage(at))
    eventually("the status says why", lambda: state(at.api, namespace, "train").get("message") == sentence)
    config = str(controllers.cluster.kubeconfig(namespace=namespace))
    eventually("the event is there", lambda: reasons(at.api, namespace, "train"))
    assert main(["why", "train", "--on", "admin", "--kubeconfig", config, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["code"], found["message"]) == (code, sentence)


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

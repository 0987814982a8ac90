"""Why a Job on a cluster waits, restarts or has failed, on a real API server; the answers are in `why_answers.txt`.

What the API server refuses is its own text. What needs Volcano's controller or scheduler, an autoscaler or a kubelet is
written in their formats.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pumice.cli.main import main
from pumice.diagnosis.why import WhyCode
from tests.cluster.api import Object, eventually
from tests.cluster.cluster import Cluster, free_port
from tests.cluster.staged_cluster import GPU, Setup, refusing_webhook, unschedulable
from tests.cluster.staged_jobs import RUNNING, running, terminated, timestamp, waiting

ANSWERS = Path(__file__).with_name("why_answers.txt")
NO_GPU = f"0/2 nodes are unavailable: 2 Insufficient {GPU}."
TAINT = {"key": "team", "value": "vision", "effect": "NoSchedule"}
# What a program may print, or a person may write: escape sequences, line breaks, text that runs backwards.
HOSTILE = "\x1b]0;owned\x07\x1b[2Jfirst\r\nsecond \u202egnp.exe"


def needs(**resources: str) -> Object:
    amounts = {name.replace("gpu", GPU): amount for name, amount in resources.items()}
    container = {"name": "main", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
    return {"containers": [container]}


def quota(at: Setup) -> None:
    hard = {"requests.cpu": "3"}
    at.api.create("ResourceQuota", at.namespace, {"metadata": {"name": "team"}, "spec": {"hard": hard}})
    eventually("the quota is known", lambda: at.api.get("ResourceQuota", at.namespace, "team").get("status"))
    job = at.job(pod_spec=needs(cpu="8"))
    job.phases("Pending")
    at.refused_pod(job)


def limit_range(at: Setup) -> None:
    limit = {"type": "Container", "max": {"memory": "4Gi"}}
    at.api.create("LimitRange", at.namespace, {"metadata": {"name": "small"}, "spec": {"limits": [limit]}})
    job = at.job(pod_spec=needs(memory="8Gi"))
    job.phases("Pending")
    at.refused_pod(job)


def pod_security(at: Setup) -> None:
    at.label(**{"pod-security.kubernetes.io/enforce": "restricted"})
    job = at.job()
    job.phases("Pending")
    at.refused_pod(job)


def webhook_refusal(at: Setup) -> None:
    with refusing_webhook(at.cluster) as url:
        at.webhook(url)
        job = at.job()
        job.phases("Pending")
        eventually("the webhook is called", lambda: "images" in refusal_of(at, job.pod_manifest(0)))
        at.refused_pod(job)


def webhook_down(at: Setup) -> None:
    at.webhook(f"https://127.0.0.1:{free_port()}/")
    job = at.job()
    job.phases("Pending")
    eventually("the webhook is called", lambda: "images" in refusal_of(at, job.pod_manifest(0)))
    at.refused_pod(job)


def refusal_of(at: Setup, pod: Object) -> str:
    answer = at.api.ask("POST", f"/api/v1/namespaces/{at.namespace}/pods?dryRun=All", pod)
    return "" if answer.status < 300 else str(answer.body["message"])


def service_account(at: Setup) -> None:
    job = at.job(pod_spec={"serviceAccountName": "trainer"})
    job.phases("Pending")
    at.refused_pod(job)


def missing_claim(at: Setup) -> None:
    job = at.job(volumes=[{"mountPath": "/data", "volumeClaimName": "data"}])
    job.phases("Pending")
    job.event("PVCError", "Failed to create PVC, err: pvc data is not found, the job will be in the Pending state")


def unbound_claim(at: Setup) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    job = at.job(1, pod_spec={"volumes": volumes})
    job.phases("Pending", pending=1)
    claim = at.claim("data")
    job.event("ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found', about=claim)
    job.unscheduled_pod(0, "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.")


def missing_secret_key(at: Setup) -> None:
    job = at.job(1)
    text = f"couldn't find key token in Secret {at.namespace}/hub"
    job.pod(0, "Pending", waiting("CreateContainerConfigError", text))
    job.phases("Pending", pending=1)


def image(at: Setup) -> None:
    job = at.job(1)
    pod = job.pod(0, "Pending", waiting("ImagePullBackOff", 'Back-off pulling image "busybox"'))
    job.event("Failed", 'Failed to pull image "busybox": not found', about={"kind": "Pod", **pod})
    job.phases("Pending", pending=1)


def too_large(at: Setup) -> None:
    at.node("gpu-1", gpus="8")
    at.node("cpu-1")
    job = at.job(1, pod_spec=needs(gpu="16"))
    job.phases("Pending", pending=1)
    job.unscheduled_pod(0, f"0/2 nodes are available: 2 Insufficient {GPU}. preemption: 0/2 nodes are available.")


def tainted(at: Setup) -> None:
    at.node("gpu-1", TAINT)
    at.node("gpu-2", TAINT)
    job = at.job(1)
    job.phases("Pending", pending=1)
    job.unscheduled_pod(0, "0/2 nodes are available: 2 node(s) had untolerated taint(s).")


def unmatched(at: Setup) -> None:
    at.node("cpu-1", labels={"disktype": "ssd"})
    job = at.job(1, pod_spec={"nodeSelector": {"disktype": "nvme"}})
    job.phases("Pending", pending=1)
    job.unscheduled_pod(0, "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")


def part_of_gang(at: Setup) -> None:
    at.node("gpu-1", gpus="8")
    at.node("gpu-2", gpus="4")
    job = at.job(4, pod_spec=needs(gpu="4"))
    for index in range(4):
        job.unscheduled_pod(index, NO_GPU if index == 3 else "pod group is not ready")
    said = (
        "4/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable; "
        f"Pending: 1 Unschedulable, 3 Schedulable. Origin reason is train-worker-3: {NO_GPU}"
    )
    at.pod_group(job, "Inqueue", unschedulable(said))
    job.phases("Pending", pending=4)
    job.event("PodGroupPending", f"PodGroup {at.namespace}:train unschedule,reason: {said}")


def held_by_queue(at: Setup) -> None:
    at.queue("vision", allocated={GPU: "4"}, capability={GPU: "8"})
    job = at.job(2, queue="vision")
    job.phases("Pending")
    group = at.pod_group(job, "Pending", minResources={GPU: "8"})
    job.event("Unschedulable", f"queue resource quota insufficient: insufficient {GPU}", about=group)


def behind_another(at: Setup) -> None:
    at.queue("vision", capability={GPU: "8"}, dequeueStrategy="fifo")
    first = at.job(2, queue="vision")
    at.pod_group(first, "Pending")
    at.api.delete("Job", at.namespace, "train", {"propagationPolicy": "Orphan"})
    eventually("it is gone", lambda: at.api.find("Job", at.namespace, "train") is None)
    eventually("the times differ", lambda: timestamp() > first.manifest["metadata"]["creationTimestamp"])
    job = at.job(2, queue="vision")
    job.phases("Pending")
    group = at.pod_group(job, "Pending", minResources={GPU: "8"})
    job.event("Unschedulable", "queue is in order", about=group)


def no_such_queue(at: Setup) -> None:
    at.queue("vision")
    job = at.job(2, queue="visoin")
    job.phases("Pending")
    at.pod_group(job, "Pending")


def closed_queue(at: Setup) -> None:
    at.queue("vision", state="Closed")
    job = at.job(2, queue="vision")
    job.phases("Pending")
    job.event("PodGroupError", "Failed to create PodGroup, err: can only submit job to queue with state `Open`")


def suspended(at: Setup) -> None:
    at.job(suspend=True).phases(*RUNNING, "Aborted", reason="Suspended", message="spec.suspend is true")


def suspended_by_vcctl(at: Setup) -> None:
    job = at.job()
    job.phases(*RUNNING, "Aborted")
    text = "Start to execute command AbortJob, and clean it up to make sure executed not more than once."
    job.event("CommandIssued", text, "Normal")


def depends_on(at: Setup) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    tasks = [
        {"name": "worker", "replicas": 1, "template": template},
        {"name": "late", "replicas": 2, "template": template, "dependsOn": {"name": ["worker"]}},
    ]
    job = at.job(tasks=tasks)
    pod = job.pod(0, "Running", running(), ready=False)
    conditions = [each for each in pod["status"]["conditions"] if each["type"] != "Ready"]
    unready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": timestamp()}
    about = {"status": {"conditions": [*conditions, unready]}}
    at.api.patch("Pod", at.namespace, "train-worker-0", about, "status")
    said = "Readiness probe failed: dial tcp 10.0.0.7:23456: connect: connection refused"
    job.event("Unhealthy", said, about={"kind": "Pod", **pod})
    job.phases("Pending", running=1)


def crash_loop(at: Setup) -> None:
    job = at.job(1)
    last = terminated(1)
    last["terminated"]["message"] = "Traceback\nModuleNotFoundError: No module named 'torch'\n"
    text = "back-off 40s restarting failed container=main pod=train-worker-0"
    job.pod(0, "Running", waiting("CrashLoopBackOff", text), restarts=3, lastState=last)
    job.phases(*RUNNING, running=1)


def node_lost(at: Setup) -> None:
    at.node("gpu-1")
    job = at.job(1, pod_spec={"nodeName": "gpu-1"})
    pod = job.pod(0, "Running", running())
    conditions = [each for each in pod["status"]["conditions"] if each["type"] != "Ready"]
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": timestamp()}
    at.api.patch("Pod", at.namespace, "train-worker-0", {"status": {"conditions": [*conditions, unready]}}, "status")
    at.lose_node("gpu-1")
    job.phases(*RUNNING, running=1)


def no_controller(at: Setup) -> None:
    job = at.job()
    created = job.manifest["metadata"]["creationTimestamp"]
    eventually("it is not new", lambda: _seconds(timestamp()) - _seconds(created) > 10)


def _seconds(stamp: str) -> float:
    return dt.datetime.fromisoformat(stamp).timestamp()


def autoscaler(at: Setup) -> None:
    at.node("cpu-1")
    job = at.job(1, pod_spec=needs(cpu="3"))
    job.phases("Pending", pending=1)
    job.unscheduled_pod(0, "0/1 nodes are available: 1 Insufficient cpu.")
    pod = {"kind": "Pod", **at.api.get("Pod", at.namespace, "train-worker-0")}
    job.event("TriggeredScaleUp", "pod triggered scale-up: [{pool 1->2 (max: 4)}]", "Normal", about=pod)


def mount(at: Setup) -> None:
    job = at.job(1, pod_spec={"nodeName": "cpu-1"})
    pod = job.pod(0, "Pending", waiting("ContainerCreating"))
    text = 'MountVolume.SetUp failed for volume "key" : secret "hub" not found'
    job.event("FailedMount", text, about={"kind": "Pod", **pod})
    job.phases("Pending", pending=1)


def restarting(at: Setup) -> None:
    job = at.job()
    job.pod(0, "Failed", terminated(3))
    job.phases(*RUNNING, "Restarting", reason="PodFailed", message="worker-0 failed first: exit code 3", retryCount=1)


def failed(at: Setup) -> None:
    at.job().fail()


def hostile_message(at: Setup) -> None:
    job = at.job(1)
    job.pod(0, "Pending", waiting("CreateContainerError", HOSTILE))
    job.phases("Pending", pending=1)


# The first twenty are those of the issue.
SITUATIONS: dict[str, Callable[[Setup], None]] = {
    "quota": quota,
    "LimitRange": limit_range,
    "PodSecurity": pod_security,
    "webhook refusal": webhook_refusal,
    "missing claim": missing_claim,
    "unbound claim": unbound_claim,
    "missing Secret key": missing_secret_key,
    "image that cannot be pulled": image,
    "no node large enough": too_large,
    "all nodes tainted": tainted,
    "selector that matches none": unmatched,
    "gang of which a part fits": part_of_gang,
    "PodGroup held by its queue": held_by_queue,
    "queue that does not exist": no_such_queue,
    "closed queue": closed_queue,
    "suspended": suspended,
    "dependsOn": depends_on,
    "crash loop": crash_loop,
    "node lost": node_lost,
    "no controller at work": no_controller,
    "webhook that does not answer": webhook_down,
    "missing ServiceAccount": service_account,
    "behind another gang": behind_another,
    "suspended by vcctl": suspended_by_vcctl,
    "autoscaler": autoscaler,
    "mount": mount,
    "restarting": restarting,
    "failed": failed,
    "hostile text": hostile_message,
}


@pytest.fixture
def at(pumice_cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(pumice_cluster.kubeconfig(namespace=namespace)))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PUMICE_ON", "admin")
    found = Setup(pumice_cluster, namespace)
    yield found
    found.close()


def answers() -> dict[str, str]:
    sections = ANSWERS.read_text().split("=== ")[1:]
    return {head: body.rstrip("\n") for head, _, body in (section.partition("\n") for section in sections)}


def plain(text: str, namespace: str) -> str:
    """Return a text without what differs from run to run."""
    text = text.replace(namespace, "NS")
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    return re.sub(r"\b(for|after) [0-9.]+(?:ms|m?s|m[0-9.]+s)\b", r"\1 AGE", text)


@pytest.mark.parametrize("name", SITUATIONS)
def test_why_names_the_cause(at: Setup, capsys: pytest.CaptureFixture[str], name: str) -> None:
    SITUATIONS[name](at)
    assert main(["why", "train", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["code"] in {*WhyCode}
    assert found["message"]
    assert 1 <= len(found["evidence"]) <= 5
    assert all({"kind", "name", "field", "since", "text"} == set(line) for line in found["evidence"])
    assert main(["why", "train"]) == 0
    done = capsys.readouterr().out
    assert f"[{found['code']}]\n{plain(done, at.namespace)}".rstrip("\n") == answers()[name]


def test_every_answer_has_its_situation() -> None:
    assert list(answers()) == list(SITUATIONS)

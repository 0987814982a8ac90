"""Situations of a Job on a cluster, and the whole answer to each; the answers are in `situations.txt`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pumice.diagnosis.cluster.reading import ClusterReading, Unread, requests_by_node
from pumice.diagnosis.cluster.why_on_cluster import why_on_cluster, why_pod_on_cluster
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.verdict import plain_verdict
from pumice.diagnosis.why import WhyCode, why_lines
from pumice.model.job import DependsOn, VolumeSpec
from tests.builders import UID, a_container, a_job, a_task, a_template
from tests.unit.diagnosis.cluster.readings import (
    GPU,
    NOW,
    ago,
    claim,
    condition,
    container,
    event,
    group,
    job,
    lease,
    needs,
    node,
    pod,
    queue,
    reading,
    unscheduled,
)

ANSWERS = Path(__file__).with_name("situations.txt")
ONE = a_task("worker", 1)
QUOTA = (
    'pods "train-worker-0" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=8, '
    "used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=8"
)
LIMIT = 'pods "train-worker-0" is forbidden: maximum memory usage per Container is 4Gi, but limit is 8Gi'
SECURITY = (
    'pods "train-worker-0" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true '
    '(pod or container "main" must set securityContext.runAsNonRoot=true)'
)
SIGNATURE = (
    'Error creating pods: admission webhook "images.example.com" denied the request: '
    "image example.com/image:1 is not signed"
)
PREEMPTION = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
UNBOUND = f"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. {PREEMPTION}"
NO_GPU = f"0/2 nodes are available: 2 Insufficient nvidia.com/gpu. {PREEMPTION}"
TAINTED = f"0/2 nodes are available: 2 node(s) had untolerated taint(s). {PREEMPTION}"
UNMATCHED = f"0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. {PREEMPTION}"
VISION = {"key": "team", "value": "vision", "effect": "NoSchedule"}
NVME = a_template(a_container(), nodeSelector={"disktype": "nvme"})
WITH_DATA = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "tmp"}]}
ON_NODE = {"nodeName": "cpu-1"}
FOUR, SIXTEEN = needs(gpu="4"), needs(gpu="16")
PULL = (
    'Failed to pull image "example.com/image:1": rpc error: code = NotFound desc = failed to pull and unpack image '
    '"example.com/image:1": not found'
)
CRASH = "back-off 40s restarting failed container=main pod=train-worker-0_lab(8f2c)"
PART = (
    "4/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable; "
    "Pending: 1 Unschedulable, 3 Schedulable. "
    "Origin reason is train-worker-3: 0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu."
)
OVER_QUEUE = "queue resource quota insufficient: insufficient nvidia.com/gpu"
SILENT = "Kubelet stopped posting node status."


def waits(text: str, template: dict[str, Any] | None = None, **fields: Any) -> ClusterReading:
    """One pod for which its scheduler has no node."""
    made = template or a_template()
    scheduled = pod(spec=made["spec"], conditions=unscheduled(text))
    return reading(job(a_task("worker", 1, made)), pods=(scheduled,), **{"nodes": (node("gpu-1"),), **fields})


def starts(*events: Any, **status: Any) -> ClusterReading:
    """One pod that has a node."""
    return reading(job(ONE), pods=(pod(spec=ON_NODE, **status),), events=events)


def in_gang(last: str = "0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu.") -> ClusterReading:
    """Four pods that want four GPUs each, on two nodes with eight, four of which another pod holds."""
    pods = tuple(
        pod(f"worker-{index}", spec=FOUR["spec"], conditions=unscheduled(last if index == 3 else "gang is not ready"))
        for index in range(4)
    )
    return reading(
        job(a_task("worker", 4, FOUR)),
        pods=pods,
        nodes=(node("gpu-1"), node("gpu-2")),
        usage=requests_by_node([("gpu-2", FOUR["spec"])]),
        pod_groups=(group("Inqueue", condition("Unschedulable", "True", "NotEnoughResources", PART)),),
    )


def in_queue(name: str = "vision", *events: Any, **queued: Any) -> ClusterReading:
    """A PodGroup that its queue has not let in."""
    waiting = group("Pending", spec={"queue": name, "minResources": {GPU: "8", "cpu": "2"}})
    return reading(
        job(a_task("worker", 2, FOUR), queue=name),
        pod_groups=(waiting,),
        queues=(queue("vision", **queued), queue("default")),
        events=events,
    )


def forbidden(resource: str) -> Unread:
    return Unread(f"you have no right to list {resource}")


MASTER = job(a_task("master", 1), a_task("worker", 2, depends_on=DependsOn(name=["master"])))
LOST = pod(
    phase="Running",
    spec={"nodeName": "gpu-1"},
    conditions=[{"type": "Ready", "status": "False"}],
    containerStatuses=container(ready=True),
)
CRASHES = pod(
    phase="Running",
    spec=ON_NODE,
    containerStatuses=container(
        "CrashLoopBackOff",
        CRASH,
        restartCount=3,
        lastState={
            "terminated": {
                "exitCode": 1,
                "reason": "Error",
                "message": "ModuleNotFoundError: No module named 'torch'\n",
                "finishedAt": ago(20),
            }
        },
    ),
)
RUNNING = {"outcome": Outcome.RUNNING}
NEEDS_CLAIM = job(volumes=[VolumeSpec(mount_path="/data", volume_claim_name="data")], reason="ClaimMissing")

SITUATIONS: dict[str, ClusterReading] = {
    "quota": reading(job(reason="FailedCreate", message=f"{QUOTA} (and 1 more)")),
    "LimitRange": reading(job(reason="FailedCreate", message=LIMIT)),
    "PodSecurity": reading(job(reason="FailedCreate", message=SECURITY)),
    "webhook refusal": reading(
        events=(
            event(
                "Job", "train", "FailedCreate", SIGNATURE, involvedObject={"kind": "Job", "name": "train", "uid": UID}
            ),
        )
    ),
    "missing claim": reading(NEEDS_CLAIM, claims=(claim("dataset"),)),
    "unbound claim": waits(
        UNBOUND,
        a_template(**WITH_DATA),
        claims=(claim("other"), claim("data", "Pending")),
        events=(
            event("PersistentVolumeClaim", "data", "ProvisioningFailed", 'storageclass "fast" not found'),
            event("PersistentVolumeClaim", "other", "ProvisioningFailed", "no"),
        ),
    ),
    "missing Secret key": starts(
        containerStatuses=container("CreateContainerConfigError", "couldn't find key token in Secret lab/hub")
    ),
    "image that cannot be pulled": starts(
        event("Pod", "train-worker-0", "Failed", PULL),
        containerStatuses=container("ImagePullBackOff", 'Back-off pulling image "example.com/image:1"'),
    ),
    "no node large enough": waits(NO_GPU, SIXTEEN, nodes=(node("gpu-1"), node("gpu-2", allocatable={GPU: "4"}))),
    "all nodes tainted": waits(TAINTED, nodes=(node("gpu-1", VISION), node("gpu-2", VISION))),
    "selector that matches none": waits(
        UNMATCHED, NVME, nodes=(node("gpu-1", labels={"disktype": "ssd"}), node("gpu-2"))
    ),
    "gang of which a part fits": in_gang(),
    "PodGroup held by its queue": in_queue(
        "vision",
        event("PodGroup", "train-8f2c1a04", "Unschedulable", OVER_QUEUE),
        capability={GPU: "8"},
        allocated={GPU: "4"},
    ),
    "queue that does not exist": in_queue("visoin"),
    "closed queue": in_queue(state="Closed"),
    "suspended": reading(
        job(phase="Aborted", reason="Suspended", message="spec.suspend is true", suspend=True),
        outcome=Outcome.SUSPENDED,
    ),
    "dependsOn": reading(
        MASTER,
        pods=(pod("master-0", "Running", containerStatuses=container()),),
        events=(
            event("Pod", "train-master-0", "Unhealthy", "Readiness probe failed: dial tcp 10.0.0.7:23456: refused"),
        ),
    ),
    "crash loop": reading(job(ONE, phase="Running"), pods=(CRASHES,), **RUNNING),
    "node lost": reading(
        job(ONE, phase="Running"),
        pods=(LOST,),
        nodes=(node("gpu-1", conditions=[condition("Ready", "Unknown", "NodeStatusUnknown", SILENT)]),),
        **RUNNING,
    ),
    "no controller at work": reading(job(phase=""), pod_groups=(), queues=(queue(),)),
    # Beyond the twenty.
    "no controller: the holder of its Lease is gone": reading(job(phase=""), leases=(lease(renewed=90), lease("", 95))),
    "no controller: of another namespace": reading(job(phase=""), leases=(lease(),)),
    "a controller that does nothing is not blamed at once": reading(
        job(phase="").replace(creation_timestamp=ago(5)), pod_groups=()
    ),
    "suspended by a Command": reading(
        job(phase="Aborted", reason="Command", message="AbortJob was requested by Command x"),
        outcome=Outcome.SUSPENDED,
    ),
    "suspended, and not seen by the controller yet": reading(job(suspend=True)),
    "suspended without a reason": reading(job(phase="Aborting"), outcome=Outcome.STOPPING),
    "refused for an unknown reason": reading(job(reason="FailedCreate", message='pods "x" is forbidden: no.')),
    "an old refusal": reading(
        events=(event("Job", "train", "FailedCreate", QUOTA, seconds=400),),
    ),
    "all pods exist, so nothing is refused": reading(
        job(ONE, phase="Running", reason="FailedCreate", message=QUOTA),
        pods=(pod(phase="Running", containerStatuses=container(ready=True)),),
        **RUNNING,
    ),
    "restarting": reading(
        job(ONE, phase="Restarting", message="worker-0 failed first: exit code 3", status={"retry_count": 1}),
        pods=(pod(phase="Running", meta={"deletionTimestamp": ago(-20)}, containerStatuses=container()),),
        outcome=Outcome.RESTARTING,
    ),
    "completing": reading(job(ONE, phase="Completing"), outcome=Outcome.STOPPING),
    "failed": reading(
        job(ONE, phase="Failed", reason="PodFailed", message="worker-0 failed first: exit code 3"),
        outcome=Outcome.FAILED,
    ),
    "failed, with a verdict": reading(
        job(ONE, phase="Failed"),
        outcome=Outcome.FAILED,
        verdict=msgspec.structs.replace(plain_verdict("PodFailed", ""), text="worker-0 failed first\n  next  logs"),
    ),
    "completed": reading(
        job(ONE, phase="Completed", status={"succeeded": 1}), outcome=Outcome.SUCCEEDED, pods=forbidden("pods")
    ),
    "stopped": reading(job(ONE, phase="Terminated"), outcome=Outcome.STOPPED),
    "a claim of a pod is missing": waits('persistentvolumeclaim "data" not found', a_template(**WITH_DATA)),
    "autoscaler adds nodes": waits(
        NO_GPU,
        SIXTEEN,
        events=(event("Pod", "train-worker-0", "TriggeredScaleUp", "pod triggered scale-up: [{pool 1->2 (max: 4)}]"),),
        nodes=(),
    ),
    "autoscaler has added nodes in vain": waits(
        NO_GPU,
        SIXTEEN,
        events=(event("Pod", "train-worker-0", "TriggeredScaleUp", "pod triggered scale-up", seconds=1000),),
        nodes=(),
    ),
    "autoscaler cannot help": waits(
        NO_GPU,
        SIXTEEN,
        events=(
            event(
                "Pod",
                "train-worker-0",
                "NotTriggerScaleUp",
                "pod didn't trigger scale-up: 1 max node group size reached",
            ),
        ),
    ),
    "gates": reading(
        job(ONE),
        pods=(
            pod(
                spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
                conditions=unscheduled("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"),
            ),
        ),
    ),
    "mount": starts(event("Pod", "train-worker-0", "FailedMount", 'MountVolume.SetUp failed: secret "x" not found')),
    "sandbox": starts(event("Pod", "train-worker-0", "FailedCreatePodSandBox", "failed to set up network")),
    "claim that nobody binds": reading(
        job(ONE),
        pods=(pod(spec=WITH_DATA),),
        claims=(claim("data", "Pending", None),),
        events=(event("PersistentVolumeClaim", "data", "FailedBinding", "no persistent volumes available"),),
    ),
    "not ready": reading(
        job(ONE, phase="Running"),
        pods=(
            pod(
                phase="Running",
                conditions=[condition("Ready", "False", "ContainersNotReady", "")],
                containerStatuses=container(),
            ),
        ),
        **RUNNING,
    ),
    "runs": reading(
        job(ONE, phase="Running"),
        pods=(pod(phase="Running", containerStatuses=container(ready=True)),),
        **RUNNING,
    ),
    "starts": reading(job(ONE), pods=(pod(),)),
    "the dependency cannot be scheduled": reading(MASTER, pods=(pod("master-0", conditions=unscheduled(TAINTED)),)),
    "the dependency starts": reading(MASTER, pods=(pod("master-0", spec=ON_NODE),)),
    # Rights that are missing, by layer.
    "no right: events": reading(job(), events=forbidden("events")),
    "no right: anything but Jobs": reading(
        job(a_task("worker", 2), reason="Unschedulable", message="0/2 nodes are available", counts={}),
        **dict.fromkeys(
            ("pods", "events", "pod_groups", "queues", "waiting_groups", "claims", "nodes", "usage", "leases"),
            Unread("you may only read Jobs"),
        ),
    ),
    "no right: Leases": reading(job(phase=""), leases=forbidden("leases")),
    "no right: claims": reading(
        NEEDS_CLAIM.replace(status=job(reason="ClaimMissing", message="waits for PersistentVolumeClaim data").status),
        claims=forbidden("persistentvolumeclaims"),
    ),
    "no right: claims of a scheduled pod": waits(
        UNBOUND, a_template(**WITH_DATA), claims=forbidden("persistentvolumeclaims")
    ),
    "no right: a claim that is missing": waits(
        'persistentvolumeclaim "data" not found. ', a_template(**WITH_DATA), claims=forbidden("persistentvolumeclaims")
    ),
    "no right: queues": msgspec.structs.replace(
        in_queue("vision", event("PodGroup", "train-8f2c1a04", "Unschedulable", OVER_QUEUE)),
        queues=forbidden("queues"),
    ),
    "no right: PodGroups": reading(job(), pod_groups=forbidden("podgroups")),
    "no right: nodes": waits(NO_GPU, FOUR, nodes=forbidden("nodes"), usage=forbidden("pods of all namespaces")),
    "no right: pods of all namespaces": waits(NO_GPU, FOUR, usage=forbidden("pods of all namespaces")),
    "no right: nodes of a gang": msgspec.structs.replace(in_gang(), nodes=forbidden("nodes")),
    "no right: pods of a gang": msgspec.structs.replace(in_gang(), pods=forbidden("pods")),
    "no right: pods that depend": reading(
        MASTER.replace(status=job(counts={"master": {"Pending": 1}}).status), pods=forbidden("pods")
    ),
    "no right: nodes of a lost pod": reading(
        job(ONE, phase="Running"), pods=(LOST,), nodes=forbidden("nodes"), **RUNNING
    ),
}


def answers() -> dict[str, str]:
    sections = ANSWERS.read_text().split("=== ")[1:]
    return {head: body.rstrip("\n") for head, _, body in (section.partition("\n") for section in sections)}


def answer(situation: ClusterReading) -> str:
    why = why_on_cluster(situation, NOW)
    return "\n".join([f"[{why.code}]", *why_lines(why, NOW)])


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_answer_is_whole(name: str) -> None:
    assert answer(SITUATIONS[name]) == answers()[name]


def test_every_answer_has_its_situation() -> None:
    assert list(answers()) == list(SITUATIONS)


def test_the_data_has_the_contract_of_why() -> None:
    plain = json.loads(msgspec.json.encode(why_on_cluster(SITUATIONS["quota"], NOW)))
    assert plain["run"] == "train"
    assert plain["code"] == "Quota"
    assert plain["message"] == (
        "ResourceQuota team has no room: requests.nvidia.com/gpu: 8 wanted, 4 of 8 free, 4 short"
    )
    assert plain["short"] == [
        {"resource": "requests.nvidia.com/gpu", "wanted": "8", "free": "4", "capacity": "8", "heldBy": []}
    ]
    assert plain["evidence"][1] == {
        "kind": "Job",
        "name": "train",
        "field": "status.state",
        "since": "2026-05-04T11:55:00Z",
        "text": f"FailedCreate: {QUOTA} (and 1 more)",
    }


@pytest.mark.parametrize("name", SITUATIONS)
def test_evidence_is_at_most_five_lines(name: str) -> None:
    assert len(why_on_cluster(SITUATIONS[name], NOW).evidence) <= 5


def test_a_pod_has_an_answer_of_its_own_if_a_layer_knows_one() -> None:
    pods = (CRASHES, pod("worker-1", "Running", containerStatuses=container(ready=True)))
    situation = reading(job(a_task("worker", 2), phase="Running"), pods=pods, **RUNNING)
    why = why_pod_on_cluster(situation, "worker-0", NOW)
    assert why is not None
    assert (why.run, why.outcome, why.code) == ("train/worker-0", None, WhyCode.FAILED)
    assert why_pod_on_cluster(situation, "worker-1", NOW) is None


def test_a_job_without_pods_or_status_is_answered() -> None:
    assert why_on_cluster(ClusterReading(job=a_job(), outcome=Outcome.STARTING), NOW).message

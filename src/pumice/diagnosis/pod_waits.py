"""What a pod waits for, and which nodes do not answer, as a status and `why` say it; why a pod is in its state."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Final

from pumice.diagnosis.pod_ends import how_it_failed, in_words, one_line
from pumice.diagnosis.why import Hint, Why, WhyCode
from pumice.model.job import TaskSpec
from pumice.model.snapshot import BACK_OFF, FINISHED_PODS, IMAGE_REASONS, ObservedPod, PodPhase, Waiting
from pumice.model.text import some
from pumice.model.units import after

NODE_LOST: Final = "NodeLost"
# The reason of a pod for which its scheduler finds no room.
UNSCHEDULABLE: Final = "Unschedulable"
# The reason of a Job whose pods cannot be created, because a claim that it names does not exist.
CLAIM_MISSING: Final = "ClaimMissing"
# The reason of a pod with gates that its scheduler must not pass.
GATED: Final = "SchedulingGated"
# The codes of reasons of containers, where `pumice why` has one for them.
WAIT_CODES: Final = {**dict.fromkeys(IMAGE_REASONS, WhyCode.IMAGE), BACK_OFF: WhyCode.FAILED}
# A kubelet that has not removed a pod this long after its grace period does not answer.
LOST_SECONDS: Final = 15


def wait_sentence(pod: ObservedPod, waiting: Waiting) -> str:
    """`worker-1 waits: ImagePullBackOff: Back-off pulling image "x:1"`."""
    return f"{pod.short_name} waits: {in_words(waiting.reason, waiting.message)}"


def missing_claims_sentence(names: Sequence[str]) -> str:
    return f"PersistentVolumeClaim {', '.join(names)} {'does' if len(names) == 1 else 'do'} not exist"


def lost_pods(pods: Iterable[ObservedPod], now: dt.datetime) -> list[ObservedPod]:
    """Return the pods whose nodes do not answer, which neither run nor go."""
    silent = [
        pod
        for pod in pods
        if (pod.deleted_at is not None and now >= after(pod.deleted_at, LOST_SECONDS)) or pod.is_unreachable
    ]
    lost = (pod for pod in silent if pod.node and not pod.is_finished)
    return sorted(lost, key=lambda pod: (pod.task, pod.index))


def lost_sentence(lost: Sequence[ObservedPod]) -> str:
    """Name the nodes that do not answer, and the pods on them, and say what a person can do."""
    nodes = sorted({pod.node for pod in lost})
    subject = f"node {nodes[0]} does" if len(nodes) == 1 else f"nodes {some(nodes)} do"
    return (
        f"{subject} not answer: nothing is known of {some([pod.short_name for pod in lost])}; delete the Node, or "
        "taint it with node.kubernetes.io/out-of-service, if it does not come back"
    )


def why_pod(ref: str, pod: ObservedPod, flags: str = "") -> Why:
    """`flags` are those by which a command finds the pod."""
    look = last_lines(ref, flags)
    since = pod.ended_at or pod.changed_at or pod.created_at
    if pod.is_deleting and pod.phase in FINISHED_PODS:
        text = f"it was asked to end: {how_it_failed(pod, '') if pod.first_failure else 'exit code 0'}"
        return Why(run=ref, code=WhyCode.STOPPED, since=since, hints=(look,), message=one_line(text))
    if pod.phase is PodPhase.FAILED:
        return Why(run=ref, code=WhyCode.FAILED, since=since, hints=(look,), message=one_line(how_it_failed(pod, "")))
    if pod.phase is PodPhase.SUCCEEDED:
        return Why(run=ref, code=WhyCode.COMPLETED, since=since, message="it succeeded")
    if pod.phase is PodPhase.RUNNING:
        restarts = f"it runs, after {pod.restarts} restarts" if pod.restarts else "it runs"
        return Why(run=ref, code=WhyCode.RUNNING, since=since, hints=(look,) if pod.restarts else (), message=restarts)
    if pod.waiting is None:
        return Why(run=ref, code=WhyCode.STARTING, since=since, message="its containers are being started")
    reason, message = pod.waiting.reason, pod.waiting.message or pod.waiting.reason
    return Why(run=ref, code=WAIT_CODES.get(reason, WhyCode.RESOURCES), since=since, message=message)


def last_lines(ref: str, flags: str = "") -> Hint:
    return Hint("its last lines", " ".join(filter(None, ("pumice logs", ref, flags, "--tail 30"))))


def dependency(task: TaskSpec) -> str:
    """Return which tasks a task waits for; empty if it waits for none."""
    return "" if task.depends_on is None else f"waits for {', '.join(task.depends_on.name)}"

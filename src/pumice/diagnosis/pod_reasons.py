"""Why a pod waits, runs or has ended, wherever it is."""

from __future__ import annotations

from pumice.diagnosis.pod_ends import how_it_failed, one_line
from pumice.diagnosis.pod_waits import WAIT_CODES
from pumice.diagnosis.why import Hint, Why, WhyCode
from pumice.model.job import TaskSpec
from pumice.model.snapshot import FINISHED_PODS, ObservedPod, PodPhase


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

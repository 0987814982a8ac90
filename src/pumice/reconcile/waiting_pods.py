"""Why a pod does not run, or does not go: in the words of its kubelet and its scheduler, and for a node that is lost.

The ledger names the pod that the status reports. A pod whose containers crash runs for a moment now and then, and an
image that cannot be pulled has two reasons in turn, so what is reported stays until the pod has settled.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from pumice.model.snapshot import ObservedPod, Waiting
from pumice.model.status import JobState
from pumice.model.text import some
from pumice.model.timestamps import after
from pumice.model.vocabulary import Event
from pumice.reconcile.phases import FINAL
from pumice.reconcile.pod_creation import UNSCHEDULABLE
from pumice.reconcile.state import State
from pumice.reconcile.verdict import in_words, one_word

NODE_LOST: Final = "NodeLost"
# A pod has settled when no container has started or ended for this long.
SETTLING_SECONDS: Final = 10
# A kubelet that has not removed a pod this long after its grace period does not answer.
LOST_SECONDS: Final = 15
# Reasons that alternate while one cause lasts.
_SAME_CAUSE: Final = {
    "ErrImagePull": "ImagePullBackOff",
    "CreateContainerError": "CrashLoopBackOff",
    "RunContainerError": "CrashLoopBackOff",
}


class Wait(Struct, frozen=True):
    reason: str = ""
    message: str = ""
    uid: str = ""  # of the pod that it is about; empty if it is about the job


def waiting_pod(state: State, reported: JobState, now: dt.datetime) -> Wait | None:
    """What the first pod waits for that does not start; the pod that is reported already comes first."""
    known = state.ledger.waiting
    found = [pod for pod in state.pods.current if (pod.waiting is not None or pod.uid == known) and pod.is_live]
    order = {task.name: position for position, task in enumerate(state.job.spec.tasks)}
    for pod in sorted(found, key=lambda pod: (pod.uid != known, order[pod.task], pod.index)):
        if pod.waiting is not None and not (pod.uid == known and _alternates(pod.waiting, reported)):
            words = in_words(pod.waiting.reason, pod.waiting.message)
            return Wait(one_word(pod.waiting.reason, Event.POD_PENDING), f"{pod.short_name} waits: {words}", pod.uid)
        if pod.waiting is not None or not _has_settled(pod, reported, now):
            return Wait(reported.reason, reported.message, pod.uid)
    return None


def lost_node(state: State, now: dt.datetime) -> Wait | None:
    """The nodes that do not answer, and the pods on them, which neither run nor go."""
    if state.phase in FINAL:
        return None
    lost = [pod for pod in state.snapshot.pods if _is_lost(pod, now)]
    if not lost:
        return None
    lost.sort(key=lambda pod: (pod.task, pod.index))
    nodes = sorted({pod.node for pod in lost})
    subject = f"node {nodes[0]} does" if len(nodes) == 1 else f"nodes {some(nodes)} do"
    message = (
        f"{subject} not answer: nothing is known of {some([pod.short_name for pod in lost])}; delete the Node, or "
        "taint it with node.kubernetes.io/out-of-service, if it does not come back"
    )
    return Wait(NODE_LOST, message, lost[0].uid)


def is_same_cause(reason: str, other: str) -> bool:
    return _SAME_CAUSE.get(reason, reason) == _SAME_CAUSE.get(other, other)


def moments_of_pods(state: State) -> Iterator[dt.datetime]:
    """When to look again: a reported pod may have settled, or a node may turn out to be lost."""
    for pod in state.snapshot.pods:
        if pod.deleted_at is not None and pod.node:
            yield after(pod.deleted_at, LOST_SECONDS)
        elif pod.uid == state.ledger.waiting and pod.changed_at is not None:
            yield after(pod.changed_at, SETTLING_SECONDS)


def _alternates(waiting: Waiting, reported: JobState) -> bool:
    """Whether the pod is back at the first of two reasons that alternate; the second one stays reported."""
    return _SAME_CAUSE.get(waiting.reason) == reported.reason


def _has_settled(pod: ObservedPod, reported: JobState, now: dt.datetime) -> bool:
    """Whether a pod that was reported runs well: without restarts as soon as it is ready, else after a while."""
    if reported.reason in (UNSCHEDULABLE, NODE_LOST) or (pod.ready and not pod.restarts):
        return True
    # The clock of a node may be ahead of ours.
    return pod.changed_at is not None and abs(now - pod.changed_at) >= dt.timedelta(seconds=SETTLING_SECONDS)


def _is_lost(pod: ObservedPod, now: dt.datetime) -> bool:
    if not pod.node or pod.is_finished:
        return False
    overdue = pod.deleted_at is not None and now >= after(pod.deleted_at, LOST_SECONDS)
    return overdue or pod.is_unreachable

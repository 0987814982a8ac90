"""Why a pod does not run, or does not go: in the words of its kubelet and its scheduler, and for a node that is lost.

The ledger names the pod that the status reports. A pod whose containers crash runs for a moment now and then, and an
image that cannot be pulled has two reasons in turn, so what is reported stays until the pod has settled.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from pumice.diagnosis.pod_ends import one_word
from pumice.diagnosis.pod_waits import LOST_SECONDS, NODE_LOST, UNSCHEDULABLE, lost_pods, lost_sentence, wait_sentence
from pumice.model.job import JobState
from pumice.model.snapshot import BACK_OFF, ObservedPod, Waiting
from pumice.model.units import after
from pumice.model.vocabulary import Event
from pumice.reconcile.phases import FINAL
from pumice.reconcile.state import State

# A pod has settled when no container has started or ended for this long.
SETTLING_SECONDS: Final = 10
# Reasons that alternate while one cause lasts.
_SAME_CAUSE: Final = {
    "ErrImagePull": "ImagePullBackOff",
    "CreateContainerError": BACK_OFF,
    "RunContainerError": BACK_OFF,
}


class Wait(Struct, frozen=True):
    reason: str = ""
    message: str = ""
    uid: str = ""  # of the pod that it is about; empty if it is about the job
    said: str = ""  # by the API server or a scheduler, in its own words: events have them


def waiting_pod(state: State, reported: JobState, now: dt.datetime) -> Wait | None:
    """What the first pod waits for that does not start; the pod that is reported already comes first."""
    known = state.ledger.waiting
    found = [pod for pod in state.pods.current if (pod.waiting is not None or pod.uid == known) and pod.is_live]
    order = {task.name: position for position, task in enumerate(state.job.spec.tasks)}
    for pod in sorted(found, key=lambda pod: (pod.uid != known, order[pod.task], pod.index)):
        if pod.waiting is not None and not (pod.uid == known and _alternates(pod.waiting, reported)):
            reason = one_word(pod.waiting.reason, Event.POD_PENDING)
            return Wait(reason, wait_sentence(pod, pod.waiting), pod.uid)
        if pod.waiting is not None or not _has_settled(pod, reported, now):
            return Wait(reported.reason, reported.message, pod.uid)
    return None


def lost_node(state: State, now: dt.datetime) -> Wait | None:
    """The nodes that do not answer, and the pods on them, which neither run nor go."""
    if state.phase in FINAL:
        return None
    lost = lost_pods(state.snapshot.pods, now)
    return Wait(NODE_LOST, lost_sentence(lost), lost[0].uid) if lost else None


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

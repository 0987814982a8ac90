"""What a pod waits for, and which nodes do not answer, in the words that a status and `pumice why` share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Final

from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.why import WhyCode
from pumice.model.snapshot import BACK_OFF, IMAGE_REASONS, ObservedPod, Waiting
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
    return sorted((pod for pod in pods if _is_lost(pod, now)), key=lambda pod: (pod.task, pod.index))


def lost_sentence(lost: Sequence[ObservedPod]) -> str:
    """Name the nodes that do not answer, and the pods on them, and say what a person can do."""
    nodes = sorted({pod.node for pod in lost})
    subject = f"node {nodes[0]} does" if len(nodes) == 1 else f"nodes {some(nodes)} do"
    return (
        f"{subject} not answer: nothing is known of {some([pod.short_name for pod in lost])}; delete the Node, or "
        "taint it with node.kubernetes.io/out-of-service, if it does not come back"
    )


def _is_lost(pod: ObservedPod, now: dt.datetime) -> bool:
    if not pod.node or pod.is_finished:
        return False
    overdue = pod.deleted_at is not None and now >= after(pod.deleted_at, LOST_SECONDS)
    return overdue or pod.is_unreachable

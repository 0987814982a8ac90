"""The verdict on a failed job: which pod failed first, and how many followed."""

from __future__ import annotations

import datetime as dt
import signal
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.model.text import printable
from pumice.reconcile.failure_lines import first_to_blame

POD_FAILED: Final = "PodFailed"
OOM_KILLED: Final = "OOMKilled"
MIN_AVAILABLE_NOT_MET: Final = "MinAvailableNotMet"
RETRIES_EXHAUSTED: Final = "RetriesExhausted"
_SIGNAL_BASE: Final = 128
# Reasons of containers that never ran: the message says why. After any other end it is what the program wrote.
_NEVER_RAN: Final = frozenset(("StartError", "ContainerCannotRun"))
LONGEST_REASON: Final = 64
LONGEST_CAUSE: Final = 1_000


class Verdict(Struct, frozen=True):
    reason: str
    message: str
    pod: str = ""


def verdict(pods: Iterable[ObservedPod]) -> Verdict | None:
    """The verdict on the failed pods; None if none failed."""
    never = dt.datetime.max.replace(tzinfo=dt.UTC)
    failed = sorted(
        (pod for pod in pods if pod.phase is PodPhase.FAILED),
        key=lambda pod: (pod.ended_at or never, pod.task, pod.index),
    )
    if not failed:
        return None
    first, others = failed[first_to_blame([pod.first_failure for pod in failed])], len(failed) - 1
    followed = f"; {others} other{'s' if others > 1 else ''} followed" if others else ""
    return Verdict(_reason(first), f"{first.short_name} failed first: {_how(first)}{followed}", first.short_name)


def how_it_ended(end: ContainerEnd) -> str:
    """`exit code 1`, or `signal 9 (SIGKILL)`, with the reason if it adds something."""
    number = end.signal or max(end.exit_code - _SIGNAL_BASE, 0)
    known = {int(each): each.name for each in signal.Signals}
    how = f"signal {number} ({known[number]})" if number in known else f"exit code {end.exit_code}"
    return f"{how}, {end.reason}" if end.reason not in ("", "Error", "Completed") else how


def in_words(reason: str, message: str) -> str:
    """`Evicted: The node was low on resource: memory`, on one line, without a full stop."""
    words = " ".join(message.split()).rstrip(".")
    return printable(": ".join(filter(None, (reason, words))), LONGEST_CAUSE)


def one_word(reason: str, otherwise: str) -> str:
    """A reason for programs, in one CamelCase word. A client that may write the status of a pod may write anything."""
    is_word = reason[:1].isupper() and reason.isalnum() and len(reason) <= LONGEST_REASON
    return reason if is_word else otherwise


def _reason(pod: ObservedPod) -> str:
    """The reason of the pod, which its kubelet gives where it ended the pod itself; else that of its container."""
    end = pod.first_failure
    of_container = OOM_KILLED if end is not None and end.reason == OOM_KILLED else POD_FAILED
    return one_word(pod.reason, of_container)


def _how(pod: ObservedPod) -> str:
    """In the words of the kubelet: why it ended the pod, then how the first container failed."""
    end = pod.first_failure
    causes = []
    if pod.message or (pod.reason and (end is None or end.reason != pod.reason)):
        causes.append(in_words(pod.reason, pod.message))
    if end is not None:
        container = f" in container {end.container}" if end.container and end.container != pod.task else ""
        cause = f": {in_words('', end.last_line)}" if end.reason in _NEVER_RAN and end.last_line else ""
        causes.append(how_it_ended(end) + container + cause)
    return "; ".join(causes) or "for an unknown reason"

"""The verdict on a failed job: which pod failed first, and how many followed."""

from __future__ import annotations

import datetime as dt
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase

POD_FAILED: Final = "PodFailed"
OOM_KILLED: Final = "OOMKilled"
EVICTED: Final = "Evicted"
MIN_AVAILABLE_NOT_MET: Final = "MinAvailableNotMet"
RETRIES_EXHAUSTED: Final = "RetriesExhausted"
_SIGNAL_BASE: Final = 128


@dataclass(frozen=True, slots=True)
class Verdict:
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
    first, others = failed[0], len(failed) - 1
    followed = f"; {others} other{'s' if others > 1 else ''} followed" if others else ""
    return Verdict(_reason(first), f"{first.short_name} failed first: {_how(first)}{followed}", first.short_name)


def how_it_ended(end: ContainerEnd) -> str:
    """`exit code 1`, or `signal 9 (SIGKILL)`, with the reason if it adds something."""
    number = end.signal or max(end.exit_code - _SIGNAL_BASE, 0)
    known = {int(each): each.name for each in signal.Signals}
    how = f"signal {number} ({known[number]})" if number in known else f"exit code {end.exit_code}"
    return f"{how}, {end.reason}" if end.reason not in ("", "Error", "Completed") else how


def _reason(pod: ObservedPod) -> str:
    if pod.reason == EVICTED:
        return EVICTED
    end = pod.first_failure
    return OOM_KILLED if end is not None and end.reason == OOM_KILLED else POD_FAILED


def _how(pod: ObservedPod) -> str:
    end = pod.first_failure
    if end is None:
        return pod.reason or "for an unknown reason"
    container = f" in container {end.container}" if end.container and end.container != pod.task else ""
    return how_it_ended(end) + container

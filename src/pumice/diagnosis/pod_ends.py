"""How pods ended, in words, and what the status of a job says about those that failed."""

from __future__ import annotations

import datetime as dt
import signal
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from pumice.diagnosis.failures import Failure, first_to_blame, left_early
from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.model.text import COLOUR, printable

POD_FAILED: Final = "PodFailed"
OOM_KILLED: Final = "OOMKilled"
MIN_AVAILABLE_NOT_MET: Final = "MinAvailableNotMet"
RETRIES_EXHAUSTED: Final = "RetriesExhausted"
_SIGNAL_BASE: Final = 128
# Reasons of containers that never ran: the message says why. After any other end it is what the program wrote.
_NEVER_RAN: Final = frozenset(("StartError", "ContainerCannotRun"))
# For these reasons `last_line` is not the container's output, but our explanation.
EXPLAINED: Final = frozenset(
    (
        "StartError",
        "SandboxError",
        "StartupProbeFailed",
        "LivenessProbeFailed",
        "PostStartHookError",
        "DeadlineExceeded",
    )
)
# The init container that unpacks the code of a Job on a cluster, and its exit code where the image has no program
CODE_CONTAINER: Final = "pumice-code"
NO_TOOLS: Final = 64
NOT_UNPACKED: Final = "its image has no sh, or neither tar nor python3, to unpack the code"
READ_ONLY_CODE: Final = "submit it again with --code-mode read-only, which mounts the files as they are"
LONGEST_REASON: Final = 64
# The log file has the whole line.
_LONGEST_LINE: Final = 300
LONGEST_CAUSE: Final = 1_000


class Reason(Struct, frozen=True):
    """`status.state.reason` for programs and `.message` for people: the cause, and what is added to it."""

    reason: str = ""
    cause: str = ""
    more: str = ""  # how many followed, and the policy that acted

    @property
    def message(self) -> str:
        return self.cause + self.more


def failure_reason(job: Job, pods: Iterable[ObservedPod]) -> Reason | None:
    """Return which pod failed first, how, how many followed, and which left them before; None if none failed."""
    never, pods = dt.datetime.max.replace(tzinfo=dt.UTC), tuple(pods)
    failed = sorted(
        (pod for pod in pods if pod.phase is PodPhase.FAILED),
        key=lambda pod: (pod.ended_at or never, pod.task, pod.index),
    )
    if not failed:
        return None
    first, others = failed[first_to_blame([pod.first_failure for pod in failed])], len(failed) - 1
    cause = f"{first.short_name} failed first: {_how(first)}"
    failures = [Failure(pod, end) for pod in failed if (end := pod.first_failure) is not None]
    succeeded = [pod for pod in pods if pod.phase is PodPhase.SUCCEEDED]
    if len(failures) == len(failed) and (leaver := left_early(job, failures, succeeded, {})) is not None:
        cause = f"{leaver.short_name} ended first, with exit code 0; then {first.short_name} failed: {_how(first)}"
    more = f"; {others} other{'s' if others > 1 else ''} followed" if others else ""
    # The reason of the pod, which its kubelet gives where it ended the pod itself; else that of its container.
    end = first.first_failure
    of_container = OOM_KILLED if end is not None and end.reason == OOM_KILLED else POD_FAILED
    return Reason(one_word(first.reason, of_container), cause, more)


def how_it_ended(end: ContainerEnd) -> str:
    """`exit code 1`, or `signal 9 (SIGKILL)`, with the reason if it adds something."""
    number = end.signal or max(end.exit_code - _SIGNAL_BASE, 0)
    known = {int(each): each.name for each in signal.Signals}
    how = f"signal {number} ({known[number]})" if number in known else f"exit code {end.exit_code}"
    return f"{how}, {end.reason}" if end.reason not in ("", "Error", "Completed") else how


def lacks_tools(container: str, exit_code: int, reason: str) -> bool:
    """Whether the code of the Job was not unpacked because the image lacks the programs."""
    return container == CODE_CONTAINER and (exit_code == NO_TOOLS or reason in _NEVER_RAN)


def how_it_failed(pod: ObservedPod, unnamed: str) -> str:
    """Say it in one line; `unnamed` is the container that need not be named."""
    end = pod.first_failure
    if end is None:
        return ": ".join(filter(None, (pod.reason, pod.message))) or "for an unknown reason"
    container = f" in container {end.container}" if end.container not in ("", unnamed, pod.task) else ""
    explained = f": {one_line(end.last_line)}" if end.reason in EXPLAINED and end.last_line else ""
    return f"{how_it_ended(end)}{container}{explained}"


def one_line(text: str) -> str:
    """Return what a program printed on one line, without its colours."""
    joined = "; ".join(line.strip() for line in COLOUR.sub("", text).splitlines() if line.strip())
    return joined if len(joined) <= _LONGEST_LINE else joined[: _LONGEST_LINE - 3] + "..."


def in_words(reason: str, message: str) -> str:
    """`Evicted: The node was low on resource: memory`, on one line, without a full stop or a colon at the end."""
    words = " ".join(message.split()).rstrip(".: ")
    return printable(": ".join(filter(None, (reason, words))), LONGEST_CAUSE)


def one_word(reason: str, otherwise: str) -> str:
    """A reason for programs, in one CamelCase word. A client that may write the status of a pod may write anything."""
    is_word = reason[:1].isupper() and reason.isalnum() and len(reason) <= LONGEST_REASON
    return reason if is_word else otherwise


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

"""The pods of a job that failed, in order: the one to blame first; which only followed it, and which pod left early."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pumice.diagnosis.failure_lines import is_collateral, lacks_peer, waited_in_vain
from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.model.vocabulary import Action, Event

# Pods that end within this time of each other may have ended because of each other.
TOGETHER: Final = dt.timedelta(seconds=60)


class Failure(Struct, frozen=True):
    """A failed pod; it may have been removed since."""

    pod: ObservedPod
    end: ContainerEnd

    @property
    def attempt(self) -> int:
        return self.pod.retry + 1

    @property
    def waited_in_vain(self) -> bool:
        """Whether it ended because its peers did not come: another pod, which did not end, is to blame."""
        return waited_in_vain(self.end.last_line)


class Failures(Struct):
    """The failures of the current pods, or of the last pod of each name. A replaced pod no longer counts."""

    _failed: dict[str, Failure] = field(default_factory=dict)
    # Pods whose containers fail and restart: where no pod has failed, a policy may have acted on these.
    _restarted: dict[str, Failure] = field(default_factory=dict)
    _succeeded: dict[str, ObservedPod] = field(default_factory=dict)
    _version: int = 0
    earlier: Failure | None = None  # the first of the last attempt that failed

    def record(self, pod: ObservedPod) -> None:
        if pod.version > self._version:
            self._version = pod.version
            self.earlier = next(iter(self.in_order()), self.earlier)
            self._failed.clear()
            self._restarted.clear()
            self._succeeded.clear()
        known = self._failed.get(pod.name)
        if known is not None and known.pod.uid != pod.uid:
            del self._failed[pod.name]
        end = pod.first_failure
        # A pod that is being deleted was asked to end.
        if pod.phase is PodPhase.FAILED and end is not None and not pod.is_deleting:
            self._failed.setdefault(pod.name, Failure(pod, end))
        if pod.phase is PodPhase.SUCCEEDED:
            self._restarted.pop(pod.name, None)
            self._succeeded[pod.name] = pod
        elif end is not None and pod.restarts and not pod.is_deleting:
            known = self._restarted.get(pod.name)
            if known is None or pod.restarts >= known.pod.restarts:
                self._restarted[pod.name] = Failure(pod, end)

    def record_restart(self, pod: ObservedPod) -> None:
        """Count a restart as soon as it is announced: it waits for its back-off."""
        self.record(replace(pod, restarts=pod.restarts + 1))

    def in_order(self) -> tuple[Failure, ...]:
        """Return the failures, the first one first."""
        return _in_order((self._failed or self._restarted).values())

    def succeeded(self) -> tuple[ObservedPod, ...]:
        """Return the pods that were done."""
        return tuple(self._succeeded.values())

    def restarted(self) -> tuple[Failure, ...]:
        """Return the last failures of pods whose containers restart."""
        return _in_order(each for name, each in self._restarted.items() if name not in self._failed)


def first_to_blame(ends: Sequence[ContainerEnd | None]) -> int:
    """Return which of these failures, in the order of time, is the cause: the first, unless that only followed."""
    first = ends[0]
    if first is None or first.finished_at is None or not is_collateral(first):
        return 0
    for index, end in enumerate(ends):
        if end is not None and end.finished_at is not None and not is_collateral(end):
            return index if end.finished_at - first.finished_at <= TOGETHER else 0
    return 0


def only_followed(job: Job, first: dt.datetime | None, end: ContainerEnd) -> bool:
    """Whether a container failed because of the first end: it says so, or its gang fell apart within moments."""
    together = first is None or end.finished_at is None or end.finished_at - first <= TOGETHER
    return (_is_gang(job) and together) or is_collateral(end)


def left_early(
    job: Job, failures: Sequence[Failure], succeeded: Iterable[ObservedPod], addresses: Mapping[str, str]
) -> ObservedPod | None:
    """Return the pod that ended with code 0 while its peers still needed it, and all of them failed because of that.

    `addresses` are those of pods, by short name: the peer that a program lost is often named in its last line.
    """
    first = failures[0].end.finished_at if failures else None
    if first is None or not lacks_peer(failures[0].end.last_line):
        return None
    if not all(is_collateral(failure.end) for failure in failures):
        return None
    lines = [failure.end.last_line for failure in failures]

    def is_named(pod: ObservedPod) -> bool:
        names = filter(None, (pod.name, pod.short_name, addresses.get(pod.short_name)))
        return any(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\d)", line) for name in names for line in lines)

    left = [
        (is_named(pod), ended, pod)
        for pod in succeeded
        if pod.retry == failures[0].pod.retry
        and (ended := pod.ended_at) is not None
        and dt.timedelta() <= first - ended <= TOGETHER
        # A pod that ended before the others began, as in dependsOn, was no peer of theirs.
        and ended > max(failure.pod.created_at for failure in failures)
        and not _is_expected_to_end(job, pod.task)
    ]
    # Pods that need not start together may lose other peers than each other.
    candidates = [each for each in left if each[0] or _is_gang(job)]
    return max(candidates, key=lambda each: each[:2])[2] if candidates else None


def _is_gang(job: Job) -> bool:
    """Whether the pods of the job start together or not at all."""
    return 1 < job.total_replicas <= (job.spec.min_available or job.total_replicas)


def _is_expected_to_end(job: Job, task_name: str) -> bool:
    """Whether the job is complete once this task is: its end then ends the others."""
    task = job.task(task_name)
    policies = (*job.spec.policies, *(task.policies if task is not None else ()))
    return any(
        policy.action == Action.COMPLETE_JOB and {Event.TASK_COMPLETED, Event.ANY} & set(policy.all_events)
        for policy in policies
    )


def _in_order(found: Iterable[Failure]) -> tuple[Failure, ...]:
    """By time; but a failure that only followed another one comes after that one, which may take longer to end."""
    never = dt.datetime.max.replace(tzinfo=dt.UTC)
    ordered = sorted(found, key=lambda each: (each.end.finished_at or never, each.pod.task, each.pod.index))
    if ordered:
        ordered.insert(0, ordered.pop(first_to_blame([each.end for each in ordered])))
    return tuple(ordered)

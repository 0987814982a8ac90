"""The policy that matches an occurrence: the first one of its task, else the first one of the job.

A policy with a timeout is due that long after the occurrence began. Nothing is stored: each pass computes it again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from pumice.model.duration import Duration
from pumice.model.findings import SPEC, Path
from pumice.model.job import Job, LifecyclePolicy
from pumice.model.vocabulary import TARGETED_ACTIONS, Action, Event
from pumice.reconcile.occurrences import Occurrence


class Match(Struct, frozen=True):
    """An occurrence and the policy that matches it."""

    occurrence: Occurrence
    policy: LifecyclePolicy
    path: Path
    due: dt.datetime

    @property
    def action(self) -> Action:
        return Action(self.policy.action)


def match_policies(job: Job, found: Sequence[Occurrence]) -> list[Match]:
    """The occurrences that a policy matches, sorted by when they are due."""
    matched = [match for occurrence in found if (match := _first_match(job, occurrence)) is not None]
    return sorted(matched, key=lambda match: match.due)


def _first_match(job: Job, occurrence: Occurrence) -> Match | None:
    """The first policy that matches. A pod that its kubelet evicted meets a PodEvicted policy first, else PodFailed."""
    if occurrence.event is Event.POD_FAILED and occurrence.pod is not None and occurrence.pod.is_evicted:
        evicted = _first_match(job, replace(occurrence, event=Event.POD_EVICTED, exit_code=None))
        if evicted is not None and Event.POD_EVICTED in evicted.policy.all_events:
            return evicted
    for path, policy in chain(_of_task(job, occurrence.task), _of_job(job)):
        if _matches(policy, occurrence):
            wait = Duration.parse(policy.timeout).timedelta if policy.timeout else dt.timedelta()
            return Match(occurrence, policy, path, occurrence.since + wait)
    return None


def all_policies(job: Job) -> Iterator[tuple[Path, LifecyclePolicy]]:
    """Yield the policies of all tasks, and of the job, each with its path."""
    for task in job.spec.tasks:
        yield from _of_task(job, task.name)
    yield from _of_job(job)


def _of_task(job: Job, name: str) -> Iterator[tuple[Path, LifecyclePolicy]]:
    for position, task in enumerate(job.spec.tasks):
        if task.name == name:
            for index, policy in enumerate(task.policies):
                yield SPEC / "tasks" / position / "policies" / index, policy


def _of_job(job: Job) -> Iterator[tuple[Path, LifecyclePolicy]]:
    for index, policy in enumerate(job.spec.policies):
        yield SPEC / "policies" / index, policy


def _matches(policy: LifecyclePolicy, occurrence: Occurrence) -> bool:
    event = occurrence.event
    if occurrence.index is None and policy.action in TARGETED_ACTIONS:
        # `*` also matches events of the whole job, which name no pod to restart.
        return False
    if occurrence.exit_code is not None and occurrence.exit_code in policy.all_exit_codes:
        return True
    if event is Event.POD_PENDING and not policy.timeout:
        return False
    if event in policy.all_events:
        return True
    return Event.ANY in policy.all_events and event is not Event.JOB_UPDATED


def has_pending_failure(found: Sequence[Match], now: dt.datetime) -> bool:
    """Whether a policy will act on a failure once its timeout has passed."""
    return any(match.occurrence.is_failure and match.due > now for match in found)

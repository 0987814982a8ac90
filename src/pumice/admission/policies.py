"""Lifecycle policies: each needs a trigger and an action, and none may hide another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pumice.model.duration import Duration, DurationError
from pumice.model.findings import SPEC, Finding, Path, warning
from pumice.model.job import Job, LifecyclePolicy, TaskSpec
from pumice.model.suggestions import did_you_mean
from pumice.model.vocabulary import EVENTS_WITHOUT_POD, POLICY_ACTIONS, POLICY_EVENTS, TARGETED_ACTIONS, Action, Event

HIGHEST_EXIT_CODE: Final = 255


def check_policies(job: Job) -> Iterator[Finding]:
    yield from _check_list(job.spec.policies, SPEC / "policies", job.spec.tasks)
    for position, task in enumerate(job.spec.tasks):
        yield from _check_list(task.policies, SPEC / "tasks" / position / "policies", [task])


def _check_list(policies: Sequence[LifecyclePolicy], at: Path, tasks: Sequence[TaskSpec]) -> Iterator[Finding]:
    for position, policy in enumerate(policies):
        here = at / position
        events, codes = policy.all_events, policy.all_exit_codes
        if events and codes:
            yield Finding(here, "must have either an event or an exit code, not both", hint="make it two policies")
        if not events and not codes:
            yield Finding(
                here, "must have an event or an exit code, or it would never act", hint="add event: PodFailed"
            )
        for where, event in _events(policy, here):
            if event not in POLICY_EVENTS:
                inner = "is internal to the controller; " if event in set(Event) else ""
                yield Finding(
                    where,
                    f"{inner}must be one of {', '.join(POLICY_EVENTS)}",
                    event,
                    did_you_mean(event, POLICY_EVENTS),
                )
        if policy.all_events == (Event.POD_PENDING,) and not policy.timeout:
            yield warning(here, "never acts: PodPending needs a timeout", hint="add timeout: 5m")
        yield from _check_action(policy, here, tasks)
        yield from _check_timeout(policy, here)
    yield from _check_events_together(policies, at)
    yield from _check_exit_codes(policies, at)
    yield from _check_order(policies, at)


def _check_action(policy: LifecyclePolicy, at: Path, tasks: Sequence[TaskSpec]) -> Iterator[Finding]:
    where, action = at / "action", policy.action
    if not action:
        yield Finding(where, f"is missing; must be one of {', '.join(POLICY_ACTIONS)}")
    elif action not in POLICY_ACTIONS:
        inner = "is internal to the controller; " if action in set(Action) else ""
        yield Finding(
            where, f"{inner}must be one of {', '.join(POLICY_ACTIONS)}", action, did_you_mean(action, POLICY_ACTIONS)
        )
    if action == Action.RESTART_PARTITION and all(task.partition_policy is None for task in tasks):
        yield Finding(where, "needs a task with a partitionPolicy", action, hint="RestartTask restarts the whole task")
    if action in TARGETED_ACTIONS:
        for event in policy.all_events:
            if event in EVENTS_WITHOUT_POD:
                yield Finding(
                    where,
                    f"cannot act on {event}, which is about the whole job and names no pod",
                    action,
                    hint="RestartJob, or an event of a pod such as PodFailed",
                )


def _check_timeout(policy: LifecyclePolicy, at: Path) -> Iterator[Finding]:
    if not policy.timeout:
        return
    try:
        duration = Duration.parse(policy.timeout)
    except DurationError as error:
        yield Finding(at / "timeout", error.message, policy.timeout, error.hint)
        return
    if duration.nanoseconds < 0:
        yield Finding(at / "timeout", "must not be negative", policy.timeout)


def _check_events_together(policies: Sequence[LifecyclePolicy], at: Path) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for position, policy in enumerate(policies):
        for where, event in _events(policy, at / position):
            if first.get(event) == position:
                yield warning(where, "is named twice in this policy", event)
            elif event in first:
                yield Finding(where, f"{at / first[event]} acts on it already", event, "keep one of them")
            first.setdefault(event, position)
    if Event.ANY in first and len(first) > 1:
        others = ", ".join(event for event in first if event != Event.ANY)
        yield Finding(
            at / first[Event.ANY],
            f"* stands for every event, so it cannot be used together with {others}",
            hint="remove the others, or list the events that you need",
        )


def _check_exit_codes(policies: Sequence[LifecyclePolicy], at: Path) -> Iterator[Finding]:
    first: dict[int, int] = {}
    for position, policy in enumerate(policies):
        for where, code in _exit_codes(policy, at / position):
            if code == 0:
                yield Finding(where, f"must be 1 to {HIGHEST_EXIT_CODE}; 0 is success", code)
            elif not 0 < code <= HIGHEST_EXIT_CODE:
                yield warning(where, f"can never match: exit codes are 1 to {HIGHEST_EXIT_CODE}", code)
            if code in first:
                yield Finding(where, f"{at / first[code]} acts on it already", code, "keep one of them")
            first.setdefault(code, position)


def _events(policy: LifecyclePolicy, at: Path) -> list[tuple[Path, str]]:
    """Return the events of a policy, each with its path."""
    several = [(at / "events" / index, event) for index, event in enumerate(policy.events)]
    return [*several, (at / "event", policy.event)] if policy.event else several


def _exit_codes(policy: LifecyclePolicy, at: Path) -> list[tuple[Path, int]]:
    several = [(at / "exitCodes" / index, code) for index, code in enumerate(policy.exit_codes)]
    return several if policy.exit_code is None else [*several, (at / "exitCode", policy.exit_code)]


def _check_order(policies: Sequence[LifecyclePolicy], at: Path) -> Iterator[Finding]:
    """Report exit codes after PodFailed: the first match wins, and every failed pod matches PodFailed."""
    catching: int | None = None
    for position, policy in enumerate(policies):
        if catching is not None and policy.all_exit_codes:
            yield warning(
                at / position,
                f"is never reached: {at / catching} matches every failed pod first",
                hint="put exit codes before PodFailed",
            )
        if catching is None and {Event.POD_FAILED, Event.ANY}.intersection(policy.all_events):
            catching = position

"""The verdict about a job that did not complete, in at most six lines: the pod that failed first, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from pumice.engines.local.options import Locate, at, nowhere
from pumice.engines.local.outcome import Failure, Outcome, Stop
from pumice.engines.local.why import ActedPolicy, Follower, Verdict
from pumice.model.duration import elapsed_text
from pumice.model.job import Job
from pumice.model.pod import all_containers, container_path
from pumice.model.snapshot import ObservedPod
from pumice.model.text import COLOUR
from pumice.model.vocabulary import SUSPENDED, TARGETED_ACTIONS, Action, Event, Phase
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.failure_lines import waited_in_vain
from pumice.reconcile.occurrences import Occurrence
from pumice.reconcile.policies import match_policies
from pumice.reconcile.verdict import OOM_KILLED, POD_FAILED, how_it_ended

# For these reasons `last_line` is not the container's output, but our explanation.
_EXPLAINED = (
    "StartError",
    "SandboxError",
    "StartupProbeFailed",
    "LivenessProbeFailed",
    "PostStartHookError",
    "DeadlineExceeded",
)
_MISSING = re.compile(r"No module named '?([A-Za-z0-9_]+)|\b(python[0-9.]*): (?:command )?not found")
_SHOWN_FOLLOWERS = 3
_MOST_LINES = 6
_RESTARTS = (Action.RESTART_JOB, *TARGETED_ACTIONS)
_FAILURES = {Event.ANY, Event.POD_FAILED, Event.TASK_FAILED}
# How the user stopped a run.
_STOPPED = {"Interrupted": " by Ctrl-C", "Terminated": " by SIGTERM", "HungUp": ": its terminal was closed"}
# The log file has the whole line.
_LONGEST_LINE = 300


def resume_command(outcome: Outcome) -> str:
    """Return the command that goes on with a run that was suspended; empty for others."""
    if outcome.stop is None or outcome.reason != SUSPENDED or not outcome.directory:
        return ""
    stored = Path(outcome.directory)
    return f"pumice resume {stored.parent.name}:{stored.name}"


def verdict_lines(outcome: Outcome, locate: Locate = nowhere, next_step: str = "") -> tuple[str, ...]:
    """Return the verdict; nothing for a job that completed. `next_step` is what the user may type now."""
    next_step = next_step or resume_command(outcome) or outcome.look
    ending = [row("next", next_step)] if next_step else []
    if outcome.log:
        ending.insert(0, row("log", outcome.log))
    if outcome.stop is not None:
        return _stopped(outcome, outcome.stop, ending)
    if outcome.phase == Phase.COMPLETED:
        return ()
    if outcome.policy is not None:
        ending.insert(0, row("policy", policy_text(outcome.policy, locate, with_pod=False)))
    state = outcome.job.status.state
    why = state.message.partition(";")[0] or state.reason
    if outcome.first is None:
        return (f"{outcome.job.name} {state.phase}: {why or 'no pod failed'}", *ending)
    first = outcome.first
    lines = [f"{first.pod.short_name} failed first: {_how(first)}{_attempt(outcome.job, first)}"]
    if first.end.reason == OOM_KILLED:
        lines.append(row("cause", _out_of_memory(outcome.job, first, locate)))
    elif first.end.last_line:
        lines.append(row("cause" if first.end.reason in _EXPLAINED else "last line", one_line(first.end.last_line)))
    if len(outcome.failures) > 1:
        lines.append(row("then", _followers(first, outcome.failures[1:])))
    lines += _doing("waited for", outcome, _MOST_LINES - len(lines) - len(ending))
    # Do not repeat what the first line says.
    has_room = len(lines) + len(ending) < _MOST_LINES
    if has_room and why and state.reason not in (POD_FAILED, first.end.reason) and "failed first" not in why:
        lines.append(row("why", why))
    return (*lines, *ending)


class Explanation(NamedTuple):
    """The verdict in words, and as data; empty and None for a job that completed."""

    lines: tuple[str, ...]
    verdict: Verdict | None


def explained(outcome: Outcome, locate: Locate = nowhere) -> Explanation:
    """Return the verdict. The data has no text of its own: it is in the lines."""
    if outcome.stop is None and outcome.phase == Phase.COMPLETED:
        return Explanation((), None)
    policy, first = None, outcome.first
    if outcome.policy is not None and outcome.stop is None:
        acted = outcome.policy
        where = str(locate(acted.policy))
        policy = ActedPolicy(event=acted.event, action=acted.action, path=str(acted.policy), where=where)
    found = Verdict(reason=outcome.reason, policy=policy, attempt=outcome.attempt, log=outcome.log)
    if first is not None:
        found = msgspec.structs.replace(
            found,
            pod=first.pod.short_name,
            container=first.end.container,
            code=first.end.exit_code,
            signal=first.end.signal or None,
            line=one_line(first.end.last_line),
            followers=tuple(_follower(first, other) for other in outcome.failures[1:]),
        )
    return Explanation(verdict_lines(outcome, locate), found)


def _follower(first: Failure, other: Failure) -> Follower:
    begin, end = first.end.finished_at, other.end.finished_at
    return Follower(
        pod=other.pod.short_name,
        code=other.end.exit_code,
        signal=other.end.signal or None,
        reason=other.end.reason,
        after=None if begin is None or end is None else (end - begin).total_seconds(),
    )


def _stopped(outcome: Outcome, stop: Stop, ending: Sequence[str]) -> tuple[str, ...]:
    """The verdict on a run that was stopped: what had failed before."""
    lines, restarted = [], outcome.restarted
    if outcome.failures and outcome.failures[0] not in restarted:
        first, *others = outcome.failures
        then = f"; then {_followers(first, others)}" if others else ""
        lines.append(row("failed", f"{first.pod.short_name}: {_how(first)}{_said(first)}{then}"))
    if restarted:
        last = restarted[0]
        more = f"; {len(restarted) - 1} more restarted" if len(restarted) > 1 else ""
        count = f"{last.pod.restarts} restart{'' if last.pod.restarts == 1 else 's'}"
        lines.append(
            row("restarted", f"{last.pod.short_name}: {count}, last {how_it_ended(last.end)}{_said(last)}{more}")
        )
    if outcome.earlier is not None:
        one = outcome.earlier
        lines.append(row("before", f"attempt {one.attempt}: {one.pod.short_name} failed, {_how(one)}{_said(one)}"))
    lines += _doing("was doing", outcome, _MOST_LINES - 1 - len(lines) - len(ending))
    if not stop.message and not lines:
        return ()
    if outcome.directory and not outcome.log:
        lines.append(row("logs", f"{outcome.directory}/pods"))
    heading = stop.message or f"{outcome.job.name} was stopped{_STOPPED.get(stop.reason, '')}"
    return (heading, *lines, *ending)


def _doing(name: str, outcome: Outcome, room: int) -> list[str]:
    """What the pods of a run that hung were doing, a row for each that differs."""
    if outcome.first is not None and not waited_in_vain(outcome.first.end.last_line):
        return []
    shown = [one_line(each) for each in outcome.doing]
    if len(shown) > room:
        shown = [*shown[: room - 1], f"{shown[room - 1]}; and {len(shown) - room} more"] if room > 0 else []
    return [row(name, each) for each in shown]


def _said(failure: Failure) -> str:
    return f": {one_line(failure.end.last_line)}" if failure.end.last_line else ""


def _attempt(job: Job, failure: Failure) -> str:
    """Nothing if there is only one: no policy of the job restarts anything after a failure."""
    policies = (*job.spec.policies, *(policy for task in job.spec.tasks for policy in task.policies))
    restarts = any(
        policy.action in _RESTARTS and (policy.all_exit_codes or _FAILURES & set(policy.all_events))
        for policy in policies
    )
    return f" (attempt {failure.attempt} of {job.spec.max_retry})" if restarts or failure.attempt > 1 else ""


def what_follows(job: Job, pod: ObservedPod, left: int) -> str:
    """`no policy acts on PodFailed, the job goes on with 1 of 2`, or what the policy does."""
    end = pod.first_failure
    code = None if end is None else end.exit_code
    since = pod.ended_at or pod.created_at
    matches = match_policies(job, [Occurrence(Event.POD_FAILED, since, pod.task, pod.index, pod, code)])
    if not matches:
        goes_on = f"the job goes on with {left} of {job.total_replicas}" if left > 0 else "no other pod is left"
        return f"no policy acts on {Event.POD_FAILED}, {goes_on}"
    match = matches[0]
    wait = f" in {match.policy.timeout}" if match.policy.timeout else ""
    last = ""
    if match.action in _RESTARTS and pod.retry + 1 >= job.spec.max_retry:
        last = f", but no attempt is left of {job.spec.max_retry} (maxRetry)"
    return f"{match.occurrence.event} -> {match.action}{wait}{last}"


def what_ends_restarts(job: Job, task_name: str) -> str:
    """Return the policy that would end a job whose containers keep failing; empty if the job has one."""
    task = next(task for task in job.spec.tasks if task.name == task_name)
    for policy in (*task.policies, *job.spec.policies):
        if {Event.ANY, Event.TASK_FAILED} & set(policy.all_events):
            return ""
    return (
        f"a policy {{event: {Event.TASK_FAILED}, action: {Action.TERMINATE_JOB}}} of task {task_name} would end the job"
        f" after {task.max_retry} restarts (its maxRetry)"
    )


def how_it_failed(pod: ObservedPod, unnamed: str) -> str:
    """Say it in one line; `unnamed` is the container that need not be named."""
    end = pod.first_failure
    if end is None:
        return ": ".join(filter(None, (pod.reason, pod.message))) or "for an unknown reason"
    container = f" in container {end.container}" if end.container not in ("", unnamed, pod.task) else ""
    explained = _said(Failure(pod, end)) if end.reason in _EXPLAINED else ""
    return f"{how_it_ended(end)}{container}{explained}"


def missing_module(line: str) -> str:
    """Return the module or the Python that a program did not find, if that is what its last line says."""
    found = _MISSING.search(line)
    return found[1] or found[2] if found else ""


def one_line(text: str) -> str:
    """Return what a program printed on one line, without its colours."""
    joined = "; ".join(line.strip() for line in COLOUR.sub("", text).splitlines() if line.strip())
    return joined if len(joined) <= _LONGEST_LINE else joined[: _LONGEST_LINE - 3] + "..."


def row(name: str, text: str) -> str:
    return f"  {name:<13} {text}"


def policy_text(event: JobEvent, locate: Locate, *, with_pod: bool = True) -> str:
    """`master-0 succeeded: TaskCompleted -> CompleteJob (tasks[0].policies[0], job.yaml:21)`."""
    positions = (str(event.policy).removeprefix("spec."), str(locate(event.policy)))
    text = f"{event.event} -> {event.action} ({', '.join(filter(None, positions))})"
    how = "succeeded: " if event.event == Event.TASK_COMPLETED else "failed: " if "Failed" in event.event else ""
    return f"{event.pod} {how}{text}".lstrip() if with_pod else text


def _how(failure: Failure) -> str:
    end, pod = failure.end, failure.pod
    container = f" in container {end.container}" if end.container not in ("", pod.task) else ""
    took = ""
    if end.finished_at is not None:
        took = f" after {elapsed_text((end.finished_at - pod.created_at).total_seconds())}"
    return f"{how_it_ended(end)}{container}{took}"


def _out_of_memory(job: Job, failure: Failure, locate: Locate) -> str:
    """The program could print nothing about it: the kernel killed it."""
    task, name = job.task(failure.pod.task), failure.end.container
    for container in all_containers(task.pod_spec) if task is not None else []:
        limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        if container.get("name") == name and limit:
            path = container_path(job, failure.pod.task, name) / "resources" / "limits" / "memory"
            return f"it used more than its memory limit, {limit}{at(locate, path)}"
    return "this machine had no memory left"


def _followers(first: Failure, others: Sequence[Failure]) -> str:
    shown = []
    for other in others[:_SHOWN_FOLLOWERS]:
        later = ""
        if first.end.finished_at is not None and other.end.finished_at is not None:
            seconds = (other.end.finished_at - first.end.finished_at).total_seconds()
            later = f", {elapsed_text(abs(seconds))} {'later' if seconds >= 0 else 'earlier, because of it'}"
        shown.append(f"{other.pod.short_name} ({how_it_ended(other.end)}{later})")
    more = len(others) - _SHOWN_FOLLOWERS
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

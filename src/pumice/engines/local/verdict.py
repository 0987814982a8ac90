"""The verdict about a job that did not complete, in at most six lines: the pod that failed first, and why."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.engines.local.options import Locate, at, nowhere
from pumice.engines.local.outcome import Failure, Outcome
from pumice.engines.local.preflight import container_path
from pumice.model.job import Job
from pumice.model.pod import all_containers
from pumice.model.vocabulary import Event, Phase
from pumice.reconcile.decision import JobEvent
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
_SHOWN_FOLLOWERS = 3
# The log file has the whole line.
_LONGEST_LINE = 300


def verdict_lines(outcome: Outcome, locate: Locate = nowhere, next_step: str = "") -> tuple[str, ...]:
    """Return the verdict; nothing for a job that completed. `next_step` is what the user may type now."""
    ending = [row("next", next_step)] if next_step else []
    if outcome.stop is not None:
        return (outcome.stop.message, *ending) if outcome.stop.message else ()
    if outcome.phase == Phase.COMPLETED:
        return ()
    if outcome.policy is not None:
        ending.insert(0, row("policy", policy_text(outcome.policy, locate, with_pod=False)))
    state = outcome.job.status.state
    why = state.message.partition(";")[0] or state.reason
    if outcome.first is None:
        return (f"{outcome.job.name} {state.phase}: {why or 'no pod failed'}", *ending)
    first = outcome.first
    attempt = f"attempt {first.attempt} of {outcome.job.spec.max_retry}"
    lines = [f"{first.pod.short_name} failed first: {_how(first)} ({attempt})"]
    if first.end.reason == OOM_KILLED:
        lines.append(row("cause", _out_of_memory(outcome.job, first, locate)))
    elif first.end.last_line:
        lines.append(row("cause" if first.end.reason in _EXPLAINED else "last line", one_line(first.end.last_line)))
    if others := outcome.failures[1:]:
        lines.append(row("then", _followers(first, others)))
    # Do not repeat what the first line says.
    if why and state.reason not in (POD_FAILED, first.end.reason) and "failed first" not in why:
        lines.append(row("why", why))
    return (*lines, *ending)


def one_line(text: str) -> str:
    joined = "; ".join(line.strip() for line in text.splitlines() if line.strip())
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
        took = f" after {(end.finished_at - pod.created_at).total_seconds():.1f}s"
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
            later = f", {(other.end.finished_at - first.end.finished_at).total_seconds():.1f}s later"
        shown.append(f"{other.pod.short_name} ({how_it_ended(other.end)}{later})")
    more = len(others) - _SHOWN_FOLLOWERS
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

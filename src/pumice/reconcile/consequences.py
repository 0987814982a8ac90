"""What policies make of a failure, in words for the user who watches a run."""

from __future__ import annotations

from collections.abc import Mapping

from pumice.diagnosis.verdict import ActedPolicy
from pumice.model.job import Job
from pumice.model.problem import Position
from pumice.model.snapshot import ObservedPod
from pumice.model.vocabulary import RESTARTS, Action, Event
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.ledger import most_attempts, read_ledger
from pumice.reconcile.occurrences import Occurrence
from pumice.reconcile.policies import match_policies

# How the pod ended that an event is about.
_ENDS: Mapping[str, str] = {
    Event.TASK_COMPLETED: "succeeded: ",
    Event.TASK_FAILED: "failed: ",
    Event.POD_FAILED: "failed: ",
}


def acted_policy(event: JobEvent, position: Position) -> ActedPolicy:
    """Return the policy of an event; `position` is where it is written."""
    where, line = str(position), position.line or None
    return ActedPolicy(event=event.event, action=event.action, path=str(event.policy), where=where, line=line)


def acted_text(event: JobEvent, position: Position) -> str:
    """`master-0 succeeded: TaskCompleted -> CompleteJob (tasks[0].policies[0], job.yaml:21)`."""
    return f"{event.pod} {_ENDS.get(event.event, '')}{acted_policy(event, position)}".lstrip()


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
    if match.action in RESTARTS and read_ledger(job.status).spent + 1 >= job.spec.max_retry:
        most = most_attempts(job.spec.max_retry, job.status)
        last = f", but no attempt is left of {most} (maxRetry {job.spec.max_retry})"
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

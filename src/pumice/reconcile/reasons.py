"""`status.state.reason` for programs and `.message` for people: why the job is in its phase."""

from __future__ import annotations

import datetime as dt

from pumice.diagnosis.cluster.admission_errors import refusal_sentence
from pumice.diagnosis.cluster.scheduler_text import gang_sentence
from pumice.diagnosis.pod_ends import MIN_AVAILABLE_NOT_MET, RETRIES_EXHAUSTED, Reason, failure_reason, in_words
from pumice.diagnosis.pod_waits import UNSCHEDULABLE
from pumice.model.job import Job, JobState
from pumice.model.snapshot import EVICTED, PodPhase
from pumice.model.vocabulary import COMMAND, Event, Phase
from pumice.reconcile.occurrences import Occurrence
from pumice.reconcile.phases import DEADLINE
from pumice.reconcile.pod_creation import PodPlan
from pumice.reconcile.requested_action import Request
from pumice.reconcile.state import WANTS_PODS, PodCounts, State
from pumice.reconcile.waiting_pods import Wait, lost_node, waiting_pod

_ENDS = frozenset((Phase.ABORTED, Phase.COMPLETED, Phase.TERMINATED))


def reason_for(state: State, request: Request | None, phase: Phase) -> Reason:
    """Why the job enters this phase, or stays in it."""
    before, was = state.job.status.state, state.phase
    if request is not None and phase is not was:
        return _of_request(state, request)
    if phase is Phase.FAILED and phase is not was:
        return _of_failure(state)
    if was not in WANTS_PODS and (phase is was or phase in _ENDS):
        # The reason to wind down is also the reason of the end. While a job has pods, it is what the job waits for.
        return Reason(before.reason, more=before.message)
    return Reason()


def waiting_reason(state: State, plan: PodPlan, reported: JobState, now: dt.datetime) -> Wait:
    """Why a job does not have all its pods yet; empty if it does not wait. `reported` is what the status says now."""
    snapshot = state.snapshot
    if state.phase not in WANTS_PODS:
        return lost_node(state, now) or Wait()
    if snapshot.failures:
        failure = snapshot.failures[0]
        more = f" (and {len(snapshot.failures) - 1} more)" if len(snapshot.failures) > 1 else ""
        sentence = refusal_sentence(failure.message, state.job.namespace)
        return Wait(failure.reason, sentence + more, said=failure.message + more)
    if (lost := lost_node(state, now)) is not None:
        return lost
    if plan.blocked is not None and plan.blocked.reason:
        said = snapshot.group.message if plan.blocked.reason == UNSCHEDULABLE and snapshot.group is not None else ""
        return Wait(plan.blocked.reason, plan.blocked.message, said=said)
    if snapshot.group is not None and snapshot.group.message and state.pods.counts.pending:
        # Some schedulers look at a gang only when its pods exist.
        return Wait(UNSCHEDULABLE, gang_sentence(snapshot.group.message), said=snapshot.group.message)
    return waiting_pod(state, reported, now) or Wait()


def _of_request(state: State, request: Request) -> Reason:
    if request.action == DEADLINE:
        seconds = state.job.spec.active_deadline_seconds
        return Reason(DEADLINE, f"the job ran longer than its activeDeadlineSeconds, {seconds}")
    if request.command is not None:
        return Reason(COMMAND, f"{request.command.action} was requested by Command {request.command.metadata.name}")
    if not request.matches:
        return Reason(request.reason, "spec.suspend is true" if request.reason else "")
    match = request.matches[0]
    event = match.occurrence.event
    acted = f"; policy {match.path} {event}: {match.action}"
    if match.occurrence.is_failure:
        pods = [pod for pod in state.snapshot.pods if pod.version == state.job.status.version]
        failed = failure_reason(state.job, pods)
        if failed is not None:
            return Reason(failed.reason, failed.cause, failed.more + acted)
    if event is Event.POD_EVICTED:
        name = match.occurrence.short_name
        return Reason(EVICTED, f"{name} was deleted by someone else", acted)
    pod = match.occurrence.short_name
    what = f"{event} of {pod}" if pod else str(event)
    if event is Event.POD_PENDING and (why := _why_pending(state, match.occurrence)):
        what = f"{what}: {why}"
    return Reason(str(event), what, acted)


def _why_pending(state: State, occurrence: Occurrence) -> str:
    """What a pending pod waits for; its gang's scheduler speaks for a pod about which nothing is said."""
    if occurrence.pod is not None and occurrence.pod.waiting is not None:
        return in_words(occurrence.pod.waiting.reason, occurrence.pod.waiting.message)
    return in_words("", state.snapshot.group.message) if state.snapshot.group is not None else ""


def _of_failure(state: State) -> Reason:
    job, counts = state.job, state.pods.counts
    if state.phase is Phase.RESTARTING:
        return Reason(RETRIES_EXHAUSTED, _spent_budget(state), f"; the last cause: {job.status.state.message}")
    failed = failure_reason(job, state.snapshot.pods)
    needed = job.spec.min_available if job.spec.min_success is None else job.spec.min_success
    if failed is not None and needed >= job.total_replicas:
        return failed
    # The job tolerates some failures, but there were too many.
    first = f"; {failed.message}" if failed is not None else ""
    short = _short_task(job, counts) or f"{counts.succeeded} of {job.total_replicas} pods succeeded, {needed} needed"
    return Reason(MIN_AVAILABLE_NOT_MET, short, first)


def _spent_budget(state: State) -> str:
    job, caused = state.job, state.ledger.restarts_by_task
    for task in job.spec.tasks:
        if task.max_restarts is not None and caused.get(task.name, 0) > task.max_restarts:
            return f"task {task.name} has caused more restarts than its maxRestarts, {task.max_restarts}"
    return f"all {job.spec.max_retry} attempts failed (maxRetry)"


def _short_task(job: Job, counts: PodCounts) -> str:
    """The task that has too few successes, where the job as a whole has enough.

    If the job needs fewer pods than its tasks do together, any pods will do, and the tasks' minimums do not count.
    """
    together = sum(task.min_members for task in job.spec.tasks)
    if not together <= job.spec.min_available <= counts.succeeded:
        return ""
    for task in job.spec.tasks:
        done = counts.of_task(task.name, PodPhase.SUCCEEDED)
        if task.min_available is not None and done < task.min_available:
            return f"{done} of {task.replicas} pods of task {task.name} succeeded, {task.min_available} needed"
    return ""

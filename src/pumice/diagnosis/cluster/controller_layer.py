"""Layers 1 and 2: the API server refuses pods; the Job has ended, is suspended, or no controller serves it."""

from __future__ import annotations

import datetime as dt
from typing import Final

from msgspec.structs import replace

from pumice.diagnosis.cluster.admission_errors import read_refusal
from pumice.diagnosis.cluster.gang_layer import missing_queue
from pumice.diagnosis.cluster.objects import Lease
from pumice.diagnosis.cluster.reading import Cause, ClusterReading, PodReading, Unread, event_line, known
from pumice.diagnosis.outcome import held_text
from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.why import EvidenceLine, Hint, WhyCode
from pumice.model.job import TaskSpec, TaskState
from pumice.model.snapshot import PodPhase
from pumice.model.text import plural
from pumice.model.units import EPOCH, after, elapsed_text, read_time
from pumice.model.vocabulary import KIND, Phase

FAILED_CREATE: Final = "FailedCreate"
# A controller that has not looked at a new Job after this long does not serve it.
_UNATTENDED: Final = 10  # seconds
_DEFAULT_QUEUE: Final = "default"
_SUSPENDED: Final = (Phase.ABORTING, Phase.ABORTED)
_MAKING: Final = ("", Phase.PENDING, Phase.RUNNING)
_ENDING: Final = (Phase.RESTARTING, Phase.COMPLETING, Phase.TERMINATING)


def state_line(reading: ClusterReading) -> EvidenceLine:
    """Return what the controller says of the Job."""
    state = reading.job.status.state
    text = in_words(state.reason, state.message) or state.phase
    since = read_time(state.last_transition_time)
    return EvidenceLine(kind=KIND, name=reading.job.name, field="status.state", since=since, text=text)


def suspension(reading: ClusterReading) -> Cause | None:
    job, state = reading.job, reading.job.status.state
    is_asked = job.spec.suspend is True and state.phase in _MAKING
    if state.phase not in _SUSPENDED and not is_asked:
        return None
    line = EvidenceLine(kind=KIND, name=job.name, field="spec.suspend", text="true")
    if not is_asked:
        line = state_line(reading)
    by = "spec.suspend is true" if is_asked else in_words("", held_text(state))
    resume = reading.command(f"pumice resume {job.name}")
    if job.spec.suspend:
        patch = """--type merge -p '{"spec":{"suspend":false}}'"""
        resume = f"kubectl patch jobs.batch.volcano.sh {job.name} -n {job.namespace} {patch}"
    return Cause(
        code=WhyCode.SUSPENDED,
        message=by or "it is suspended",
        since=line.since,
        evidence=(line,),
        hints=(Hint("to go on", resume),),
    )


def no_controller(reading: ClusterReading, now: dt.datetime) -> Cause | None:
    """Return that nobody has looked at the Job: it has no status, though it is not new."""
    job, leases = reading.job, reading.leases
    if job.status.state.phase or now < after(reading.created, _UNATTENDED):
        return None
    age = elapsed_text((now - reading.created).total_seconds())
    message = f"no controller has acted on it for {age}"
    status = EvidenceLine(kind=KIND, name=job.name, field="status.state.phase", since=reading.created, text="is empty")
    lines, hints = [status], [Hint("an administrator installs a controller", "pumice install")]
    newest = max(known(leases), key=lambda lease: read_time(lease.spec.renew_time) or EPOCH, default=None)
    queue = missing_queue(reading)
    if queue and (_serves(newest, now) if newest is not None else queue != _DEFAULT_QUEUE):
        # A controller that is at work looks no different then.
        return None
    if newest is not None:
        renewed = read_time(newest.spec.renew_time) or EPOCH
        serves = _serves(newest, now)
        name, holder = newest.metadata.name, newest.spec.holder_identity or "nobody"
        text = f"held by {holder}, {'renewed in time' if serves else 'not renewed in time'}"
        lines.append(EvidenceLine(kind="Lease", name=name, field="spec.renewTime", since=renewed, text=text))
        namespace = newest.metadata.namespace
        does = "is at work, but may serve other namespaces" if serves else "does not answer"
        message += f": the holder of Lease {namespace}/{name} {does}"
        hints = [Hint("an administrator checks the controller", "pumice install --check")]
    elif not isinstance(leases, Unread):
        # Volcano's scheduler makes the default queue, and its controller waits for that.
        waits = f", or it waits for queue {queue}, which does not exist" if queue else ""
        message += f": no controller of Jobs is at work in this cluster{waits}"
    return Cause(
        code=WhyCode.STARTING, message=message, since=reading.created, evidence=tuple(lines), hints=tuple(hints)
    )


def _serves(lease: Lease, now: dt.datetime) -> bool:
    renewed = read_time(lease.spec.renew_time) or EPOCH
    return bool(lease.spec.holder_identity) and now <= after(renewed, lease.spec.lease_duration_seconds)


def refusal(reading: ClusterReading) -> Cause | None:
    """Return why pods cannot be created, in the words of the controller, or of its newest event."""
    job, state = reading.job, reading.job.status.state
    if state.phase not in _MAKING or not reading.lacks_pods:
        return None
    owners = [(job.name, job.uid), *((pod.name, pod.observed.uid) for pod in reading.attempt)]
    owners += [(group.metadata.name, group.metadata.uid) for group in known(reading.pod_groups)]
    kinds = (KIND, "PodGroup", "Pod")
    events = [event for kind in kinds for event in reading.events_of(kind, owners, FAILED_CREATE)]
    # An event about an earlier attempt, or about a pod that exists by now, says nothing.
    begin = read_time(state.last_transition_time) or reading.created
    begin = max((begin, *(pod.observed.created_at for pod in reading.attempt)))
    newest = max(events, key=lambda event: event.last_seen or EPOCH, default=None)
    is_said = state.reason == FAILED_CREATE
    text, line = state.message, state_line(reading)
    meaning = read_refusal(text, job.namespace)
    if meaning is None and newest is not None and (is_said or (newest.last_seen or EPOCH) >= begin):
        said = read_refusal(newest.message, job.namespace)
        if not is_said or (said is not None and text.startswith(said.message)):
            # The state has the sentence of the event, or nothing.
            text, line, meaning = newest.message, event_line(newest), said
    elif meaning is None and not is_said:
        return None
    if meaning is None:
        meaning = Cause(code=WhyCode.ADMISSION, message=f"its pods cannot be created: {in_words('', text)}")
    return replace(meaning, since=line.since, evidence=(*meaning.evidence, line))


def restart(reading: ClusterReading) -> Cause | None:
    """Return that the pods of an attempt are being ended."""
    job, state = reading.job, reading.job.status.state
    if state.phase not in _ENDING:
        return None
    left = [pod.short_name for pod in known(reading.pods) if pod.observed.is_deleting and not pod.observed.is_finished]
    waits = f"; waits for {plural(len(left), 'pod')} to end" if left else ""
    what = f"attempt {job.status.retry_count + 1} begins" if state.phase == Phase.RESTARTING else state.phase
    cause = in_words("", state.message)
    return Cause(
        code=WhyCode.STARTING if state.phase == Phase.RESTARTING else WhyCode.STOPPED,
        message=f"{what}{f': {cause}' if cause else ''}{waits}",
        since=read_time(state.last_transition_time),
        evidence=(state_line(reading),),
    )


def dependency(reading: ClusterReading) -> Cause | None:
    """Return the first task that has no pods because those that it depends on are not ready."""
    job = reading.job
    for index, task in enumerate(job.spec.tasks):
        depends = task.depends_on
        if depends is None or not depends.name or _counted(reading, task.name) is not None:
            continue
        needed = [other for other in job.spec.tasks if other.name in depends.name]
        counts = [(other, *_ready(reading, other, completed=depends.condition == "Completed")) for other in needed]
        met = [ready >= wanted for _, ready, wanted in counts]
        if any(met) if depends.iteration == "any" and len(needed) > 1 else all(met):
            continue
        what = "completed" if depends.condition == "Completed" else "ready"
        waits = [f"{other.name} ({ready} of {wanted} {what})" for other, ready, wanted in counts if ready < wanted]
        text = f"waits for {' or '.join(waits) if depends.iteration == 'any' else ' and '.join(waits)}"
        line = EvidenceLine(kind=KIND, name=job.name, field=f"spec.tasks[{index}].dependsOn", text=text)
        return Cause(
            code=WhyCode.DEPENDENCY,
            message=f"{task.name} {text}",
            since=read_time(job.status.state.last_transition_time),
            evidence=(line,),
            task=next(other.name for other, ready, wanted in counts if ready < wanted),
        )
    return None


def _counted(reading: ClusterReading, task: str) -> TaskState | PodReading | None:
    """Return a sign that a task has begun: one of its pods, or its counts, if the pods are unread."""
    if isinstance(reading.pods, Unread):
        return reading.job.status.task_status_count.get(task)
    return next((pod for pod in reading.attempt if pod.observed.task == task), None)


def _ready(reading: ClusterReading, task: TaskSpec, *, completed: bool) -> tuple[int, int]:
    """Return how many pods of a task are ready, or have completed, and how many must be."""
    wanted = task.replicas if completed else task.min_members
    if isinstance(reading.pods, Unread):
        counts = reading.job.status.task_status_count.get(task.name, TaskState()).phase
        ready = counts.get(PodPhase.SUCCEEDED, 0) + (0 if completed else counts.get(PodPhase.RUNNING, 0))
        return ready, wanted
    pods = [pod.observed for pod in reading.attempt if pod.observed.task == task.name]
    running = [pod for pod in pods if pod.phase is PodPhase.RUNNING and pod.ready]
    succeeded = [pod for pod in pods if pod.phase is PodPhase.SUCCEEDED]
    return len(succeeded) + (0 if completed else len(running)), wanted

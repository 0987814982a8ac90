"""Why a run, or one of its pods, is in its state: as data, with the commands that would help."""

from __future__ import annotations

import datetime as dt
from typing import Final

from pumice.client.values import verdict_of
from pumice.engines.local.events import PodChanged
from pumice.engines.local.run_errors import NoSuchPod
from pumice.engines.local.runs.event_codec import EventDecoder
from pumice.engines.local.runs.journal import read_journal
from pumice.engines.local.runs.run_record import SECRETS_MISSING, RunStatus
from pumice.engines.local.runs.run_store import RunStore, StoredRun
from pumice.engines.local.scheduling.run_queue import why_it_waits
from pumice.engines.local.verdict import how_it_failed, one_line
from pumice.engines.local.why import Hint, Why, WhyCode, sentence
from pumice.model.job import Job, TaskSpec
from pumice.model.slot import slots
from pumice.model.snapshot import ObservedPod, PodPhase

_SHOWN: Final = 3  # pods of a task that a hint names
_WAITING: Final = frozenset({WhyCode.RESOURCES, WhyCode.ORDER, WhyCode.DRAINING, WhyCode.DEPENDENCY, WhyCode.IMAGE})


def why_lines(why: Why) -> list[str]:
    """Return the reason in words, and the commands that would help."""
    ended = why.code in (WhyCode.FAILED, WhyCode.STOPPED) and "/" not in why.run
    waits = " waits" if why.code in _WAITING else f" {why.code}"
    text = sentence(why) if ended and why.message else f"{why.run}{waits}: {sentence(why)}"
    # A verdict ends with what to type next.
    hints = () if why.verdict is not None else why.hints
    return [text, *(f"  {hint.text}: {hint.command}" if hint.command else f"  {hint.text}" for hint in hints)]


def why_run(store: RunStore, run: StoredRun, now: dt.datetime) -> Why:
    """Return why a run waits, runs or has ended."""
    status = run.status()
    since = status.finished or status.started or run.record.created
    if status.finished is not None:
        hints = [] if status.exit_code == 0 else [Hint("its last lines", f"pumice logs {run.ref} --tail 30")]
        message = "\n".join(status.verdict) or status.note
        return Why(
            run=run.ref,
            code=_end(status),
            since=since,
            hints=tuple(hints),
            message=message,
            verdict=verdict_of(status),
        )
    if not run.is_of_this_host:
        return Why(run=run.ref, code=WhyCode.HOST, since=since, message=f"it belongs to {run.record.host}")
    if status.needs_resume:
        missing = status.reason == SECRETS_MISSING
        code = WhyCode.SECRETS_MISSING if missing else WhyCode.SUSPENDED
        command = status.note.rpartition("; ")[2] if missing else f"pumice resume {run.ref}"
        text = status.message or ("it was suspended" if status.stopped else "it is held")
        return Why(run=run.ref, code=code, since=since, hints=(Hint("to go on", command),), message=text)
    if (waits := why_it_waits(store, run, now)) is not None:
        return waits
    if status.started is None or not run.is_owned:
        lost = "its process was killed; the service recovers it" if status.started is not None else ""
        message = lost or status.message or "its process is about to start"
        return Why(run=run.ref, code=WhyCode.STARTING, since=since, message=message)
    return _running(run, status, since)


def why_pod(run: StoredRun, name: str) -> Why:
    """Return why a pod, `worker-0`, waits, runs or has ended. Raises NoSuchPod."""
    job, pods = _pods(run)
    ref = f"{run.ref}/{name}"
    if (pod := pods.get(name)) is not None:
        return _why_pod(ref, pod)
    slot = next((each for each in slots(job) if each.short_name == name), None)
    if slot is None:
        known = ", ".join(each.short_name for each in slots(job) if each.index < _SHOWN)
        raise NoSuchPod(f"{ref}: no such pod", f"it has {known}")
    if (waits := _dependency(slot.task)) and run.status().finished is None:
        return Why(run=ref, code=WhyCode.DEPENDENCY, since=run.status().started, message=waits)
    return Why(run=ref, code=WhyCode.STARTING, since=run.status().started, message="it has not been created")


def _end(status: RunStatus) -> WhyCode:
    if status.exit_code == 0:
        return WhyCode.COMPLETED
    return WhyCode.STOPPED if status.stopped else WhyCode.FAILED


def _running(run: StoredRun, status: RunStatus, since: dt.datetime) -> Why:
    """Return how many pods run, and what the others wait for."""
    job, pods = _pods(run)
    waiting = [pod for pod in pods.values() if pod.phase is PodPhase.PENDING and not pod.is_deleting]
    reasons = [_why_pod(f"{run.ref}/{pod.short_name}", pod) for pod in waiting if pod.waiting is not None]
    begun = {pod.task for pod in pods.values()}
    reasons += [
        Why(run=run.ref, code=WhyCode.DEPENDENCY, message=f"{task.name}: {text}")
        for task in job.spec.tasks
        if task.name not in begun and (text := _dependency(task))
    ]
    counts = f"{status.pods.running} of {status.pods.total} pods run"
    texts = [f"{each.run.rpartition('/')[2]}: {each.message}" if "/" in each.run else each.message for each in reasons]
    code = WhyCode.RUNNING if status.pods.running or not reasons else reasons[0].code
    message = "; ".join((counts, *texts, *([status.note] if status.note else [])))
    return Why(run=run.ref, code=code, since=since, message=message)


def _why_pod(ref: str, pod: ObservedPod) -> Why:
    look = Hint("its last lines", f"pumice logs {ref} --tail 30")
    since = pod.ended_at or pod.changed_at or pod.created_at
    if pod.phase is PodPhase.FAILED:
        return Why(run=ref, code=WhyCode.FAILED, since=since, hints=(look,), message=one_line(how_it_failed(pod, "")))
    if pod.phase is PodPhase.SUCCEEDED:
        return Why(run=ref, code=WhyCode.COMPLETED, since=since, message="it succeeded")
    if pod.phase is PodPhase.RUNNING:
        restarts = f"it runs, after {pod.restarts} restarts" if pod.restarts else "it runs"
        return Why(run=ref, code=WhyCode.RUNNING, since=since, hints=(look,) if pod.restarts else (), message=restarts)
    if pod.waiting is None:
        return Why(run=ref, code=WhyCode.STARTING, since=since, message="its containers are being started")
    reason, message = pod.waiting.reason, pod.waiting.message or pod.waiting.reason
    code = WhyCode.IMAGE if "Image" in reason else WhyCode.FAILED if "BackOff" in reason else WhyCode.RESOURCES
    return Why(run=ref, code=code, since=since, message=message)


def _dependency(task: TaskSpec) -> str:
    return "" if task.depends_on is None else f"waits for {', '.join(task.depends_on.name)}"


def _pods(run: StoredRun) -> tuple[Job, dict[str, ObservedPod]]:
    """Return the job, and its newest pods by short name."""
    decoder, found = EventDecoder(Job()), dict[str, ObservedPod]()
    for entry in read_journal(run.directory)[0]:
        event = decoder.decode(entry)
        if isinstance(event, PodChanged):
            found[event.pod.short_name] = event.pod
    return decoder.job if decoder.job.name else run.written_job(), found

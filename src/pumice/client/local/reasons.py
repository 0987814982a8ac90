"""Why a run, or one of its pods, is in its state: as data, with the commands that would help."""

from __future__ import annotations

import datetime as dt

from msgspec.structs import replace

from pumice.client.local.liveness import is_lost
from pumice.client.local.run_reader import RunReader
from pumice.client.values import changed_code, verdict_of
from pumice.diagnosis.hang import PY_SPY, hang_lines
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.pod_waits import dependency, last_lines
from pumice.diagnosis.pod_waits import why_pod as why_pod_of
from pumice.diagnosis.why import END_CODES, Hint, Why, WhyCode, sentence, success_text
from pumice.engines.local.scheduling.run_queue import why_it_waits
from pumice.model.snapshot import PodPhase
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.pod_names import planned_pod
from pumice.store.run_record import SECRETS_MISSING, RunStatus


def why(reader: RunReader, run: StoredRun, pod: str = "") -> Why:
    """Return why a run, or one of its pods, waits, runs or has ended. Raises NoSuchPod."""
    if pod:
        return why_pod(run, pod)
    reason, status = why_run(reader.store, run, reader.now()), reader.summary(run)
    message = "\n".join(filter(None, (sentence(reason), changed_code(status))))
    return replace(reason, outcome=status.outcome, message=message)


def why_run(store: RunStore, run: StoredRun, now: dt.datetime) -> Why:
    """Return why a run waits, runs or has ended."""
    status = run.status()
    since = status.finished or status.started or run.record.created
    if status.finished is not None:
        verdict, said = verdict_of(status), status.text or success_text(status.pods.succeeded, status.ran)
        # Whoever stopped a run in which nothing had failed knows all; one that had no pods has no lines.
        has_lines = (verdict is not None or status.outcome is Outcome.FAILED) and bool(run.history().lives)
        return Why(
            run=run.ref,
            code=END_CODES[status.outcome],
            since=since,
            hints=(last_lines(run.ref),) if has_lines else (),
            message=verdict.text if verdict is not None else said,
            verdict=verdict,
        )
    if run.elsewhere:
        why = "it had not ended when it was exported" if run.is_opened else run.elsewhere
        return Why(run=run.ref, code=WhyCode.HOST, since=since, message=why)
    if status.needs_resume:
        missing = status.reason == SECRETS_MISSING
        code = WhyCode.SECRETS_MISSING if missing else WhyCode.SUSPENDED
        command = status.command if missing else f"pumice resume {run.ref}"
        text = status.message if missing else status.text if status.stopped else "it is held"
        return Why(run=run.ref, code=code, since=since, hints=(Hint("to go on", command),), message=text)
    if (waits := why_it_waits(store, run, now)) is not None:
        return waits
    if status.started is None or not run.is_owned:
        lost = "its process was killed; the service recovers it" if status.started is not None else ""
        message = lost or status.message or "its process is about to start"
        return Why(run=run.ref, code=WhyCode.STARTING, since=since, message=message)
    return _running(run, status, since, now)


def why_pod(run: StoredRun, name: str) -> Why:
    """Return why a pod, `worker-0`, waits, runs or has ended. Raises NoSuchPod."""
    history = run.history()
    ref = f"{run.ref}/{name}"
    if (life := next((life for life in history.lives_of() if life.name == name), None)) is not None:
        is_gone = life.ended is not None or is_lost(run, run.status())
        if is_gone and not life.pod.is_finished:
            since, text = life.ended or life.changed, "it ended with the process of its run"
            return Why(run=ref, code=WhyCode.STOPPED, since=since, hints=(last_lines(ref),), message=text)
        return why_pod_of(ref, life.pod)
    job = history.job
    slot = planned_pod(ref, job, name)
    if (waits := dependency(slot.task)) and run.status().finished is None:
        return Why(run=ref, code=WhyCode.DEPENDENCY, since=run.status().started, message=waits)
    return Why(run=ref, code=WhyCode.STARTING, since=run.status().started, message="it has not been created")


def _running(run: StoredRun, status: RunStatus, since: dt.datetime, now: dt.datetime) -> Why:
    """Return how many pods run, or that none prints anything, and what the others wait for."""
    history = run.history()
    job, pods = history.job, [life.pod for life in history.lives_of()]
    waiting = [pod for pod in pods if pod.phase is PodPhase.PENDING and not pod.is_deleting]
    reasons = [why_pod_of(f"{run.ref}/{pod.short_name}", pod) for pod in waiting if pod.waiting is not None]
    begun = {pod.task for pod in pods}
    reasons += [
        Why(run=run.ref, code=WhyCode.DEPENDENCY, message=f"{task.name}: {text}")
        for task in job.spec.tasks
        if task.name not in begun and (text := dependency(task))
    ]
    first, doing, hints = f"{status.pods.running} of {status.pods.total} pods run", [], []
    if status.hang is not None:
        first, *doing = hang_lines(status.hang.at(now))
        hints = [Hint(PY_SPY)] if status.hang.lacks_py_spy else []
    texts = [f"{each.run.rpartition('/')[2]}: {each.message}" if "/" in each.run else each.message for each in reasons]
    code = WhyCode.RUNNING if status.pods.running or not reasons else reasons[0].code
    texts += [each.text for each in status.published]
    message = "; ".join((first, *texts, *([status.note] if status.note else [])))
    return Why(run=run.ref, code=code, since=since, message="\n".join((message, *doing)), hints=tuple(hints))

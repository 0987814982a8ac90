"""Follows the passes of the loop: the phases of a job, its end, and whether it waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct, field

from pumice.diagnosis.failures import Failures
from pumice.diagnosis.verdict import Evidence
from pumice.engines.local.engine import LocalEngine
from pumice.model.job import Job
from pumice.model.status import JobStatus
from pumice.model.vocabulary import Action, Event, Phase
from pumice.reconcile.consequences import acted_policy
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.ledger import most_attempts
from pumice.reconcile.phases import AT_REST
from pumice.store.events import Emitter, PhaseChanged
from pumice.store.options import Locate


class JobProgress(Struct):
    """Follows the passes of the loop: emits the job's phases, and knows when it first ran and when it has ended."""

    emit: Emitter
    policy: JobEvent | None = None  # that acted last in the current attempt
    cause: str = ""  # why the job is in its phase
    first_running: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _phase: str = ""
    _attempt: int = 1

    def on_pass(self, engine: LocalEngine, events: Sequence[JobEvent]) -> None:
        status = engine.job.status
        acted = next((event for event in events if event.policy), None)
        self.policy = acted or self.policy
        self.cause = next((event.cause for event in events if event.cause), self.cause)
        if acted is not None or status.state.phase != self._phase:
            self._phase = status.state.phase
            if self._phase == Phase.PENDING:
                self._attempt = status.retry_count + 1
                # The policy that led to this attempt does not end it.
                self.policy, self.cause = None, ""
            self.emit(PhaseChanged(engine.job, status, self._attempt, acted, self.cause))
        if status.state.phase == Phase.RUNNING:
            self.first_running.set()
        if status.state.phase in AT_REST and all(pod.observed().is_finished for pod in engine.pods.values()):
            self.ended.set()

    def evidence(self, engine: LocalEngine, known: Failures, locate: Locate) -> Evidence:
        """Return what the verdict follows from, as far as the job and its pods say it."""
        acted = self.policy
        return Evidence(
            job=engine.job,
            failures=known.in_order(),
            succeeded=known.succeeded(),
            addresses={pod.short_name: pod.address for pod in engine.pods.values()},
            restarted=known.restarted(),
            earlier=known.earlier,
            policy=None if acted is None else acted_policy(acted, locate(acted.policy)),
            cause=self.cause,
            max_attempts=most_attempts(engine.job.spec.max_retry, engine.job.status),
        )


def waits_in_vain(job: Job, status: JobStatus) -> str:
    """Say what a job waits for if no pod runs and none will: a task depends on others that failed, and no policy acts.

    On a cluster such a job waits forever, as in Volcano. A user at a terminal wants to know what would end it.
    """
    alive = status.pending + status.running + status.terminating + status.unknown
    if status.state.phase not in (Phase.PENDING, Phase.RUNNING) or alive or not status.failed:
        return ""
    for task in job.spec.tasks:
        if task.depends_on is not None and task.replicas and task.name not in status.task_status_count:
            names = ", ".join(task.depends_on.name)
            return (
                f"{task.name} waits for {names}, and no pod runs any more: {status.failed} failed\n"
                f"  hint: a policy {{event: {Event.POD_FAILED}, action: {Action.TERMINATE_JOB}}} would end the job;"
                " Ctrl-C ends it now"
            )
    return ""

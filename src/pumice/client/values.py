"""What a client learns about runs: frozen values, which `-o json` prints as they are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from pumice.admission.defaults import MAX_RETRY
from pumice.engines.local.runs.run_record import PodCounts, RunStatus
from pumice.engines.local.runs.run_store import StoredRun


class _Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all values."""


class RunSummary(_Value, frozen=True):
    """A run at one moment, as `ps` shows it."""

    run: str
    name: str
    number: int
    uid: str
    namespace: str
    phase: str
    reason: str
    pods: PodCounts
    attempt: int
    max_attempts: int
    note: str
    created: dt.datetime
    started: dt.datetime | None
    finished: dt.datetime | None
    exit_code: int | None
    priority: int
    mode: str
    host: str
    file: str
    directory: str
    stopped: bool = False
    verdict: Sequence[str] = ()

    @property
    def is_finished(self) -> bool:
        return self.finished is not None

    @property
    def is_over(self) -> bool:
        """Whether it goes on only if the user asks for it."""
        return self.is_finished or self.stopped

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0


def summary(run: StoredRun, status: RunStatus, note: str = "") -> RunSummary:
    """`note` is shown instead of what the run says about itself."""
    record = run.record
    pods, attempts = status.pods, status.max_attempts
    if status.started is None and not pods.total:
        # It has not begun: what its Job says.
        tasks = record.job.get("spec", {}).get("tasks") or []
        pods = msgspec.structs.replace(pods, total=sum(task.get("replicas", 1) for task in tasks))
        attempts = record.job.get("spec", {}).get("maxRetry") or MAX_RETRY
    return RunSummary(
        run=run.ref,
        name=record.name,
        number=record.number,
        uid=record.uid,
        namespace=record.namespace,
        phase=status.phase,
        reason=status.reason,
        pods=pods,
        attempt=status.attempt,
        max_attempts=attempts,
        note=note or status.note or record.note,
        created=record.created,
        started=status.started,
        finished=status.finished,
        exit_code=status.exit_code,
        priority=record.priority,
        mode=record.mode,
        host=record.host,
        file=record.file,
        directory=str(run.directory),
        stopped=status.stopped,
        verdict=status.verdict,
    )

"""The status of a run that has ended: from its outcome, and from the outcome with which its journal ends."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Final

import msgspec

from pumice.engines.local.outcome import Outcome
from pumice.engines.local.run_errors import StoreError
from pumice.engines.local.runs.event_codec import EventDecoder
from pumice.engines.local.runs.job_source import JobSource
from pumice.engines.local.runs.journal import read_journal, rebuilt_status
from pumice.engines.local.runs.run_record import RunRecord, RunStatus
from pumice.engines.local.verdict import Explanation, explained, one_line
from pumice.model.job import Job
from pumice.model.vocabulary import SUSPENDED, Phase
from pumice.reconcile.phases import FINAL

# The reasons of stops that a user or another program asked for.
_STOPPED: Final = frozenset({"Stopped", SUSPENDED})


def journal_outcome(directory: Path, record: RunRecord, before: RunStatus | None = None) -> RunStatus | None:
    """Return the status of a run whose journal ends with its outcome; None if it does not."""
    try:
        entries = read_journal(directory)[0]
    except StoreError:
        return None
    if not entries or entries[-1].kind != Outcome.__name__:
        return None
    decoder = EventDecoder(Job())
    outcome = [decoder.decode(entry) for entry in entries][-1]
    if not isinstance(outcome, Outcome):
        return None
    explanation = explained(outcome, JobSource.of(record.file, record.marks))
    status = ended_status(before or rebuilt_status(entries), outcome, explanation, entries[-1].time)
    return msgspec.structs.replace(status, seq=entries[-1].seq)


def ended_status(status: RunStatus, outcome: Outcome, explanation: Explanation, now: dt.datetime) -> RunStatus:
    """Return the status of a run with this outcome. A suspended run has not finished."""
    stopped = outcome.stop is not None and outcome.stop.reason in _STOPPED
    suspended = outcome.stop is not None and outcome.stop.reason == SUSPENDED
    return msgspec.structs.replace(
        status,
        phase=_final_phase(outcome),
        reason=outcome.reason or outcome.job.status.state.reason,
        # Of a suspended run, it names a Command of the engine.
        message="" if suspended else outcome.job.status.state.message,
        finished=None if suspended else now,
        started=None if suspended else status.started,
        exit_code=outcome.exit_code,
        verdict=explanation.lines,
        verdict_data=explanation.verdict,
        note=one_line(explanation.lines[0]) if explanation.lines else "",
        stopped=stopped,
    )


def _final_phase(outcome: Outcome) -> str:
    """Return the phase that the run ended in. Killed pods leave the job in the phase that it had."""
    ended = FINAL | {Phase.ABORTED}
    return outcome.phase if outcome.phase in ended or outcome.stop is None else Phase.TERMINATED

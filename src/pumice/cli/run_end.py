"""How a run ended: for people in words, for programs as a code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from pumice.cli.run_events import Ended
from pumice.engines.local.verdicts import Failure, last_words
from pumice.model.job import Job
from pumice.model.status import JobStatus
from pumice.model.vocabulary import Phase

TIMED_OUT = 124
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the job was told to end before it was over. `words` is empty where nobody needs to be told."""

    code: int
    reason: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """All that the last words are made of."""

    job: Job
    status: JobStatus
    failures: Sequence[Failure]
    policy: str  # that acted last, with its line
    next_command: str
    kept: Sequence[str] = ()

    def told(self, stop: Stop | None) -> Ended:
        phase = self.status.state.phase
        if stop is not None:
            lines = (stop.words, f"  next          {self.next_command}") if stop.words else ()
            return Ended(phase, stop.code, lines, reason=stop.reason, kept=self.kept)
        if phase == Phase.COMPLETED:
            return Ended(phase, 0, attempt=self.status.retry_count + 1, kept=self.kept)
        job = msgspec.structs.replace(self.job, status=self.status)
        words = last_words(job, self.failures, self.policy, self.next_command)
        return Ended(
            phase=phase,
            code=words.code or 1,
            lines=words.lines,
            pod=words.pod,
            container=words.end.container if words.end is not None else "",
            signal=words.end.signal if words.end is not None else 0,
            reason=self.status.state.reason,
            attempt=words.attempt or self.status.retry_count + 1,
            last_line=words.end.last_line if words.end is not None else "",
            kept=self.kept,
        )

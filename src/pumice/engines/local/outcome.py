"""How a run ended: for people in words, for programs as a code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from pumice.engines.local.events import Ended
from pumice.engines.local.preflight import container_path
from pumice.engines.local.verdict import Advice, Failure, last_words, row
from pumice.model.job import Job
from pumice.model.pod import all_containers
from pumice.model.snapshot import ContainerEnd
from pumice.model.status import JobStatus
from pumice.model.vocabulary import Phase
from pumice.reconcile.requested_action import SUSPENDED
from pumice.reconcile.verdict import OOM_KILLED

TIMED_OUT = 124
HUNG_UP = 129
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143
_NOT_FOUND = 127
_NO_END = ContainerEnd("", 0)


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
    again: Callable[..., str]  # the command line that asks for the same once more, with additions
    locate: Callable[[str], str]  # a path in the Job -> file:line
    kept: Sequence[str] = ()
    log: str = ""  # of the container that failed first
    host_image: str = ""  # the name of that container's image, if the host serves for it

    def told(self, stop: Stop | None) -> Ended:
        phase = self.status.state.phase
        if stop is not None:
            lines = (stop.words, row("next", self.again("--keep"))) if stop.words else ()
            return Ended(phase, stop.code, lines, reason=stop.reason, kept=self.kept)
        if phase == Phase.COMPLETED:
            return Ended(phase, 0, attempt=self.status.retry_count + 1, kept=self.kept)
        job = msgspec.structs.replace(self.job, status=self.status)
        words = last_words(job, self.failures, Advice(self._next(), self.policy, self._cause()))
        end = words.end or _NO_END
        return Ended(
            phase=phase,
            code=words.code or 1,
            lines=words.lines,
            pod=words.pod,
            container=end.container,
            signal=end.signal,
            reason=self.status.state.reason,
            attempt=words.attempt or self.status.retry_count + 1,
            last_line=end.last_line,
            kept=self.kept,
        )

    def _next(self) -> str:
        if self.status.state.reason == SUSPENDED:
            return f"{self.again()}     once its suspend is false ({self.locate('spec.suspend')})"
        end = self.failures[0].end if self.failures else _NO_END
        # Be it the command itself, or what a shell was to run.
        if end.exit_code == _NOT_FOUND and self.host_image:
            return f"{self.again('--image', f'{self.host_image}=PATH')}     PATH has the image's files"
        if self.kept and self.log:
            return f"less {self.log}"
        return f"{self.again('--keep')}     keeps the pods' files"

    def _cause(self) -> str:
        """For what the kernel did, which no program could print."""
        if not self.failures or self.failures[0].end.reason != OOM_KILLED:
            return ""
        failure = self.failures[0]
        path = container_path(self.job, failure.pod.task, failure.end.container)
        limit = _memory_limit(self.job, failure.pod.task, failure.end.container)
        if not limit:
            return "this machine had no memory left"
        return f"it took more than its memory limit, {limit} ({self.locate(f'{path}.resources.limits.memory')})"


def _memory_limit(job: Job, task_name: str, container: str) -> str:
    spec = next(task.pod_spec for task in job.spec.tasks if task.name == task_name)
    for each in all_containers(spec):
        if each.get("name") == container:
            return str(((each.get("resources") or {}).get("limits") or {}).get("memory") or "")
    return ""

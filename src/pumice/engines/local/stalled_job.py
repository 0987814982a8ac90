"""Notices that nothing runs and nothing will: tasks wait for others, which have failed, and no policy ends the job.

On a cluster such a job waits for ever, as in Volcano. Here somebody sits before it, who is told what would end it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pumice.model.job import Job
from pumice.model.status import JobStatus
from pumice.model.vocabulary import Action, Event, Phase

# So many looks in a row: between the end of one task and the start of the next nothing runs, either.
_LONG: Final = 6


@dataclass(slots=True)
class Stall:
    _looks: int = 0

    def look(self, job: Job, status: JobStatus) -> str:
        """Words for it, once; asked now and then."""
        waiting = _waiting(job, status)
        self._looks = self._looks + 1 if waiting else 0
        return waiting if self._looks == _LONG else ""


def _waiting(job: Job, status: JobStatus) -> str:
    alive = status.pending + status.running + status.terminating + status.unknown
    if status.state.phase not in (Phase.PENDING, Phase.RUNNING) or alive or not status.failed:
        return ""
    for task in job.spec.tasks:
        if task.depends_on is not None and task.replicas and task.name not in status.task_status_count:
            names = ", ".join(task.depends_on.name)
            return (
                f"{task.name} waits for {names}, and nothing runs any more: {status.failed} failed\n"
                f"  hint: a policy {{event: {Event.POD_FAILED}, action: {Action.TERMINATE_JOB}}} would end the job;"
                " Ctrl-C ends it now"
            )
    return ""

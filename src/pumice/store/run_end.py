"""How a run ended: the exit code, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from pumice.diagnosis.outcome import StopReason, is_asked, stop_text
from pumice.diagnosis.pod_ends import Reason
from pumice.diagnosis.verdict import Evidence, FailedPod, Verdict, judge
from pumice.model.job import Job
from pumice.model.vocabulary import SUSPENDED
from pumice.store.disk_use import DiskUse

NO_ROOM = 2
TIMED_OUT = 124
HUNG_UP = 129
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143
TIMEOUT = "Timeout"  # the reason of the stop of a run that took too long


class Stop(Struct, frozen=True):
    """Why a run is asked to end before its job does. `message` is empty where the user knows."""

    code: int = TERMINATED
    reason: str = StopReason.STOPPED
    message: str = ""
    grace: float | None = None  # seconds that each pod has, instead of its own grace period

    @property
    def text(self) -> str:
        """Who or what stopped the run, in words."""
        return stop_text(self.reason, self.message)


# A foreground run ends with its client.
CLIENT_LOST = Stop(1, "ClientLost", "the process that ran it was killed")


def by_force(first: Stop, code: int) -> Stop:
    """Return the stop of a run that is ended at once. The first request decides who ended it."""
    return Stop(code, StopReason.KILLED) if is_asked(first.reason) else first


def suspension(job: str) -> Stop:
    """Return the stop of a run that is suspended, and can be resumed."""
    return Stop(1, SUSPENDED, f"{job} was suspended")


class RunEnded(Struct, frozen=True):
    job: Job  # as it ended, with its status
    verdict: Verdict | None = None  # None if the job completed
    stop: Stop | None = None  # the run was stopped
    kept: Sequence[str] = ()  # the directories with the files that pods wrote
    directory: str = ""  # of the run
    disk: DiskUse = msgspec.field(default_factory=DiskUse)
    unshared: str = ""  # a path of this machine that the first pod missed, if its last line names one
    misses_workdir: str = ""  # its workingDir, if it missed a file there that the working directory has
    misses_project: str = ""  # the directory of the Job file, if that has the file which it missed
    python: str = ""  # the Python that pods without an image had
    python_with: str = ""  # a Python of this machine that has the module which that one lacked
    host_image: str = ""  # the name of that container's image, if the host's files served as image

    @property
    def phase(self) -> str:
        return self.job.status.state.phase

    @property
    def first(self) -> FailedPod | None:
        """The pod whose failure ended the run."""
        return self.verdict.first if self.verdict is not None and self.stop is None else None

    @property
    def exit_code(self) -> int:
        if self.stop is not None:
            return self.stop.code
        return 0 if self.verdict is None else self.verdict.exit_code

    @property
    def reason(self) -> str:
        return "" if self.verdict is None else self.verdict.reason

    @property
    def resume_command(self) -> str:
        """The command that goes on with a run that was suspended; empty for others."""
        if self.stop is None or self.reason != SUSPENDED or not self.directory:
            return ""
        stored = Path(self.directory)
        return f"pumice resume {stored.parent.name}:{stored.name}"


def unstarted(job: Job, stop: Stop | None) -> RunEnded:
    """Return the outcome of a run that was stopped before it had pods."""
    return RunEnded(job, judge(Evidence(job=job, stop=stop_reason(stop))), stop)


def stop_reason(stop: Stop | None) -> Reason | None:
    """Return why a run was stopped, for its verdict."""
    return None if stop is None else Reason(stop.reason, stop.message)

"""How a run ended: the exit code, and which pod failed first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.engines.local.state.disk_use import DiskUse
from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.model.vocabulary import SUSPENDED, Phase
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.failure_lines import first_to_blame

NO_ROOM = 2
TIMED_OUT = 124
HUNG_UP = 129
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143
KILLED = "Killed"  # the reason of a run that was stopped by force


class Stop(Struct, frozen=True):
    """Why a run is asked to end before its job does. `message` is empty where the user knows."""

    code: int = TERMINATED
    reason: str = "Stopped"
    message: str = ""
    grace: float | None = None  # seconds that each pod has, instead of its own grace period


# A foreground run ends with its client.
CLIENT_LOST = Stop(1, "ClientLost", "the process that ran it was killed")


def suspension(job: str) -> Stop:
    """Return the stop of a run that is suspended, and can be resumed."""
    return Stop(1, SUSPENDED, f"{job} was suspended")


class Failure(Struct, frozen=True):
    """A failed pod; it may have been removed since."""

    pod: ObservedPod
    end: ContainerEnd

    @property
    def attempt(self) -> int:
        return self.pod.retry + 1


@dataclass(slots=True)
class Failures:
    """The failures of the current pods, or of the last pod of each name. A replaced pod no longer counts."""

    _failed: dict[str, Failure] = field(default_factory=dict)
    # Pods whose containers fail and restart: where no pod has failed, a policy may have acted on these.
    _restarted: dict[str, Failure] = field(default_factory=dict)
    _version: int = 0
    earlier: Failure | None = None  # the first of the last attempt that failed

    def record(self, pod: ObservedPod) -> None:
        if pod.version > self._version:
            self._version = pod.version
            self.earlier = next(iter(self.in_order()), self.earlier)
            self._failed.clear()
            self._restarted.clear()
        known = self._failed.get(pod.name)
        if known is not None and known.pod.uid != pod.uid:
            del self._failed[pod.name]
        end = pod.first_failure
        # A pod that is being deleted was asked to end.
        if pod.phase is PodPhase.FAILED and end is not None and not pod.is_deleting:
            self._failed.setdefault(pod.name, Failure(pod, end))
        if pod.phase is PodPhase.SUCCEEDED:
            self._restarted.pop(pod.name, None)
        elif end is not None and pod.restarts and not pod.is_deleting:
            known = self._restarted.get(pod.name)
            if known is None or pod.restarts >= known.pod.restarts:
                self._restarted[pod.name] = Failure(pod, end)

    def record_restart(self, pod: ObservedPod) -> None:
        """Count a restart as soon as it is announced: it waits for its back-off."""
        self.record(replace(pod, restarts=pod.restarts + 1))

    def in_order(self) -> tuple[Failure, ...]:
        """Return the failures, the first one first."""
        return _in_order((self._failed or self._restarted).values())

    def restarted(self) -> tuple[Failure, ...]:
        """Return the last failures of pods whose containers restart."""
        return _in_order(each for name, each in self._restarted.items() if name not in self._failed)


def _in_order(found: Iterable[Failure]) -> tuple[Failure, ...]:
    """By time; but a failure that only followed another one comes after that one, which may take longer to end."""
    never = dt.datetime.max.replace(tzinfo=dt.UTC)
    ordered = sorted(found, key=lambda each: (each.end.finished_at or never, each.pod.task, each.pod.index))
    if ordered:
        ordered.insert(0, ordered.pop(first_to_blame([each.end for each in ordered])))
    return tuple(ordered)


class Outcome(Struct, frozen=True):
    job: Job  # as it ended, with its status
    failures: Sequence[Failure] = ()  # the first one first
    restarted: Sequence[Failure] = ()  # of containers that started again
    earlier: Failure | None = None  # the first of the attempt before
    policy: JobEvent | None = None  # that acted last
    stop: Stop | None = None  # the run was stopped
    kept: Sequence[str] = ()  # the directories with the files that pods wrote
    log: str = ""  # the log file of the container that failed first
    look: str = ""  # the command that shows the lines of its log around the failure; empty if it printed nothing
    doing: Sequence[str] = ()  # of a run that hung: what its pods were doing
    directory: str = ""  # of the run
    disk: DiskUse = msgspec.field(default_factory=DiskUse)
    unshared: str = ""  # a path of this machine that it missed, if its last line names one
    misses_workdir: str = ""  # its workingDir, if it missed a file there that the working directory has
    misses_project: str = ""  # the directory of the Job file, if that has the file which it missed
    python: str = ""  # the Python that pods without an image had
    host_image: str = ""  # the name of that container's image, if the host's files served as image

    @property
    def phase(self) -> str:
        return self.job.status.state.phase

    @property
    def blamed(self) -> Failure | None:
        """The failure that `log` belongs to: also one that did not end the run, and of the attempt before."""
        return self.failures[0] if self.failures else self.earlier

    @property
    def first(self) -> Failure | None:
        """The failure that the verdict names."""
        blamed = self.stop is None and self.phase != Phase.COMPLETED
        return self.failures[0] if self.failures and blamed else None

    @property
    def exit_code(self) -> int:
        if self.stop is not None:
            return self.stop.code
        if self.phase == Phase.COMPLETED:
            return 0
        return self.first.end.exit_code or 1 if self.first is not None else 1

    @property
    def reason(self) -> str:
        if self.stop is not None:
            return self.stop.reason
        return "" if self.phase == Phase.COMPLETED else self.job.status.state.reason

    @property
    def attempt(self) -> int:
        """The attempt of the verdict; 0 if the run was stopped."""
        if self.stop is not None:
            return 0
        return self.first.attempt if self.first is not None else self.job.status.retry_count + 1

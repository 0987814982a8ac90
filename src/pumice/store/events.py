"""What happens during a run, as values for its listeners: a terminal, a program, a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from pumice.diagnosis.code_change import CodeChange
from pumice.diagnosis.hang import Hang
from pumice.diagnosis.why import Why
from pumice.model.job import Job, JobStatus
from pumice.model.snapshot import ContainerEnd, ObservedPod
from pumice.reconcile.decision import JobEvent
from pumice.runtime.once import Once
from pumice.store.run_end import RunEnded, Stop
from pumice.store.settings import HostAccess


class LogLine(Struct, frozen=True):
    pod: str  # short name
    container: str
    stream: str  # stdout or stderr
    text: str
    unfinished: bool = False  # a progress bar, which the next line replaces


class RunPlanned(Struct, frozen=True):
    """The run may start: nothing keeps it from this machine."""

    job: Job
    images: str
    host_accesses: Sequence[HostAccess] = ()  # what the Job and its pumice.toml use of this machine's files
    notes: Sequence[str] = ()
    name: str = ""  # of the run
    directory: str = ""  # with its logs
    note: str = ""  # of the user
    # By task, the resources (cpu, memory) that its pods can use beyond their limits: nothing enforces these here.
    unenforced: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)


class RunWaits(Struct, frozen=True):
    """The run waits for resources of this machine."""

    why: Why


class LogOutput(Struct, frozen=True):
    lines: Sequence[LogLine]


class PhaseChanged(Struct, frozen=True):
    """The job entered a phase, or a policy acted, which may be the reason for it."""

    job: Job
    status: JobStatus
    attempt: int  # 1, and one more with each restart by a policy
    acted: JobEvent | None = None
    cause: str = ""  # why the job is in its phase, without the policy that acted


class StatusWritten(Struct, frozen=True):
    """The status of the job was written: what another process needs to go on with the run."""

    status: JobStatus


class PodChanged(Struct, frozen=True):
    """A pod entered a phase. `images`, by container, are set when the pod is created; `follows` when it fails."""

    pod: ObservedPod
    images: Mapping[str, str] = msgspec.field(default_factory=dict)
    follows: str = ""  # what its failure leads to
    gpus: tuple[str, ...] = ()  # the devices that it has, while it has them


class PodKilled(Struct, frozen=True):
    pod: str
    flag: str  # that asked for it


class ContainerRestarted(Struct, frozen=True):
    """A container starts again: how it ended, how many restarts it has had, and what would end them."""

    pod: ObservedPod
    end: ContainerEnd
    count: int
    hint: str = ""


class PortPublished(Struct, frozen=True):
    pod: str
    port: int
    address: str


class PortTaken(Struct, frozen=True):
    """The address at which a port is to be published is not free: `why`. It is tried again."""

    pod: str
    port: int
    address: str
    why: str


class WarningIssued(Struct, frozen=True):
    message: str


class CodeChanged(Struct, frozen=True):
    """An attempt begins, and files of the code are not as they were when the run was submitted; None if all are."""

    change: CodeChange | None


class RunHangs(Struct, frozen=True):
    """No pod has printed anything, nor changed, for a while."""

    hang: Hang


class HangEnded(Struct, frozen=True):
    """A pod printed something again, or changed."""


class Progress(Struct, frozen=True):
    """Why preparation takes a while, such as an image that is unpacked."""

    message: str
    transient: bool = False  # the next message replaces it


class Stopping(Struct, frozen=True):
    """The run was asked to stop; the pods have this many seconds to end."""

    grace: float


class RequestAccepted(Struct, frozen=True):
    """The run was asked to end, or to have other numbers of pods. The request outlives the process that accepted it."""

    stop: Stop | None = None
    replicas: Mapping[str, int] = msgspec.field(default_factory=dict)  # by task


class Tick(Struct, frozen=True):
    """Time passed, for listeners that show a clock."""


# What a journal records. The last event of a run is its RunEnded.
RecordedEvent = (
    RunPlanned
    | RunWaits
    | PhaseChanged
    | StatusWritten
    | PodChanged
    | PodKilled
    | ContainerRestarted
    | PortPublished
    | PortTaken
    | WarningIssued
    | CodeChanged
    | RunHangs
    | HangEnded
    | Progress
    | Stopping
    | RequestAccepted
    | RunEnded
)
RunEvent = RecordedEvent | LogOutput | Tick
Listener = Callable[[RunEvent], None]


class LogGate(Struct):
    """Stops reading the output of all pods while a listener is slow: their pipes fill, and their programs wait."""

    closed: bool = False
    _released: bool = False
    _waiting: list[Callable[[], None]] = field(default_factory=list)

    def close(self) -> None:
        self.closed = not self._released

    def open(self) -> None:
        self.closed = False
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def release(self) -> None:
        """Open it permanently: a run that ends does not wait for a listener."""
        self._released = True
        self.open()

    def when_open(self, go_on: Callable[[], None]) -> None:
        self._waiting.append(go_on)


class Emitter(Struct):
    """Calls all listeners with each event; a warning only once, because what holds for 64 pods is one line.

    A listener that raises an exception is not called again.
    """

    listeners: list[Listener]
    failed: Callable[[Exception], None]
    gate: LogGate = field(default_factory=LogGate)  # of what the pods print
    _warnings: Once = field(default_factory=Once)

    def __call__(self, event: RunEvent) -> None:
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller of `run` gets it
                self.listeners.remove(listener)
                self.failed(error)

    def note(self, message: str) -> None:
        self(Progress(message))

    def warn(self, message: str) -> None:
        if self._warnings.first(message):
            self(WarningIssued(message))

"""What happens to a running job, as values for whoever listens: a person at a terminal, a program, a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pumice.engines.local.kubelet.container_logs import LogLine
from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, ObservedPod
from pumice.model.status import JobStatus
from pumice.reconcile.decision import JobEvent
from pumice.runtime.once import Once


@dataclass(frozen=True, slots=True)
class Planned:
    job: Job
    images: str


@dataclass(frozen=True, slots=True)
class Printed:
    lines: Sequence[LogLine]


@dataclass(frozen=True, slots=True)
class Moved:
    """The job has entered a phase, or a policy has acted, which may be the reason for it."""

    job: Job
    status: JobStatus
    attempt: int  # 1, and one more with each restart by a policy
    acted: JobEvent | None = None


@dataclass(frozen=True, slots=True)
class PodMoved:
    """A pod has entered a phase; `images` by container, when it is made."""

    pod: ObservedPod
    images: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restarted:
    """A container is started again: how it ended, how often that has happened, and what would put an end to it."""

    pod: ObservedPod
    end: ContainerEnd
    count: int
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    pod: str
    port: int
    address: str


@dataclass(frozen=True, slots=True)
class Warned:
    message: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Why it takes a while; nothing is wrong."""

    message: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """The user wants it to end; the pods have so many seconds to do so."""

    grace: float


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended. `lines` are for people; there are none if all is well."""

    phase: str
    code: int
    lines: Sequence[str] = ()
    pod: str = ""
    container: str = ""
    signal: int = 0
    reason: str = ""
    attempt: int = 0
    last_line: str = ""
    kept: Sequence[str] = ()  # where what the pods wrote lies


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing has happened for a while, which those who show a clock want to know."""


Happening = (
    Planned | Printed | Moved | PodMoved | Restarted | Published | Warned | Noted | Stopping | Ended | TimePassed
)
Listener = Callable[[Happening], None]


@dataclass(slots=True)
class Teller:
    """Tells everyone everything, but a warning only once: what holds for 64 pods is one line."""

    listeners: list[Listener]
    failed: Callable[[OSError], None] | None = None  # somebody cannot be told any more
    lost: OSError | None = None  # that was so before anybody wanted to know
    _warnings: Once = field(default_factory=Once)

    def __call__(self, happening: Happening) -> None:
        for listener in tuple(self.listeners):
            try:
                listener(happening)
            except OSError as error:
                self.listeners.remove(listener)
                if self.failed is None:
                    self.lost = error
                else:
                    self.failed(error)

    def warn(self, message: str) -> None:
        if self._warnings.first(message):
            self(Warned(message))

"""The part of the port that a program needs which stays open, as the page: it reads the same runs again and again.

`local/local_observer.py` implements it for this machine.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from pumice.client.backend import Change, RunRef
from pumice.diagnosis.outcome import Outcome
from pumice.model.job import Manifest
from pumice.model.quantity import Quantity
from pumice.store.history.run_history import RunHistory
from pumice.store.run_record import RunRecord, RunStatus
from pumice.store.sample_file import Sample

if TYPE_CHECKING:
    from pumice.diagnosis.why import Why
    from pumice.store.logs.log_source import LogBatch
    from pumice.store.logs.numbered_log import NumberedLog


class Scope(Struct, frozen=True):
    """Which runs are read, and what can be known of them where they are."""

    name: str = "this machine"
    reserved: str = "this machine"  # what the amounts of `Capacity` are about; empty if there are none
    measures: bool = True  # what pods use is recorded
    shows_pods: bool = True  # the user may read pods
    has_queue: bool = True  # it is known which runs hold what is short, and which wait in which order
    everywhere: bool = False  # runs of several namespaces, which have to be named
    first_command: str = ""  # that starts a run there; empty where the page knows several


class Repeat(Struct, frozen=True):
    """Submitting the same Job again, which changes no run."""


# Why changes cannot be made at all, whatever the state of the run.
Refusals: TypeAlias = Mapping[type[Change] | type[Repeat], str]


class Holding(Struct, frozen=True):
    """What a run holds."""

    run: str
    uid: str
    amounts: Mapping[str, Quantity]  # of GPUs, `gpus` counts
    gpus: tuple[str, ...] = ()
    ends_by: dt.datetime | None = None  # at the latest


class WaitingRun(Struct, frozen=True):
    run: str
    uid: str
    demand: Mapping[str, Quantity]
    pods: int
    why: Why


class Capacity(Struct, frozen=True):
    """What there is, who holds it, and who waits for it."""

    host: str
    total: Mapping[str, Quantity]
    free: Mapping[str, Quantity]
    gpus: tuple[str, ...]
    holdings: Sequence[Holding]
    waiting: Mapping[str, WaitingRun]  # by uid, in the order of the queue
    active: Mapping[str, tuple[str, RunStatus]]  # uid and status of each run that has not finished, by its name


class ListedRun(Struct, frozen=True):
    """A run in the list of all: so little that ten thousand are kept. `version` differs whenever it has changed."""

    ref: RunRef  # without uid if it cannot be read
    created: dt.datetime
    words: str  # what a filter looks at, in small letters
    outcome: Outcome = Outcome.FAILED
    finished: dt.datetime | None = None
    damaged: str = ""  # why it cannot be read
    version: int = 0


class Observed(Struct, frozen=True):
    """A run as it is now. The next observation continues the same history, so read it before."""

    ref: RunRef
    history: RunHistory
    status: RunStatus
    outcome: Outcome  # of a run that lost its process, the status does not know it yet
    is_over: bool  # nothing works on it, so that the last state of its pods is final
    has_process: bool  # something carries out what is requested of it
    elsewhere: str = ""  # why it cannot be changed from here: it belongs to another host, or to an archive
    pods_known: bool = True  # else only the numbers are known that the status of the Job has
    flags: str = ""  # by which a command finds it: `--on prod -n ml`
    directory: str = ""  # with its files, if they are here

    @property
    def record(self) -> RunRecord:
        return self.history.record


class PodAddress(Struct, frozen=True):
    node: str = ""
    address: str = ""


class Samples(Protocol):
    """The measurements of one run."""

    async def size(self) -> int:
        """Return a number that grows with each measurement; 0 if there is none."""

    def new(self) -> AsyncGenerator[Sequence[Sample], None]:
        """Yield the measurements since the last call, in the order of time, many at once."""


class Observer(Protocol):
    """What has not changed is kept, so that each call costs little. Raises RunError and OSError, as a backend does."""

    @property
    def scope(self) -> Scope: ...

    async def open(self) -> None:
        """Begin to read, if that takes more than a call. Raises RunError if it is not possible."""

    async def close(self) -> None: ...

    def notices(self) -> Sequence[str]:
        """Return what cannot be read now, and why: a line each."""

    async def runs(self) -> Sequence[ListedRun]:
        """Return all runs, damaged ones too: the same object until a run has changed."""

    async def observe(self, run: RunRef, *, whole: bool = True) -> Observed:
        """Return a run, whose history is continued next time. Without `whole`, what a list does not show may lack."""

    async def log(self, run: RunRef) -> NumberedLog:
        """Return the log of a run with what was printed by now: the same object until it has ended.

        The next call adds to it, so read it before.
        """

    async def newest_line(self, run: RunRef) -> LogBatch | None:
        """Return what was printed last; None if that is not known, or costs too much to show it in a list."""

    def samples(self, run: RunRef) -> Samples: ...

    async def waiting(self, run: Observed, *, whole: bool = True) -> WaitingRun | None:
        """Return why a run waits; None if it does not. Without `whole`, only the sentence is needed."""

    async def refusals(self, run: Observed) -> Refusals: ...

    async def document(self, run: Observed) -> Manifest | None:
        """Return the Job as it is stored; None if it is what was submitted, which the record has."""

    async def capacity(self) -> Capacity:
        """Return what there is, who holds it, and who waits for it, as it was within the last seconds."""

    async def addresses(self, run: Observed, pods: Sequence[str]) -> Mapping[str, PodAddress]:
        """Return where pods run, as far as it is known."""

    async def manifest(self, run: RunRef, pod: str, attempt: int = 0) -> Manifest | None:
        """Return the newest pod of a name as it was created, in an attempt or in any; None if it was not."""

    def forget(self) -> None:
        """Read everything again at the next call, because something was changed."""

"""The port to runs: everything that shows or changes runs talks to a `Backend`, wherever the runs are.

`local/local_backend.py` implements it for this machine, `cluster/cluster_backend.py` for a cluster. Nothing of the
command line, the page or the Python API knows which. Reads of a backend that does not wait need no event loop.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from pumice.client.pod_access import LocalPort, PodCommand, PodPath, PodPort, Skipped
from pumice.client.values import FINISHED, Status
from pumice.model.job import Manifest
from pumice.model.problem import Problem
from pumice.model.quantity import Quantity
from pumice.store.run_errors import WaitTimeout
from pumice.store.run_names import run_ref
from pumice.store.run_record import OPENED

if TYPE_CHECKING:
    # A command loads only what it uses of the port.
    import subprocess
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pumice.admission.admit import Admitted
    from pumice.client.lease import CheckedRun, Lease
    from pumice.client.observer import Observer
    from pumice.diagnosis.why import Why
    from pumice.model.findings import Finding
    from pumice.store.code.bundles import Bundle
    from pumice.store.events import RunEvent
    from pumice.store.history.run_history import RunHistory
    from pumice.store.journal import Entry
    from pumice.store.logs.log_reader import LogSelection
    from pumice.store.logs.log_source import Execution, LogBatch
    from pumice.store.run_request import RunRequest
    from pumice.store.sample_file import Sample
    from pumice.store.settings import Retention

T = TypeVar("T")
# Runs that finished earlier are not listed, unless all are asked for.
RECENT: Final = dt.timedelta(hours=24)


class RunRef(Struct, frozen=True):
    """Names one run. Where runs are not numbered, as Jobs on a cluster, `number` is 0."""

    name: str
    number: int
    namespace: str
    uid: str
    opened: bool = False  # from an archive

    @classmethod
    def of(cls, status: Status) -> RunRef:
        return cls(status.name, status.number, status.namespace, status.uid, status.mode == OPENED)

    def __str__(self) -> str:
        return run_ref(self.name, self.number, opened=self.opened)


class Selection(Struct, frozen=True):
    """Which runs: by default the active ones and those that finished within 24 hours."""

    names: Sequence[str] = ()  # of Jobs, or of single runs
    everything: bool = False
    active: bool = False  # only those that have not finished
    mine: bool = False  # only those that this user can change from here
    amounts: bool = False  # also what they hold
    labels: str = ""  # a label selector, for Jobs of a cluster
    by_me: bool = False  # only those that this user has submitted


class Listing(Struct, frozen=True):
    runs: list[Status]  # the newest first
    amounts: Mapping[str, Mapping[str, Quantity]] = field(default_factory=dict)  # by uid, what running runs hold
    warnings: Sequence[str] = ()


class OpenedRun(Struct, frozen=True):
    run: RunRef
    is_new: bool  # it was not opened before
    has_logs: bool


class Usage(Struct, frozen=True):
    """What pods use; of a run that is not live, the last sample of each."""

    samples: list[Sample]
    live: bool


class Node(Struct, frozen=True):
    """A machine for pods. Amounts are quantities by resource; `free` is None if that is not known."""

    name: str
    ready: bool
    schedulable: bool
    total: Mapping[str, str]
    free: Mapping[str, str] | None


class NodeListing(Struct, frozen=True):
    nodes: Sequence[Node]
    warnings: Sequence[str] = ()


class StopRun(Struct, frozen=True):
    """`force` ends a process that does not respond; `grace`, in seconds, replaces that of the pods."""

    force: bool = False
    grace: float | None = None


class SuspendRun(Struct, frozen=True):
    """End the pods, or leave the queue, until the run is resumed."""


class ResumeRun(Struct, frozen=True):
    """Queue a suspended run again, or one whose secrets are missing: with these variables and Secrets."""

    env: Mapping[str, str] = field(default_factory=dict)
    documents: Sequence[Manifest] = ()


class RestartRun(Struct, frozen=True):
    """Restart all pods; it does not count as a retry."""


class ScaleRun(Struct, frozen=True):
    """Change the number of pods of tasks; a run that waits starts with them."""

    replicas: Mapping[str, int]


class KillPod(Struct, frozen=True):
    """Send a signal to the containers of a pod. Nothing is affected if none of them runs."""

    pod: str
    signal: int


class DetachRun(Struct, frozen=True):
    """Let a foreground run continue without the process that started it."""


class RemoveRun(Struct, frozen=True):
    """Remove the record and the logs; `force` stops the run first, `claims` removes the data of its claims, too."""

    force: bool = False
    claims: bool = False


Change: TypeAlias = StopRun | SuspendRun | ResumeRun | RestartRun | ScaleRun | KillPod | DetachRun | RemoveRun
# What `watch` yields: what is known so far, whenever a process of the run begins to report; then each event; and the
# status when it changes while no process reports.
Update: TypeAlias = "RunHistory | RunEvent | Status"
Findings: TypeAlias = "Sequence[Finding]"


class Exec(Struct, frozen=True):
    """A command in a container. `size`, lines and columns, is that of the terminal on which it runs."""

    pod: str
    argv: Sequence[str]
    container: str = ""
    size: tuple[int, int] | None = None
    timeout: float | None = None  # seconds


class Leftovers(Protocol):
    """What runs leave, to be removed."""

    @property
    def names(self) -> Sequence[str]: ...

    def remove(self) -> AsyncGenerator[tuple[str, str], None]:
        """Remove them; yield the name of each, and why it could not be removed."""


class Feature(StrEnum):
    """What a backend may be unable to do."""

    USAGE = "usage"
    EXEC = "exec"
    COPY = "copy"
    FORWARD = "forward"
    EXPORT = "export"
    CLEAN = "clean"
    OPEN = "open"


def no_prefix(_execution: Execution) -> bytes:
    return b""


def silent(_line: str) -> None:
    """Tell nobody."""


class Backend(Protocol):
    """Raises RunError: NoSuchRun, NoSuchPod, WrongState, Denied, Unsupported, ConnectionFailed, StoreError."""

    @property
    def name(self) -> str:
        """Where: `this machine`, or the context of a cluster."""

    @property
    def address(self) -> tuple[Any, ...]:
        """The arguments of `open_backend` that open it in another process."""

    @property
    def waits(self) -> bool:
        """Whether its reads wait, as for a network: they need an event loop."""

    @property
    def default_namespace(self) -> str:
        """Of Jobs that name none."""

    def now(self) -> dt.datetime: ...

    async def close(self) -> None: ...  # connections; a later call opens them again

    def supports(self, feature: Feature) -> Problem | None:
        """Return why it cannot do something; None if it can."""

    def listen(self, tell: Callable[[str], None]) -> None:
        """Choose what takes lines about the connection: that it is lost, and that it is back."""

    def notices(self) -> list[str]:
        """Return what happened to runs since anyone asked, each once."""

    def warnings(self, *, submitted: bool = False) -> list[str]:
        """Return what keeps runs from being recorded; of those just submitted, from outliving this session."""

    # --- show -----------------------------------------------------------------------------------------------------

    async def find(self, text: str) -> RunRef:
        """Return the run that a user named."""

    async def runs(self, selection: Selection) -> Listing: ...

    def listings(self, selection: Selection) -> AsyncGenerator[Listing, None]:
        """Yield the runs now and when they may have changed, for ever."""

    async def run_names(self) -> Sequence[str]:
        """Return the names of Jobs and of all their runs, also of those that cannot be read."""

    async def status(self, run: RunRef) -> Status: ...

    def statuses(self, runs: Sequence[RunRef]) -> AsyncGenerator[Sequence[Status], None]:
        """Yield the runs now, and again when one may have changed, at least once a second. What waits is kept going."""

    async def history(self, run: RunRef) -> RunHistory: ...

    async def job(self, run: RunRef) -> Manifest: ...  # with its status, as the API of a cluster has it

    def journal(self, run: RunRef, *, follow: bool = False) -> AsyncGenerator[Sequence[Entry], None]:
        """Yield what happened; with `follow`, also what happens until the run ends."""

    def watch(self, run: RunRef) -> AsyncGenerator[Update, None]:
        """Yield updates until the run is over."""

    def logs(
        self,
        run: RunRef,
        selection: LogSelection,
        *,
        follow: bool = False,
        prefix: Callable[[Execution], bytes] = ...,
    ) -> AsyncGenerator[Sequence[LogBatch], None]:
        """Yield the selected lines in one order, each with its prefix; with `follow`, until the run ends."""

    async def why(self, run: RunRef, pod: str = "") -> Why: ...

    async def usage(self, run: RunRef) -> Usage: ...

    async def code(self, run: RunRef) -> Bundle | None: ...  # as submitted, if recorded; raises IncompleteCodeError

    async def nodes(self) -> NodeListing: ...  # on which pods can run

    async def export(self, run: RunRef, out: BinaryIO, *, logs: bool = True) -> None:
        """Write an archive of the run, without the values of secret variables."""

    async def open(self, archive: BinaryIO, name: str) -> OpenedRun:
        """Store the run of an archive of `export`, to be read. `name` is that of the file.

        Raises InvalidOption with all that is wrong with it.
        """

    def observe(self) -> Observer:
        """Return what a program reads runs with that stays open."""

    # --- change ---------------------------------------------------------------------------------------------------

    async def check(self, request: RunRequest) -> CheckedRun: ...

    async def validate(self, job: Admitted, documents: Sequence[Manifest], namespace: str) -> Findings:
        """Return why this place would not take a Job that is valid as such. Nothing is created."""

    async def submit(self, run: CheckedRun) -> RunRef: ...

    async def repeat(self, run: RunRef) -> RunRef:
        """Submit the same Job with the same options again. Raises WrongState if values that it needs are not stored."""

    def start(self, request: RunRequest) -> Lease: ...

    def prepared_start(self) -> AbstractContextManager[Callable[[RunRequest], Lease]]:
        """Yield `start`, and load what it needs meanwhile. Only before any thread or event loop. Raises Unsupported."""

    async def check_change(self, run: RunRef, change: Change) -> None:
        """Raises RunError if the change cannot be made."""

    async def change(self, run: RunRef, change: Change, tell: Callable[[str], None] = silent) -> Sequence[str]:
        """Make the change; return the names of what else it affected: a detached run, a killed pod, removed claims.

        `tell` gets a line when it has to wait.
        """

    def location(self, run: RunRef) -> str:
        """Return where a run is, for messages about changes: CONTEXT/NAMESPACE. Empty for this machine."""

    async def strangers(self, runs: Sequence[RunRef]) -> Mapping[str, str]:
        """Return who submitted runs, by uid, where that is known to be another person."""

    async def wake(self) -> None:
        """Keep runs going that wait."""

    async def leftovers(self, retention: Retention, *, claims: bool, images: bool) -> Leftovers:
        """Return old runs, and unused claims and images, to be removed."""

    async def exec(self, run: RunRef, command: Exec) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end; return its code and its output."""

    async def enter(self, run: RunRef, command: Exec) -> PodCommand:
        """Run a command with streams, or on a terminal."""

    async def forward(self, run: RunRef, port: PodPort, tell: Callable[[str], None] = silent) -> LocalPort:
        """Open a port of this machine. Raises InvalidOption if it is taken, NoSuchPod, and WrongState.

        `tell` gets a line when a connection fails.
        """

    async def copy_from(self, run: RunRef, source: PodPath, local: Path) -> list[Skipped]: ...

    async def copy_to(self, run: RunRef, local: Path, target: PodPath) -> list[Skipped]: ...


def complete(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that does not wait to its end. It needs no event loop, whose modules take long to load."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("it waits, and needs an event loop")


async def wait(
    backend: Backend,
    runs: Sequence[RunRef],
    goal: str = FINISHED,
    *,
    some: bool = False,
    timeout: float | None = None,  # noqa: ASYNC109 - the message says what was waited for
) -> Sequence[Status]:
    """Wait until all runs, or with `some` one of them, have reached the goal or are over. Raises WaitTimeout."""
    deadline = None if timeout is None else time.monotonic() + timeout
    async with aclosing(backend.statuses(runs)) as updates:
        async for statuses in updates:
            done = [each.is_over or (goal.lower() != FINISHED and each.reached(goal)) for each in statuses]
            if any(done) if some else all(done):
                return statuses
            if deadline is not None and time.monotonic() >= deadline:
                waiting = ", ".join(each.run for each, is_done in zip(statuses, done, strict=True) if not is_done)
                raise WaitTimeout(f"{waiting}: not {goal} within {timeout:g}s")
    return []

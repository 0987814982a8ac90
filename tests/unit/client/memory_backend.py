"""A backend without files, processes or a machine: it shows that the port is all that commands and programs need."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec.structs import replace

from pumice.admission.admit import Admitted
from pumice.client.backend import (
    Change,
    DetachRun,
    Exec,
    Feature,
    Findings,
    KillPod,
    Listing,
    Node,
    NodeListing,
    OpenedRun,
    RemoveRun,
    ResumeRun,
    RunRef,
    Selection,
    StopRun,
    SuspendRun,
    Update,
    Usage,
    silent,
)
from pumice.client.lease import CheckedRun
from pumice.client.local.run_reader import job_with_status
from pumice.client.observer import Capacity, PodAddress
from pumice.client.pod_access import PodPath, PodPort, Skipped
from pumice.client.values import Status
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.why import Why
from pumice.model.findings import Finding
from pumice.model.job import Manifest
from pumice.model.problem import Problem
from pumice.store.code.bundles import Bundle
from pumice.store.events import Listener, LogLine, LogOutput, RunEvent, RunPlanned, Tick
from pumice.store.history.run_history import RunHistory
from pumice.store.journal import Entry
from pumice.store.logs.log_reader import LogSelection
from pumice.store.logs.log_source import Execution, LogBatch
from pumice.store.run_end import RunEnded, Stop
from pumice.store.run_errors import NoSuchPod, NoSuchRun, WrongState
from pumice.store.run_names import LAST
from pumice.store.run_record import RunRecord, RunStatus
from pumice.store.run_request import RunRequest
from pumice.store.sample_file import Sample
from pumice.store.settings import Retention
from tests.unit.client.memory_observer import MemoryObserver

EMPTY: Final = Capacity("memory", {}, {}, (), (), {}, {})


@dataclass(slots=True)
class MemoryRun:
    ref: RunRef
    status: Status
    record: RunRecord
    entries: Sequence[Entry] = ()
    batches: Sequence[LogBatch] = ()
    samples: list[Sample] = field(default_factory=list)
    whys: dict[str, Why] = field(default_factory=dict)  # by pod
    code: Bundle | None = None
    state: RunStatus = field(default_factory=RunStatus)
    measured: Sequence[Sample] = ()  # all that was
    addresses: dict[str, PodAddress] = field(default_factory=dict)  # by pod
    manifests: dict[str, list[Manifest]] = field(default_factory=dict)  # by pod, the newest last


@dataclass(slots=True)
class MemoryCheckedRun:
    request: RunRequest
    note: str = ""


@dataclass(slots=True)
class MemoryCommand:
    """Prints its words. Its end is known at once."""

    argv: Sequence[str]
    descriptors: list[int] = field(default_factory=list)
    has_ended: bool = True
    _end: int = -1

    def __post_init__(self) -> None:
        (read_in, write_in), (read_out, write_out), (read_err, write_err) = os.pipe(), os.pipe(), os.pipe()
        os.write(write_out, f"{' '.join(self.argv)}\n".encode())
        self.descriptors, self._end = [write_in, read_out, read_err], read_in
        os.close(write_out)
        os.close(write_err)

    def fileno(self) -> int:
        return self._end

    def code(self) -> int:
        return 3

    def close_stream(self, descriptor: int) -> None:
        os.close(descriptor)
        self.descriptors.remove(descriptor)

    def resize(self, size: tuple[int, int]) -> None:
        """It has no terminal."""

    def close(self) -> None:
        for each in (*self.descriptors, self._end):
            os.close(each)


@dataclass(slots=True)
class MemoryPort:
    """Sends each client the same answer."""

    server: asyncio.Server

    @classmethod
    async def open(cls, answer: bytes, port: int) -> MemoryPort:
        async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(answer)
            writer.close()

        return cls(await asyncio.start_server(serve, "127.0.0.1", port))

    @property
    def local_port(self) -> int:
        return int(self.server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self.server.close()


@dataclass(slots=True)
class MemoryLease:
    """A run whose pod prints a line and succeeds."""

    backend: MemoryBackend
    request: RunRequest
    has_begun: bool = False
    is_detached: bool = False
    warning: str = "nothing is kept"
    outlives_client: bool = False
    flags: str = ""
    _run: MemoryRun | None = None
    _stop: Stop | None = None
    _asked: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    @property
    def ref(self) -> RunRef:
        if self._run is None:
            raise WrongState("the run has not begun")
        return self._run.ref

    async def events(self) -> AsyncGenerator[RunEvent, None]:
        job = self.request.job.job
        self._run = self.backend.add_run(self.request, Outcome.RUNNING)
        self.has_begun = True
        yield RunPlanned(job, "none", name=str(self.ref))
        yield LogOutput([LogLine("w-0", "w", "stdout", "hello")])
        if self.backend.holds:
            self.backend.held()
            while not self._asked.is_set():
                yield Tick()
                await asyncio.sleep(0)
        if self.is_detached:
            return
        outcome = Outcome.SUCCEEDED if self._stop is None else Outcome.STOPPED
        code = 0 if self._stop is None else self._stop.code
        self._run.status = replace(self._run.status, outcome=outcome, finished=self.backend.clock, exit_code=code)
        yield RunEnded(job, None, self._stop)

    async def open(self, listener: Listener = lambda _event: None) -> RunRef:
        events = self.events()
        listener(await anext(events))

        async def read() -> None:
            async for event in events:
                listener(event)

        self._task = asyncio.create_task(read())
        return self.ref

    def stop(self, why: Stop, *, insist: bool = False) -> None:
        self._stop = why
        self._asked.set()

    def close(self) -> None:
        if not self.is_detached:
            self.stop(Stop())

    async def detach(self) -> None:
        self.release()
        await self.ended()

    def release(self) -> None:
        self.is_detached = True
        self._asked.set()

    async def ended(self) -> None:
        if self._task is not None:
            await self._task


@dataclass(slots=True)
class MemoryLeftovers:
    backend: MemoryBackend
    names: list[str]

    async def remove(self) -> AsyncGenerator[tuple[str, str], None]:
        for name in self.names:
            self.backend.all_runs = [each for each in self.backend.all_runs if str(each.ref) != name]
            yield name, ""


@dataclass(slots=True)
class MemoryBackend:
    clock: dt.datetime
    all_runs: list[MemoryRun] = field(default_factory=list)  # the newest first
    changes: list[tuple[str, Change]] = field(default_factory=list)
    files: dict[tuple[str, str], bytes] = field(default_factory=dict)  # by pod and path
    lacks: frozenset[Feature] = frozenset()
    holds: bool = False  # runs that are started run until they are stopped or detached
    held: Callable[[], None] = lambda: None  # called when such a run has begun
    capacity: Capacity = EMPTY
    refusals: Sequence[Finding] = ()  # of every Job
    name: str = "memory"
    where: str = ""  # the context of a cluster
    others: dict[str, str] = field(default_factory=dict)  # who submitted a run
    address: tuple[Any, ...] = ("memory", "")
    waits: bool = False
    default_namespace: str = "default"

    def now(self) -> dt.datetime:
        return self.clock

    async def close(self) -> None:
        """Nothing is open."""

    def supports(self, feature: Feature) -> Problem | None:
        return Problem(f"{self.name} has no {feature}", "use another place") if feature in self.lacks else None

    def notices(self) -> list[str]:
        return []

    def warnings(self, *, submitted: bool = False) -> list[str]:
        return ["submitted to memory"] if submitted else []

    def run(self, run: RunRef) -> MemoryRun:
        for each in self.all_runs:
            if each.ref == run:
                return each
        raise NoSuchRun(f"{run}: no such run", "it was removed")

    async def find(self, text: str) -> RunRef:
        for each in self.all_runs:
            if text in (LAST, each.ref.name, str(each.ref)) or each.ref.uid.startswith(text):
                return each.ref
        raise NoSuchRun(f"{text}: no such run")

    async def runs(self, selection: Selection) -> Listing:
        found = [each.status for each in self.all_runs if not selection.names or each.ref.name in selection.names]
        return Listing([each for each in found if not selection.active or not each.is_finished])

    def listen(self, tell: Callable[[str], None]) -> None:
        """It has no connection."""

    async def listings(self, selection: Selection) -> AsyncGenerator[Listing, None]:
        while True:
            yield await self.runs(selection)
            await asyncio.sleep(0.05)

    async def run_names(self) -> list[str]:
        return [*(each.ref.name for each in self.all_runs), *(str(each.ref) for each in self.all_runs)]

    async def status(self, run: RunRef) -> Status:
        return self.run(run).status

    async def statuses(self, runs: Sequence[RunRef]) -> AsyncGenerator[Sequence[Status], None]:
        while True:
            yield [self.run(run).status for run in runs]

    async def history(self, run: RunRef) -> RunHistory:
        found = self.run(run)
        history = RunHistory(found.record)
        for entry in found.entries:
            history.add(entry)
        return history

    async def journal(self, run: RunRef, *, follow: bool = False) -> AsyncGenerator[Sequence[Entry], None]:
        yield self.run(run).entries

    async def watch(self, run: RunRef) -> AsyncGenerator[Update, None]:
        yield self.run(run).status

    async def logs(
        self,
        run: RunRef,
        selection: LogSelection,
        *,
        follow: bool = False,
        prefix: Callable[[Execution], bytes] = lambda _execution: b"",
    ) -> AsyncGenerator[Sequence[LogBatch], None]:
        found = [each for each in self.run(run).batches if selection.has(each[1])]
        yield [(*each[:4], b"".join(prefix(each[1]) + line for line in selection.matching(each[4]))) for each in found]

    async def why(self, run: RunRef, pod: str = "") -> Why:
        return self.run(run).whys[pod]

    async def job(self, run: RunRef) -> Manifest:
        return job_with_status(await self.history(run), self.run(run).status)

    async def nodes(self) -> NodeListing:
        amounts = {"cpu": "8", "memory": "16Gi"}
        return NodeListing([Node("memory-0", ready=True, schedulable=True, total=amounts, free=None)])

    async def usage(self, run: RunRef) -> Usage:
        return Usage(self.run(run).samples, live=False)

    async def export(self, run: RunRef, out: BinaryIO, *, logs: bool = True) -> None:
        out.write(f"archive of {run}, logs: {logs}".encode())

    async def open(self, archive: BinaryIO, name: str) -> OpenedRun:
        is_new = all(not each.ref.opened for each in self.all_runs)
        newest = self.all_runs[0]
        ref = replace(newest.ref, opened=True)
        if is_new:
            self.all_runs.append(MemoryRun(ref, newest.status, newest.record))
        return OpenedRun(ref, is_new, has_logs=b"logs: True" in archive.read())

    async def code(self, run: RunRef) -> Bundle | None:
        return self.run(run).code

    def observe(self) -> MemoryObserver:
        return MemoryObserver(self)

    async def check(self, request: RunRequest) -> CheckedRun:
        return MemoryCheckedRun(request)

    async def validate(self, job: Admitted, documents: Sequence[Manifest], namespace: str) -> Findings:
        del job, documents, namespace
        return self.refusals

    async def submit(self, run: CheckedRun) -> RunRef:
        return self.add_run(run.request, Outcome.WAITING).ref

    def add_run(self, request: RunRequest, outcome: Outcome) -> MemoryRun:
        newest, job = self.all_runs[0], request.job.job
        number = 1 + sum(each.ref.name == job.name for each in self.all_runs)
        ref = RunRef(job.name, number, job.namespace or "default", f"{len(self.all_runs):08}")
        names = {"run": str(ref), "name": ref.name, "uid": ref.uid, "number": number, "namespace": ref.namespace}
        status = replace(newest.status, outcome=outcome, finished=None, exit_code=None, **names)
        self.all_runs.insert(0, MemoryRun(ref, status, newest.record))
        return self.all_runs[0]

    async def repeat(self, run: RunRef) -> RunRef:
        again = RunRef(run.name, run.number + 1, run.namespace, "1" * 8)
        self.all_runs.insert(0, MemoryRun(again, self.run(run).status, self.run(run).record))
        return again

    def start(self, request: RunRequest) -> MemoryLease:
        return MemoryLease(self, request)

    @contextmanager
    def prepared_start(self) -> Iterator[Callable[[RunRequest], MemoryLease]]:
        yield self.start

    async def leftovers(self, retention: Retention, *, claims: bool, images: bool) -> MemoryLeftovers:
        return MemoryLeftovers(self, [str(each.ref) for each in self.all_runs if each.status.is_finished])

    async def check_change(self, run: RunRef, change: Change) -> None:
        if isinstance(change, RemoveRun) and not change.force and not self.run(run).status.is_finished:
            raise WrongState(f"{run} is running")

    def location(self, run: RunRef) -> str:
        return self.where and f"{self.where}/{run.namespace}"

    async def strangers(self, runs: Sequence[RunRef]) -> Mapping[str, str]:
        return {run.uid: self.others[str(run)] for run in runs if str(run) in self.others}

    async def change(self, run: RunRef, change: Change, tell: Callable[[str], None] = silent) -> Sequence[str]:
        await self.check_change(run, change)
        found, self.changes = self.run(run), [*self.changes, (str(run), change)]
        match change:
            case StopRun():
                found.status = replace(found.status, outcome=Outcome.STOPPED, finished=self.clock)
            case SuspendRun():
                found.status = replace(found.status, outcome=Outcome.SUSPENDED, stopped=True)
            case ResumeRun():
                found.status = replace(found.status, outcome=Outcome.WAITING, stopped=False)
            case RemoveRun():
                self.all_runs.remove(found)
            case KillPod(pod):
                return (pod,)
            case DetachRun():
                return (str(run),)
        return ()

    async def wake(self) -> None:
        """Nothing waits."""

    async def exec(self, run: RunRef, command: Exec) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(list(command.argv), 3, b" ".join(map(str.encode, command.argv)))

    async def enter(self, run: RunRef, command: Exec) -> MemoryCommand:
        return MemoryCommand(command.argv)

    async def forward(self, run: RunRef, port: PodPort, tell: Callable[[str], None] = silent) -> MemoryPort:
        if (port.pod, str(port.port)) not in self.files:
            raise NoSuchPod(f"{run}/{port.pod}: no such pod")
        return await MemoryPort.open(self.files[port.pod, str(port.port)], port.local)

    async def copy_from(self, run: RunRef, source: PodPath, local: Path) -> list[Skipped]:
        local.write_bytes(self.files[source.pod, source.path])
        return [Skipped("/dev/null", "it is a device")]

    async def copy_to(self, run: RunRef, local: Path, target: PodPath) -> list[Skipped]:
        self.files[target.pod, target.path] = local.read_bytes()
        return []

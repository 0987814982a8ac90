"""The part of a backend in memory that the page needs: no files, no caches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pumice.client.backend import RunRef
from pumice.client.observer import (
    Capacity,
    ListedRun,
    Observed,
    PodAddress,
    Refusals,
    Samples,
    Scope,
    WaitingRun,
)
from pumice.model import keys
from pumice.model.job import Manifest
from pumice.model.vocabulary import Phase
from pumice.store.logs.log_index import Records
from pumice.store.logs.log_source import Execution, LogBatch
from pumice.store.logs.numbered_log import NumberedLog
from pumice.store.sample_file import Sample

if TYPE_CHECKING:
    from tests.unit.client.memory_backend import MemoryBackend


@dataclass(slots=True)
class MemoryLogs:
    """The logs of one run."""

    truncated: bool = False
    texts: dict[str, bytes] = field(default_factory=dict)
    executions: dict[str, Execution] = field(default_factory=dict)
    batches: dict[str, list[tuple[int, int, int, int, int]]] = field(default_factory=dict)

    def add(self, batch: LogBatch) -> None:
        sequence, execution, time, flags, text = batch
        name = execution.segment(0)
        self.executions.setdefault(name, execution)
        self.texts[name] = self.texts.get(name, b"") + text
        self.batches.setdefault(name, []).append((sequence, time, len(self.texts[name]), text.count(b"\n"), flags))

    def logs(self) -> Sequence[tuple[str, Execution]]:
        return list(self.executions.items())

    def records(self, name: str, number: int, _begin: int) -> Records | None:
        rows = self.batches[name][number:]
        return Records(*map(list, zip(*rows, strict=True))) if rows else None

    def read(self, name: str, offset: int, size: int) -> bytes:
        return self.texts[name][offset : offset + size]

    def size(self, name: str) -> int:
        return len(self.texts[name])


@dataclass(slots=True)
class MemorySamples:
    samples: Sequence[Sample]
    seen: int = 0

    async def size(self) -> int:
        return len(self.samples)

    async def new(self) -> AsyncGenerator[Sequence[Sample], None]:
        begin, self.seen = self.seen, len(self.samples)
        yield self.samples[begin:]


@dataclass(slots=True)
class MemoryObserver:
    backend: MemoryBackend
    scope: Scope = field(default_factory=Scope)
    refused: Refusals = field(default_factory=dict)
    told: Sequence[str] = ()
    _runs: Sequence[ListedRun] = ()

    async def open(self) -> None:
        """Everything is here."""

    async def close(self) -> None:
        """Nothing is open."""

    def notices(self) -> Sequence[str]:
        return self.told

    async def runs(self) -> Sequence[ListedRun]:
        runs = []
        for each in self.backend.all_runs:
            status = each.status
            tasks = each.record.job["spec"]["tasks"]
            words = " ".join([status.run, status.note, *(task["name"] for task in tasks)]).lower()
            changes = sum(name == status.run for name, _ in self.backend.changes)
            runs.append(ListedRun(each.ref, status.created, words, status.outcome, status.finished, version=changes))
        self._runs = self._runs if runs == self._runs else runs
        return self._runs

    async def observe(self, run: RunRef, *, whole: bool = True) -> Observed:  # noqa: ARG002 - nothing is kept
        history, now = await self.backend.history(run), await self.backend.status(run)
        status = replace(self.backend.run(run).state, finished=now.finished, stopped=now.stopped)
        over = status.finished is not None or status.phase == Phase.ABORTED
        live = not over and status.started is not None
        return Observed(run, history, status, status.outcome, is_over=over, has_process=live)

    async def log(self, run: RunRef) -> NumberedLog:
        logs = MemoryLogs()
        for batch in self.backend.run(run).batches:
            logs.add(batch)
        log = NumberedLog(logs, live=not (await self.observe(run)).is_over)
        log.find()
        return log

    async def newest_line(self, run: RunRef) -> LogBatch | None:
        return next(reversed(self.backend.run(run).batches), None)

    async def waiting(self, run: Observed, *, whole: bool = True) -> WaitingRun | None:  # noqa: ARG002 - as above
        return self.backend.capacity.waiting.get(run.record.uid)

    async def refusals(self, run: Observed) -> Refusals:  # noqa: ARG002 - the same for all
        return self.refused

    async def document(self, run: Observed) -> Manifest | None:
        """The record has it."""

    def samples(self, run: RunRef) -> Samples:
        return MemorySamples(self.backend.run(run).measured)

    async def capacity(self) -> Capacity:
        return self.backend.capacity

    async def addresses(self, run: Observed, pods: Sequence[str]) -> Mapping[str, PodAddress]:
        return {pod: self.backend.run(run.ref).addresses.get(pod, PodAddress()) for pod in pods}

    async def manifest(self, run: RunRef, pod: str, attempt: int = 0) -> Manifest | None:
        for manifest in reversed(self.backend.run(run).manifests.get(pod, [])):
            if attempt in (0, int(manifest["metadata"]["annotations"][keys.JOB_RETRY_COUNT]) + 1):
                return manifest
        return None

    def forget(self) -> None:
        """Nothing is kept."""

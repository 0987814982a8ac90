"""Reads the logs of a run: what is stored now, or everything until the run ends."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, field

from pumice.client.values import LogLine
from pumice.engines.local.events import RunPlanned
from pumice.engines.local.logs.log_reader import LogReader, LogSelection
from pumice.engines.local.logs.log_source import UNKNOWN, Execution, LogBatch, stream_of
from pumice.engines.local.run_errors import NoSuchPod
from pumice.engines.local.runs.event_codec import EventDecoder
from pumice.engines.local.runs.journal import read_journal
from pumice.engines.local.runs.owner_lock import read_owner
from pumice.engines.local.runs.run_record import DETACHED
from pumice.engines.local.runs.run_store import StoredRun
from pumice.model.job import Job
from pumice.model.pod import all_containers
from pumice.model.problem import Position
from pumice.model.slot import slots
from pumice.model.suggestions import did_you_mean

_POLL: Final = 0.2
# A run without a process counts as ended after this many polls: before, another process may continue it.
_PATIENCE: Final = 10
_NANOSECONDS: Final = 10**9
_SHOWN: Final = 8  # names in a hint


class RunLogs(Struct, frozen=True):
    run: StoredRun
    selection: LogSelection = field(default_factory=LogSelection)
    prefix: Callable[[Execution], bytes] = lambda _execution: b""  # of each line

    def read(self) -> Iterator[list[LogBatch]]:
        """Yield what has been printed so far."""
        return self._reader.read(live=is_live(self.run))

    async def follow(self) -> AsyncIterator[list[LogBatch]]:
        """Yield stored and new lines until the run ends. Waits for pods that do not exist yet."""
        lost = 0

        async def wait_for_change() -> bool:
            nonlocal lost
            await asyncio.sleep(_POLL)
            lost = 0 if is_live(self.run) else lost + 1
            return lost == 0 or (lost < _PATIENCE and self.run.status().finished is None)

        async for batches in self._reader.follow(wait_for_change):
            yield batches

    @property
    def _reader(self) -> LogReader:
        return LogReader(self.run.directory, self.selection, self.prefix)


def planned_job(run: StoredRun) -> Job:
    """Return the job as it began on this machine; before that, as it was written."""
    for entry in read_journal(run.directory)[0]:
        if entry.kind == RunPlanned.__name__:
            event = EventDecoder(Job()).decode(entry)
            if isinstance(event, RunPlanned):
                return event.job
    return run.written_job()


def pod_names(run: StoredRun, job: Job) -> list[str]:
    """Return the short names of the pods that a run has or had."""
    planned = [slot.short_name for slot in slots(job)]
    stored = sorted(path.name for path in run.directory.glob("pods/*"))
    return list(dict.fromkeys((*planned, *stored)))


def container_names(run: StoredRun, job: Job) -> list[str]:
    """Return the names of the containers that pods of a run have or had, those of plugins too."""
    planned = [str(each["name"]) for task in job.spec.tasks for each in all_containers(task.pod_spec)]
    stored = sorted(path.name.partition(".")[0] for path in run.directory.glob("pods/*/*/*.0.log"))
    return list(dict.fromkeys((*planned, *stored)))


def check_selection(run: StoredRun, selection: LogSelection, *, follow: bool = False) -> None:
    """Refuse pods, tasks, containers and attempts that the run does not have; followed ones may come later.

    Raises NoSuchPod.
    """
    job = planned_job(run)
    names, tasks = pod_names(run, job), [task.name for task in job.spec.tasks]
    for task in sorted(selection.tasks):
        if task not in tasks:
            raise NoSuchPod(f"{task}: no such task of {run.ref}", _known(task, tasks), Position("--task"))
    for pod in sorted(selection.pods):
        if pod not in names and not (follow and pod.rpartition("-")[0] in tasks):
            raise NoSuchPod(f"{run.ref}/{pod}: no such pod", _known(pod, names))
    containers = container_names(run, job)
    if selection.container and selection.container not in containers and not follow:
        known = _known(selection.container, containers)
        raise NoSuchPod(f"{selection.container}: no such container of {run.ref}", known, Position("--container"))
    newest = run.status().attempt
    if selection.attempt > newest and not follow:
        message = f"{selection.attempt}: no such attempt of {run.ref}"
        raise NoSuchPod(message, f"its newest is {newest}", Position("--attempt"))


def _known(name: str, names: Sequence[str]) -> str:
    some = ", ".join((*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])))
    return f"{did_you_mean(name, names)} it has {some}".lstrip()


def log_lines(batches: Iterable[LogBatch]) -> list[LogLine]:
    """Return the lines of batches."""
    found: list[LogLine] = []
    for _, execution, time, flags, text in batches:
        common: dict[str, Any] = {
            "time": None if time == UNKNOWN else moment_of(time),
            "pod": execution.pod,
            "container": execution.container,
            "stream": stream_of(time, flags),
            "attempt": execution.attempt,
            "restart": execution.restart,
        }
        lines = text.removesuffix(b"\n").decode("utf-8", "replace").split("\n")
        found.extend(LogLine(text=line, **common) for line in lines)
    return found


def moment_of(time: int) -> dt.datetime:
    """Return the time of a batch, which is in nanoseconds since 1970."""
    moment = dt.datetime.fromtimestamp(time // _NANOSECONDS, dt.UTC)
    return moment.replace(microsecond=time % _NANOSECONDS // 1000)


def is_live(run: StoredRun) -> bool:
    """Whether a process writes to the run, or will."""
    status = run.status()
    if status.finished is not None:
        return False
    waits = run.record.mode == DETACHED and status.started is None
    # The owner first: testing the lock keeps others from taking it for a moment.
    return waits or read_owner(run.directory).is_alive or run.is_owned

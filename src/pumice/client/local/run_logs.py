"""Reads the logs of a run: what is stored now, or everything until the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pumice.client.history_values import pod_names
from pumice.client.local.liveness import Liveness, liveness
from pumice.model.problem import Position
from pumice.store.files.run_store import StoredRun
from pumice.store.logs.log_reader import LogReader, LogSelection
from pumice.store.logs.log_source import Execution, LogBatch
from pumice.store.pod_names import RunNames
from pumice.store.run_errors import NoSuchPod
from pumice.store.run_record import DETACHED

_POLL: Final = 0.2
# A run without a process counts as ended after this many polls: before, another process may continue it.
_PATIENCE: Final = 10


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


def check_selection(run: StoredRun, selection: LogSelection, *, follow: bool = False) -> None:
    """Refuse pods, tasks, containers and attempts that the run does not have; followed ones may come later.

    Raises NoSuchPod.
    """
    newest = run.status().attempt
    if selection.attempt > newest and not follow:
        message = f"{selection.attempt}: no such attempt of {run.ref}"
        raise NoSuchPod(message, f"its newest is {newest}", Position(option="attempt"))
    containers = {path.name.partition(".")[0] for path in run.directory.glob("pods/*/*/*.0.log")}
    pods = selection.pods.difference(path.name for path in run.directory.glob("pods/*"))
    # What has a log needs no journal, which may be long.
    if pods or selection.tasks or selection.container not in ("", *containers):
        history, chosen = run.history(), replace(selection, pods=pods)
        RunNames(run.ref, history.job, pod_names(history), sorted(containers)).check(chosen, follow=follow)


def is_live(run: StoredRun) -> bool:
    """Whether a process writes to the run, or will."""
    state = liveness(run, run.status())
    return state is Liveness.LIVE or (state is Liveness.WAITING and run.record.mode == DETACHED)

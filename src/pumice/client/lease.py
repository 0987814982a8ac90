"""A run that this process holds: it ends with the process, unless it is detached."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from pumice.client.local_client import LocalClient
from pumice.engines.local.events import Listener, RunEvent, RunPlanned, Tick
from pumice.engines.local.outcome import TERMINATED, Stop
from pumice.engines.local.run_errors import WrongState
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.supervisor.leased_run import LeasedRun, SupervisorLostError, leased
from pumice.engines.local.supervisor.supervisor_process import spawned_supervisor

_TICK: Final = 0.5
# The connections that this process holds. A forked child closes its copies, or they would outlive the parent.
_HELD: Final[set[socket.socket]] = set()
# Tasks that read events: an event loop keeps only weak references to tasks.
_TASKS: Final[set[asyncio.Task[None]]] = set()


class Lease:
    def __init__(self, client: LocalClient, request: RunRequest) -> None:
        self._client = client
        self._request = request
        self._run: LeasedRun | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop: Stop | None = None  # asked for before the run began
        self._process = os.getpid()

    async def events(self) -> AsyncIterator[RunEvent]:
        """Start the run and yield its events until it ends or is detached, with a Tick while nothing happens.

        Raises RunError if it cannot start. When the iterator is closed, the run ends.
        """
        process = await asyncio.to_thread(spawned_supervisor, self._client.environ)
        _HELD.add(process.lease)
        try:
            async with leased(process) as self._run:
                async for event in _with_ticks(self._run.start(self._request)):
                    yield event
                    if self._stop is not None and isinstance(event, RunPlanned):
                        self._run.stop(self._stop, insist=True)
        except SupervisorLostError:
            if self._run is None or not self._run.directory:
                raise
            # Whatever ended the process, the record says that it was killed.
            await asyncio.to_thread(self._client.close_killed, self._run.directory)
        finally:
            _HELD.discard(process.lease)
            if self._run is not None and self._run.detached:
                # It is still a child of this process: its exit status must be collected when it ends.
                threading.Thread(target=process.child.wait, name="pumice-detached", daemon=True).start()

    async def open(self, listener: Listener = lambda _event: None) -> StoredRun:
        """Start the run, and return as soon as it is stored. Raises RunError if it cannot start."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def read() -> None:
            try:
                async for event in self.events():
                    listener(event)
                    if isinstance(event, RunPlanned) and not begun.done():
                        begun.set_result(None)
            except Exception as error:
                if begun.done():
                    raise
                begun.set_exception(error)

        self._task = asyncio.create_task(read())
        _TASKS.add(self._task)
        self._task.add_done_callback(_TASKS.discard)
        try:
            await begun
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        return self.stored

    @property
    def stored(self) -> StoredRun:
        """The run, once it has begun."""
        if self._run is None or not self._run.name:
            raise WrongState("the run has not begun")
        return self._client.store.find(self._run.name, self._request.job.job.namespace or "default")

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a forked child of the one that holds the run."""
        return os.getpid() != self._process

    @property
    def has_begun(self) -> bool:
        return self._run is not None and bool(self._run.name)

    def stop(self, why: Stop) -> None:
        """Stop the run gracefully; at once if it is being stopped already."""
        if self._run is not None and self._run.name:
            self._run.stop(why, insist=True)
        else:
            self._stop = why

    def close(self) -> None:
        """Stop the run gracefully, if it has not ended and is not detached. A forked child leaves it to its parent."""
        if not self.is_inherited and self._task is not None and not self._task.done():
            self.stop(Stop(TERMINATED, "Stopped"))

    async def detach(self) -> None:
        """Let the run outlive this process. Raises WrongState if it has ended."""
        if self.is_inherited:
            raise WrongState(f"{self.stored.ref} belongs to process {self._process}", "detach it there")
        if self._run is None or self._task is None or self._task.done():
            raise WrongState(f"{self.stored.ref} is not running here")
        await self._run.detach()
        await self.ended()

    async def ended(self) -> None:
        """Return when the run has ended or is detached, and its process no longer needs this one."""
        if self._task is not None and not self.is_inherited:
            await asyncio.shield(self._task)


async def _with_ticks(events: AsyncIterator[RunEvent]) -> AsyncIterator[RunEvent]:
    pending: asyncio.Future[RunEvent | None] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(_next(events))
            done, _ = await asyncio.wait({pending}, timeout=_TICK)
            if not done:
                yield Tick()
                continue
            event, pending = pending.result(), None
            if event is None:
                return
            yield event
    finally:
        if pending is not None:
            pending.cancel()


async def _next(events: AsyncIterator[RunEvent]) -> RunEvent | None:
    return await anext(events, None)


def _after_fork() -> None:
    for connection in _HELD:
        with suppress(OSError):
            os.close(connection.detach())
    _HELD.clear()


os.register_at_fork(after_in_child=_after_fork)

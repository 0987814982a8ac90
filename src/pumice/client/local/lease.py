"""A run that this process holds by a connection to the run's process: it ends with this one, unless it is detached."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pumice.client.backend import RunRef
from pumice.client.lease import read_events, start_task
from pumice.client.local.local_backend import LocalBackend
from pumice.diagnosis.outcome import Outcome, StopReason
from pumice.engines.local.clock import elapsed
from pumice.engines.local.daemon.connections import Connection, Hello, decode_error
from pumice.engines.local.rpc.wire import Message
from pumice.engines.local.supervisor.request_codec import (
    DETACH,
    DETACHED,
    OUTPUT,
    START,
    STOP,
    decode_output,
    encode_request,
)
from pumice.engines.local.supervisor.supervisor_process import SupervisorProcess, spawned_supervisor
from pumice.model.job import Job
from pumice.store.events import Listener, RunEvent, RunPlanned, Tick
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.history.entries import EventDecoder
from pumice.store.run_end import TERMINATED, Stop
from pumice.store.run_errors import RunLostError, WrongState
from pumice.store.run_request import RunRequest
from pumice.store.settings import Settings

_TICK: Final = 0.5
_CLOSED: Final = 5.0  # seconds within which another process closes a record
_END_SECONDS: Final = 20.0
_MOMENT: Final = 0.005
# The connections that this process holds. A forked child closes its copies, or they would outlive the parent.
_HELD: Final[set[socket.socket]] = set()


class LocalLease:
    """`process` is that of the run; by default one is started."""

    outlives_client = False
    flags = ""

    def __init__(self, backend: LocalBackend, request: RunRequest, process: SupervisorProcess | None = None) -> None:
        self._backend = backend
        self._request = request
        self._process = process
        self._connection: Connection | None = None
        self._decoder = EventDecoder(Job())
        self._ref: RunRef | None = None
        self._directory = ""
        self._task: asyncio.Task[None] | None = None
        self._stop: Stop | None = None  # asked for before the run began
        self._holder = os.getpid()
        self.is_detached = False
        self.warning = ""

    async def events(self) -> AsyncGenerator[RunEvent, None]:
        """Start the run and yield its events until it ends or is detached, with a Tick while nothing happens.

        Raises RunError if it cannot start, and RunLostError. When the iterator is closed, the run ends.
        """
        process = self._process
        if process is None:
            process = await asyncio.to_thread(spawned_supervisor, self._backend.environ)
        _HELD.add(process.lease)
        connection = self._connection = Connection(
            process.lease, lambda: RunLostError("the process of the run has ended")
        )
        recording: asyncio.Task[None] | None = None
        try:
            await _greet(connection)
            own = connection.request(START, request=encode_request(self._request))
            while not self._is_last(message := await self._message(connection), own):
                event = self._event(message)
                if isinstance(event, RunPlanned) and recording is None:
                    # Here, beside the process that starts the pods.
                    work = asyncio.to_thread(_record_code, self._request.options.settings, event.directory)
                    recording = asyncio.create_task(work)
                if event is not None:
                    yield event
                if self._stop is not None and isinstance(event, RunPlanned):
                    self.stop(self._stop)
        except RunLostError as error:
            # Whatever ended the process, the record says so: it was killed, or stopped by force.
            directory = self._directory
            stopped = await asyncio.to_thread(close_killed, self._backend, directory) if directory else ""
            if stopped:
                raise RunLostError(f"{self.ref} has ended: {stopped}") from error
            raise
        finally:
            _HELD.discard(process.lease)
            connection.close()
            if recording is not None:
                await recording
            if not self.is_detached:
                await _ended(process)
            else:
                # It is still a child of this process: its exit status must be collected when it ends.
                threading.Thread(target=process.child.wait, name="pumice-detached", daemon=True).start()

    async def open(self, listener: Listener = lambda _event: None) -> RunRef:
        """Start the run, and return as soon as it is stored. Raises RunError if it cannot start."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def read() -> None:
            try:
                await read_events(self, listener, begun)
            except RunLostError:
                # The record says what became of the run.
                return

        self._task = start_task(read())
        try:
            await begun
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        return self.ref

    @property
    def ref(self) -> RunRef:
        """The run. Raises WrongState before it has begun."""
        if self._ref is None:
            raise WrongState("the run has not begun")
        return self._ref

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a forked child of the one that holds the run."""
        return os.getpid() != self._holder

    @property
    def has_begun(self) -> bool:
        return self._ref is not None

    def stop(self, why: Stop, *, insist: bool = False) -> None:
        """Stop the run gracefully; `insist`: at once if it is being stopped already."""
        if self._connection is None or self._ref is None:
            self._stop = why
            return
        fields: dict[str, Any] = {"code": why.code, "reason": why.reason, "message": why.message}
        self._connection.request(STOP, **fields, force=False, insist=insist)

    def close(self) -> None:
        """Stop the run gracefully, if it has not ended and is not detached. A forked child leaves it to its parent."""
        if not self.is_inherited and self._task is not None and not self._task.done():
            self.stop(Stop(TERMINATED, StopReason.STOPPED), insist=True)

    async def detach(self) -> None:
        """Let the run outlive this process. Raises RunError if that is not possible, and then nothing changes."""
        if self.is_inherited:
            raise WrongState(f"{self.ref} belongs to process {self._holder}", "detach it there")
        if self._connection is None or (self._task is not None and self._task.done()):
            raise WrongState(f"{self.ref} is not running here")
        await self._connection.call(DETACH)
        await self.ended()

    def release(self) -> None:
        """Request `detach` without waiting for the answer, for a program that cannot read now."""
        if self._connection is not None:
            self._connection.request(DETACH)

    async def ended(self) -> None:
        """Return when the run has ended or is detached, and its process no longer needs this one."""
        if self._task is not None and not self.is_inherited:
            await asyncio.shield(self._task)

    async def _message(self, connection: Connection) -> Message:
        """Return the next message; an empty one if there is none for a while. Raises RunLostError at the end."""
        try:
            async with asyncio.timeout(_TICK):
                message = await connection.receive()
        except TimeoutError:
            return {}
        if message is None:
            raise RunLostError(f"{self._ref or 'the run'} has ended: its process was killed")
        return message

    def _is_last(self, message: Message, own: int) -> bool:
        """Whether the message is the answer to `start`, or says that the run is detached. Raises RunError."""
        if "error" in message:
            raise decode_error(message["error"])
        if message.get("event") == DETACHED:
            self.is_detached, self.warning = True, message["data"]["warning"]
        return self.is_detached or message.get("id") == own

    def _event(self, message: Message) -> RunEvent | None:
        if not message:
            return Tick()
        kind, data = str(message.get("event")), message.get("data")
        if kind == OUTPUT:
            return decode_output(data or ())
        event = self._decoder.decode_message(kind, data)
        if isinstance(event, RunPlanned):
            name, _, number = event.name.partition(":")
            self._ref = RunRef(name, int(number), event.job.namespace or "default", event.job.uid)
            self._directory = event.directory
        return event


def _record_code(settings: Settings, directory: str) -> None:
    from pumice.store.code.recording import record_code  # noqa: PLC0415 - the run does not wait for it

    _closing_modules()
    record_code(settings, Path(directory))


def _closing_modules() -> tuple[Callable[[RunStore], None], Callable[[RunStore, StoredRun], None]]:
    """Load what closes a killed run. When it is needed, the modules may be those of another version."""
    # Here, beside the start of the pods.
    from pumice.engines.local.runs import settle_lost_runs, wait_for_sandbox  # noqa: PLC0415 - see above

    return settle_lost_runs, wait_for_sandbox


def close_killed(backend: LocalBackend, directory: str) -> str:
    """Close the record of a foreground run whose process was killed, once its sandbox has ended.

    Return who stopped it, in words; empty if no person did.
    """
    settle_lost_runs, wait_for_sandbox = _closing_modules()
    run = backend.store.load(Path(directory))
    if run is not None:
        wait_for_sandbox(backend.store, run)
    settle_lost_runs(backend.store)
    if run is None:
        return ""
    deadline = time.monotonic() + _CLOSED
    # Whoever stopped it by force may close the record just now.
    while (status := run.status()).finished is None and time.monotonic() < deadline:
        time.sleep(_CLOSED / 100)
        settle_lost_runs(backend.store)
    return status.text if status.outcome is Outcome.STOPPED else ""


async def _greet(connection: Connection) -> None:
    try:
        await connection.greet(Hello(), patience=None)
    except ConnectionResetError as error:
        raise RunLostError("the process of the run was killed before it began") from error
    connection.peer.check()


async def _ended(process: SupervisorProcess) -> None:
    """Wait until the process has ended, which it does at once; end one that does not."""
    deadline = elapsed() + _END_SECONDS
    while process.child.poll() is None:
        if elapsed() > deadline:
            process.child.kill()
            process.child.wait()
            return
        await asyncio.sleep(_MOMENT)


def _after_fork() -> None:
    for connection in _HELD:
        with suppress(OSError):
            os.close(connection.detach())
    _HELD.clear()


os.register_at_fork(after_in_child=_after_fork)

"""The process of a foreground run: it runs what the client at the other end of a connection asks for.

The connection is the lease. When the client closes it, however it ends, the run ends at once; unless the run was
detached before: then it continues as if it had been submitted.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
from msgspec.structs import replace

from pumice.engines.local.daemon.line_protocol import LIMIT, Connection, Message, own_hello
from pumice.engines.local.events import RunEvent, RunPlanned, WarningIssued
from pumice.engines.local.outcome import CLIENT_LOST, TERMINATED, Stop
from pumice.engines.local.run_errors import RunError, StoreError, WrongState
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.runs.run_store import SUPERVISOR_LOG
from pumice.engines.local.service.on_demand import connected_service
from pumice.engines.local.session import LocalSession
from pumice.engines.local.supervisor.control_server import ControlServer
from pumice.engines.local.supervisor.request_codec import DETACHED, START, plain_error, request_of
from pumice.engines.local.supervisor.secret_values import drop_secrets, keep_secrets
from pumice.model.vocabulary import SUSPENDED
from pumice.runtime.once import Once

_LOST: Final = replace(CLIENT_LOST, message="the client of the run has gone, so the run was ended")
_BUSY: Final = 2.0  # seconds that the event loop may take to notice that the client has gone
_MOMENT: Final = 0.1
# The output of pods waits in this process up to the first number of bytes, then until it has fallen to the second.
_MOST_WAITING: Final = 1 << 20
_FEW_WAITING: Final = 1 << 18


def main(descriptor: int) -> NoReturn:
    """Serve the client at the other end of this socket, and end."""
    lease = socket.socket(fileno=descriptor)
    try:
        _prepare_signals()
        asyncio.run(_serve(lease))
    except KeyboardInterrupt:
        # The client has gone before the run began.
        os._exit(1)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the client reports it
        with suppress(OSError):
            lease.setblocking(True)
            lease.sendall(msgspec.json.encode({"error": plain_error(error)}) + b"\n")
        os._exit(1)
    os._exit(0)


def _prepare_signals() -> None:
    """Handle the signals that the client ignores or handles: its pods start with the defaults."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, lambda _number, _frame: None)
    for number in (signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)


async def _serve(lease: socket.socket) -> None:
    # The preparation of a run blocks the event loop: interrupt it when the client has gone.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    watch = LeaseWatch(lease.dup())
    reader, writer = await asyncio.open_unix_connection(sock=lease, limit=LIMIT)
    writer.transport.set_write_buffer_limits(high=_MOST_WAITING, low=_FEW_WAITING)
    connection = Connection(reader, writer)
    await connection.greet(own_hello(), patience=None)
    watch.start()
    await LeasedProcess(connection, watch).serve()


@dataclass(slots=True)
class LeaseWatch:
    """Detects in a thread that the client has gone, because the event loop may be busy."""

    lease: socket.socket
    began: bool = False  # pods may run: the event loop ends them
    noticed: threading.Event = field(default_factory=threading.Event)  # by the event loop

    def start(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self.lease.fileno(), getattr(select, "POLLRDHUP", 0))
        poll.poll()
        if not self.noticed.wait(_MOMENT) and not self.began:
            os.kill(os.getpid(), signal.SIGINT)
        if not self.noticed.wait(_BUSY):
            # The sandbox ends with this process.
            os._exit(1)


@dataclass(slots=True)
class LeasedProcess:
    connection: Connection
    watch: LeaseWatch
    _session: LocalSession | None = None
    _server: ControlServer | None = None
    _request: RunRequest | None = None
    _uid: str = ""
    _directory: Path = Path()
    _released: bool = False
    _gone: bool = False  # the client
    _announced: asyncio.Event = field(default_factory=asyncio.Event)  # that the run is detached
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _warnings: Once = field(default_factory=Once)

    async def serve(self) -> None:
        """Run what the client asks for; return when the run is over, or when the client has gone before."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: self._warn(context))
        loop.add_signal_handler(signal.SIGTERM, self._terminate)
        reading = loop.create_task(self._read())
        await self._over.wait()
        reading.cancel()
        if self._released:
            # The client waits for it, also if the run ends meanwhile.
            await self._announced.wait()
        with suppress(OSError):
            self.connection.writer.close()
            await self.connection.writer.wait_closed()

    async def _read(self) -> None:
        with suppress(RunError):
            while (request := await self.connection.receive()) is not None:
                task = asyncio.get_running_loop().create_task(self._answer(request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        self._gone = True
        self.watch.noticed.set()
        if self._session is None:
            self._over.set()
        elif not self._released:
            self._session.stop(_LOST, force=True)

    async def _answer(self, request: Message) -> None:
        """Answer a request. `start` is answered when the run is over."""
        answer: Message = {"id": request.get("id")}
        try:
            if request.get("do") == START:
                answer["result"] = await self._run(request_of(request["request"]))
            elif self._server is None or (handler := self._server.answers().get(str(request.get("do")))) is None:
                raise WrongState(f"{request.get('do')}: the run has not begun yet")
            else:
                answer["result"] = await handler(request)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the client reports it
            answer["error"] = plain_error(error)
        if not self._released:
            self.connection.writer.write(msgspec.json.encode(answer) + b"\n")
        if request.get("do") == START and ("result" in answer or self._gone or self._released):
            self._over.set()

    async def _run(self, request: RunRequest) -> Any:
        self._request = request
        self._session = session = LocalSession(request.job, request.options, request.documents, request.source)
        self._server = server = ControlServer(session, self.connection, self._detach)

        def listen(event: RunEvent) -> None:
            if isinstance(event, RunPlanned):
                self.watch.began, self._uid, self._directory = True, event.job.uid, Path(event.directory)
            server.publish(event)

        try:
            outcome = await session.run(listen)
        finally:
            await server.close()
            self._session = self._server = None
        if outcome.reason == SUSPENDED:
            # Another process continues it. Without the secrets, it reports which ones are missing.
            with suppress(OSError, RunError):
                keep_secrets(self._uid, request)
        elif self._released:
            drop_secrets(self._uid)
        return outcome.exit_code

    async def _detach(self) -> str:
        """Let the run continue without its client. Raises RunError, and then the client keeps the lease."""
        if self._session is None or self._request is None:
            raise WrongState("the run has not begun yet")
        settings = self._request.options.settings
        try:
            keep_secrets(self._uid, self._request)
            # As with a submitted run: the service starts it again.
            self._session.on_sandbox_lost = lambda _reason: os._exit(1)
            name = self._session.detach()
        except OSError as error:
            raise StoreError(f"the run cannot be detached: {error}", "make room in the state directory") from error
        self._released = True
        self.watch.noticed.set()
        if self._server is not None:
            self._server.release()
        warning = ""
        try:
            async with connected_service(settings.state, os.environ) as service:
                await service.call("wake")
        except (RunError, OSError) as error:
            warning = str(error)
        announcement = {"event": DETACHED, "data": {"run": name, "warning": warning}}
        self.connection.writer.write(msgspec.json.encode(announcement) + b"\n")
        self.connection.writer.close()
        self._announced.set()
        self._leave_client()
        return name

    def _leave_client(self) -> None:
        """Leave the working directory of the client, and write errors to the log that submitted runs have."""
        os.chdir("/")
        with suppress(OSError):
            log = os.open(
                self._directory / SUPERVISOR_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            for standard in (1, 2):
                os.dup2(log, standard)
            os.close(log)

    def _terminate(self) -> None:
        if self._session is not None:
            self._session.stop(Stop(TERMINATED, "Terminated"))
        else:
            self._over.set()

    def _warn(self, context: Mapping[str, Any]) -> None:
        """Show in one line what asyncio reports, such as a connection that it could not accept."""
        error = context.get("exception")
        why = error.strerror if isinstance(error, OSError) else repr(error)
        message = str(context["message"]).lower() + (f": {why}" if error is not None else "")
        if self._server is not None and self._warnings.first(message):
            self._server.publish(WarningIssued(message))

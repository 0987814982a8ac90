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
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.diagnosis.outcome import StopReason
from pumice.engines.local.daemon.background import redirect_output
from pumice.engines.local.daemon.connections import AnswerLostError, Connection, encode_error, own_hello
from pumice.engines.local.local_run import LocalRun
from pumice.engines.local.rpc.wire import Message
from pumice.engines.local.service.on_demand import ask_service
from pumice.engines.local.supervisor.control_server import ControlServer, give_up
from pumice.engines.local.supervisor.request_codec import DETACHED, START, decode_request
from pumice.engines.local.supervisor.secret_values import drop_secrets, keep_secrets
from pumice.model.vocabulary import SUSPENDED
from pumice.runtime.once import Once
from pumice.store.events import RunEvent, RunPlanned, WarningIssued
from pumice.store.files.run_store import SUPERVISOR_LOG
from pumice.store.run_end import CLIENT_LOST, TERMINATED, Stop
from pumice.store.run_errors import RunError, StoreError, WrongState
from pumice.store.run_request import RunRequest

_LOST: Final = replace(CLIENT_LOST, message="the client of the run has gone, so the run was ended")
_BUSY: Final = 2.0  # seconds that the event loop may take to notice that the client has gone
_MOMENT: Final = 0.1
# The output of pods waits in this process up to the first number of bytes, then until it has fallen to the second.
_MOST_WAITING: Final = 1 << 20
_FEW_WAITING: Final = 1 << 18


def main(descriptor: int) -> int:
    """Serve the client at the other end of this socket; return the exit code of this process."""
    lease = socket.socket(fileno=descriptor)
    try:
        _prepare_signals()
        asyncio.run(_serve(lease))
    except KeyboardInterrupt:
        # The client has gone before the run began.
        return 1
    except BaseException as error:  # noqa: BLE001 - whatever it is, the client reports it
        with suppress(OSError):
            lease.setblocking(True)
            lease.sendall(msgspec.json.encode({"error": encode_error(error)}) + b"\n")
        return 1
    return 0


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
    process = LeasedProcess(lease, watch)
    await process.connection.greet(own_hello(), patience=None)
    watch.start()
    await process.serve()


class LeaseWatch(Struct):
    """Detects in a thread that the client has gone, because the event loop may be busy."""

    lease: socket.socket
    began: bool = False  # pods may run: the event loop ends them
    noticed: threading.Event = msgspec.field(default_factory=threading.Event)  # by the event loop

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
    lease: InitVar[socket.socket]
    watch: LeaseWatch
    connection: Connection = field(init=False)
    _running: LocalRun | None = None
    _server: ControlServer | None = None
    _request: RunRequest | None = None
    _uid: str = ""
    _directory: Path = Path()
    _released: bool = False
    _gone: bool = False  # the client
    _announced: asyncio.Event = field(default_factory=asyncio.Event)  # that the run is detached
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _warnings: Once = field(default_factory=Once)

    def __post_init__(self, lease: socket.socket) -> None:
        self.connection = Connection(lease, self._client_lost)
        self.connection.most_unsent, self.connection.few_unsent = _MOST_WAITING, _FEW_WAITING

    async def serve(self) -> None:
        """Run what the client asks for; return when the run is over, or when the client has gone before."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: self._warn(context))
        loop.add_signal_handler(signal.SIGTERM, self._terminate)
        serving = loop.create_task(self.connection.serve(self._answer))
        await self._over.wait()
        serving.cancel()
        if self._released:
            # The client waits for it, also if the run ends meanwhile.
            await self._announced.wait()
        await self.connection.finish()

    def _client_lost(self) -> Exception:
        self._gone = True
        self.watch.noticed.set()
        if self._running is None:
            self._over.set()
        elif not self._released:
            self._running.stop(_LOST, force=True)
        return AnswerLostError("the client of the run has gone")

    async def _answer(self, request: Message) -> Any:
        """Answer a request. `start` is answered when the run is over; after a refusal the client may ask again."""
        if request.get("do") != START:
            if self._server is None:
                raise WrongState(f"{request.get('do')}: the run has not begun yet")
            return await self._server.answer(request)
        try:
            code = await self._run(decode_request(request["request"]))
        except BaseException:
            if self._gone or self._released:
                self._over.set()
            raise
        self._over.set()
        return code

    async def _run(self, request: RunRequest) -> Any:
        self._request = request
        self._running = run = LocalRun(request)
        self._server = server = ControlServer(run, self.connection, self._detach)

        def listen(event: RunEvent) -> None:
            if isinstance(event, RunPlanned):
                self.watch.began, self._uid, self._directory = True, event.job.uid, Path(event.directory)
            server.publish(event)

        try:
            outcome = await run.run(listen)
        finally:
            await server.close()
            self._running = self._server = None
        if outcome.reason == SUSPENDED:
            # Another process continues it. Without the secrets, it reports which ones are missing.
            with suppress(OSError, RunError):
                keep_secrets(self._uid, request)
        elif self._released:
            drop_secrets(self._uid)
        return outcome.exit_code

    async def _detach(self) -> str:
        """Let the run continue without its client. Raises RunError, and then the client keeps the lease."""
        if self._running is None or self._request is None:
            raise WrongState("the run has not begun yet")
        settings = self._request.options.settings
        try:
            keep_secrets(self._uid, self._request)
            # As with a submitted run: the service starts it again.
            self._running.on_sandbox_lost = give_up
            name = self._running.detach()
        except OSError as error:
            raise StoreError(f"the run cannot be detached: {error}", "make room in the state directory") from error
        self._released = True
        self.watch.noticed.set()
        if self._server is not None:
            self._server.release()
        warning = ""
        try:
            await ask_service(settings.state, os.environ, "wake")
        except (RunError, OSError) as error:
            warning = str(error)
        # After the answer, if it was the client that asked.
        asyncio.get_running_loop().call_soon(self._announce, {"run": name, "warning": warning})
        # As a submitted run: not in the directory of the client, and with a log of its own.
        os.chdir("/")
        with suppress(OSError):
            redirect_output(self._directory / SUPERVISOR_LOG)
        return name

    def _announce(self, detached: Mapping[str, str]) -> None:
        self.connection.notify({"event": DETACHED, "data": detached})
        self.connection.close()
        self._announced.set()

    def _terminate(self) -> None:
        if self._running is not None:
            self._running.stop(Stop(TERMINATED, StopReason.TERMINATED))
        else:
            self._over.set()

    def _warn(self, context: Mapping[str, Any]) -> None:
        """Show in one line what asyncio reports, such as a connection that it could not accept."""
        error = context.get("exception")
        why = error.strerror if isinstance(error, OSError) else repr(error)
        message = str(context["message"]).lower() + (f": {why}" if error is not None else "")
        if self._server is not None and self._warnings.first(message):
            self._server.publish(WarningIssued(message))

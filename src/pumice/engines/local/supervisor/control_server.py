"""The control socket of a run: other processes of the same user stop, scale, watch and enter the run through it.

A foreground run also has the connection of its client, the lease. No output is lost on it: while the client does not
read, the output of the pods waits in their pipes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.engines.local.daemon.line_protocol import RETIRE, Answer, Connection, Message, listen
from pumice.engines.local.daemon.runtime_files import control_socket
from pumice.engines.local.events import LogOutput, RunEvent, RunPlanned
from pumice.engines.local.outcome import TERMINATED, Outcome, Stop
from pumice.engines.local.run_errors import InvalidOption, RunError, WaitTimeout, WrongState
from pumice.engines.local.runs.event_codec import EventEncoder
from pumice.engines.local.sandbox.sandbox_errors import StartError
from pumice.engines.local.session import LocalSession
from pumice.engines.local.supervisor.entering import Entering
from pumice.engines.local.supervisor.request_codec import DETACH, OUTPUT, STOP, plain_output
from pumice.model.problem import Position
from pumice.model.pumice_error import PumiceError

# A watcher that does not read is disconnected when this many bytes wait for it.
_MOST_WAITING: Final = 32 << 20
_LOOK_AGAIN: Final = 30.0


@dataclass(slots=True)
class ControlServer:
    """Serves while the run lives."""

    session: LocalSession
    lease: Connection | None = None  # of the client of a foreground run
    detach: Callable[[], Awaitable[str]] | None = None  # releases the lease, and returns the name of the run
    _uid: str = ""
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _watchers: list[Connection] = field(default_factory=list)
    _encoder: EventEncoder = field(default_factory=EventEncoder)

    def publish(self, event: RunEvent) -> None:
        """Send an event to the watchers; open the socket when the run has begun."""
        if isinstance(event, RunPlanned):
            self._uid = event.job.uid
            self._spawn(self._keep_open())
        if self.lease is not None and isinstance(event, LogOutput):
            self._send_to_client(self.lease, _line(OUTPUT, plain_output(event)), is_log=True)
        for kind, data in self._encoded(event):
            line = _line(kind, data)
            if self.lease is not None and not isinstance(event, LogOutput):
                self._send_to_client(self.lease, line, is_log=False)
            for watcher in tuple(self._watchers):
                watcher.writer.write(line)
                if watcher.writer.transport.get_write_buffer_size() > _MOST_WAITING:
                    self._watchers.remove(watcher)
                    watcher.writer.transport.abort()

    def _encoded(self, event: RunEvent) -> list[tuple[str, Any]]:
        if not isinstance(event, LogOutput):
            return self._encoder.encode(event)
        if not self._watchers:
            return []
        lines = [[each.pod, each.container, each.stream, each.text, each.unfinished] for each in event.lines]
        return [(LogOutput.__name__, lines)]

    def _send_to_client(self, lease: Connection, line: bytes, *, is_log: bool) -> None:
        transport = lease.writer.transport
        if is_log and transport.get_write_buffer_size() > _MOST_WAITING:
            # Only while the run is being stopped, which waits for no reader. The log files have these lines.
            return
        lease.writer.write(line)
        if transport.get_write_buffer_size() > transport.get_write_buffer_limits()[1] and not self.session.gate.closed:
            self.session.gate.close()
            self._spawn(self._open_gate(lease))

    async def _open_gate(self, lease: Connection) -> None:
        """Let the pods print again when the client has read."""
        with suppress(ConnectionError):
            await lease.writer.drain()
        self.session.gate.open()

    def release(self) -> None:
        """Continue without the client."""
        self.lease = None
        self.session.gate.open()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for watcher in self._watchers:
            # What is written goes out, unless the watcher does not read.
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await watcher.writer.drain()
            watcher.writer.close()
        if self._server is not None:
            self._server.close()
            with suppress(OSError, RunError):
                control_socket(self._uid).unlink(missing_ok=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_open(self) -> None:
        """Listen, and listen again when the socket is gone: logging out removes the runtime directory."""
        wanted = asyncio.Event()
        with suppress(ValueError, RuntimeError):
            # Only the main thread gets signals; elsewhere the socket comes back a little later.
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, wanted.set)
        while True:
            wanted.clear()
            # Without the socket the run goes on; `ps` and `logs` read files.
            with suppress(OSError, RunError):
                path = control_socket(self._uid)
                if self._server is None or not await asyncio.to_thread(os.path.lexists, path):
                    if self._server is not None:
                        self._server.close()
                    self._server = await listen(path, self._serve, self._uid)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN):
                    await wanted.wait()

    async def _serve(self, connection: Connection) -> None:
        entering = Entering(self.session, connection)

        async def watch(_request: Message) -> Any:
            self._watchers.append(connection)

        try:
            await connection.serve({**self.answers(), "enter": _guarded(entering.enter), "events": watch})
        finally:
            await entering.close()
            if connection in self._watchers:
                self._watchers.remove(connection)

    def answers(self) -> Mapping[str, Answer]:
        """Return what can be asked of the run, by the name of the request."""
        answers: dict[str, Answer] = {
            STOP: self._stop,
            "suspend": self._suspend,
            "restart": self._restart,
            "scale": self._scale,
            "kill": self._kill,
            "exec": self._exec,
            "usage": self._usage,
            DETACH: self._detach,
            RETIRE: self._stop,
        }
        return {name: _guarded(answer) for name, answer in answers.items()}

    async def _stop(self, request: Message) -> Any:
        """Stop the run. The client of a foreground run sends the reason.

        `insist`: if the run is being stopped already, end it at once.
        """
        code, reason = int(request.get("code") or TERMINATED), str(request.get("reason") or "Stopped")
        grace = request.get("grace")
        why = Stop(code, reason, str(request.get("message") or ""), None if grace is None else float(grace))
        stopped = self.session.stop(why, force=bool(request.get("force")))
        return stopped or (bool(request.get("insist")) and self.session.stop(why, force=True))

    async def _detach(self, _request: Message) -> Any:
        if self.detach is None or self.lease is None:
            raise WrongState("the run is detached already")
        return await self.detach()

    async def _suspend(self, _request: Message) -> Any:
        self.session.suspend()

    async def _restart(self, _request: Message) -> Any:
        self.session.restart()

    async def _scale(self, request: Message) -> Any:
        self.session.scale({str(task): int(number) for task, number in request["replicas"].items()})

    async def _kill(self, request: Message) -> Any:
        return await self.session.kill(str(request["pod"]), int(request.get("signal") or 9))

    async def _usage(self, _request: Message) -> Any:
        return msgspec.to_builtins(await self.session.sampler.fresh())

    async def _exec(self, request: Message) -> Any:
        """Run a command and return its output."""
        argv = [str(word) for word in request["argv"]]
        container, timeout = str(request.get("container") or ""), request.get("timeout")
        code, output = await self.session.exec(str(request["pod"]), argv, container=container, timeout=timeout)
        return {"code": code, "output": output.decode("utf-8", "surrogateescape")}


def _line(kind: str, data: Any) -> bytes:
    return msgspec.json.encode({"event": kind, "data": data}) + b"\n"


def _guarded(answer: Answer) -> Answer:
    """Return a handler that answers malformed requests with an error."""

    async def answer_safely(request: Message) -> Any:
        try:
            return await answer(request)
        except RunError:
            raise
        except TimeoutError as error:
            raise WaitTimeout(f"the command has not ended within {request.get('timeout')}s, and was killed") from error
        except StartError as error:
            raise InvalidOption(error.message, where=Position("command")) from error
        except PumiceError as error:
            raise WrongState(error.problem.message, error.problem.hint) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidOption(f"{type(error).__name__}: {error}") from error

    return answer_safely


async def run_with_control(session: LocalSession, listener: Callable[[RunEvent], None]) -> Outcome:
    """Run a session to its end, reachable through its control socket."""
    server = ControlServer(session)
    if threading.current_thread() is threading.main_thread():
        # A client may send it as soon as the lock is signed.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def listen_and_publish(event: RunEvent) -> None:
        server.publish(event)
        listener(event)

    try:
        return await session.run(listen_and_publish)
    finally:
        await server.close()

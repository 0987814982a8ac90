"""The control socket of a run: other processes of the same user stop, scale, watch and enter the run through it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.engines.local.daemon.line_protocol import RETIRE, Answer, Connection, Message, listen
from pumice.engines.local.daemon.runtime_directory import runtime_directory
from pumice.engines.local.events import LogOutput, RunEvent, RunPlanned
from pumice.engines.local.outcome import TERMINATED, Outcome, Stop
from pumice.engines.local.run_errors import RunError, SettingsError
from pumice.engines.local.runs.event_codec import EventEncoder
from pumice.engines.local.session import LocalSession
from pumice.model.problem import PumiceError

# A watcher that does not read loses the connection when this much waits for it.
_MOST_WAITING: Final = 32 << 20
_LOOK_AGAIN: Final = 30.0


def control_socket(uid: str) -> Path:
    """Return the path of the control socket of a run. Raises RunError."""
    return runtime_directory(os.environ) / f"{uid}.sock"


@dataclass(slots=True)
class ControlServer:
    """Serves while the run lives."""

    session: LocalSession
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
        for kind, data in self._encoded(event):
            line = msgspec.json.encode({"event": kind, "data": data}) + b"\n"
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
        while True:
            # Without the socket the run goes on; `ps` and `logs` read files.
            with suppress(OSError, RunError):
                path = control_socket(self._uid)
                if self._server is None or not await asyncio.to_thread(os.path.lexists, path):
                    if self._server is not None:
                        self._server.close()
                    self._server = await listen(path, self._serve, self._uid)
            await asyncio.sleep(_LOOK_AGAIN)

    async def _serve(self, connection: Connection) -> None:
        async def watch(_request: Message) -> Any:
            self._watchers.append(connection)

        answers: dict[str, Answer] = {
            "stop": self._stop,
            "suspend": self._suspend,
            "restart": self._restart,
            "scale": self._scale,
            "kill": self._kill,
            "exec": self._exec,
            "events": watch,
            RETIRE: self._stop,
        }
        try:
            await connection.serve({name: _guarded(answer) for name, answer in answers.items()})
        finally:
            if connection in self._watchers:
                self._watchers.remove(connection)

    async def _stop(self, request: Message) -> Any:
        return self.session.stop(Stop(TERMINATED, "Stopped"), force=bool(request.get("force")))

    async def _suspend(self, _request: Message) -> Any:
        self.session.suspend()

    async def _restart(self, _request: Message) -> Any:
        self.session.restart()

    async def _scale(self, request: Message) -> Any:
        self.session.scale({str(task): int(number) for task, number in request["replicas"].items()})

    async def _kill(self, request: Message) -> Any:
        return await self.session.kill(str(request["pod"]), int(request.get("signal") or 9))

    async def _exec(self, request: Message) -> Any:
        """Run a command and return its output."""
        argv = [str(word) for word in request["argv"]]
        container, timeout = str(request.get("container") or ""), request.get("timeout")
        code, output = await self.session.exec(str(request["pod"]), argv, container=container, timeout=timeout)
        return {"code": code, "output": output.decode("utf-8", "surrogateescape")}


def _guarded(answer: Answer) -> Answer:
    """Return an answer that refuses what it cannot use, whatever a client sends."""

    async def answer_safely(request: Message) -> Any:
        try:
            return await answer(request)
        except RunError:
            raise
        except PumiceError as error:
            raise RunError(error.problem.message, error.problem.hint) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SettingsError(f"{type(error).__name__}: {error}") from error

    return answer_safely


async def run_with_control(session: LocalSession, listener: Callable[[RunEvent], None]) -> Outcome:
    """Run a session to its end, reachable through its control socket."""
    server = ControlServer(session)

    def listen_and_publish(event: RunEvent) -> None:
        server.publish(event)
        listener(event)

    try:
        return await session.run(listen_and_publish)
    finally:
        await server.close()

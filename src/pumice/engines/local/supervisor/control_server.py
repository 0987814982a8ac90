"""The control socket of a run: other processes of the same user stop, scale, watch and enter the run through it."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pumice.engines.local.events import LogOutput, RunEvent, RunPlanned
from pumice.engines.local.outcome import TERMINATED, Outcome, Stop
from pumice.engines.local.run_errors import RunError, SettingsError
from pumice.engines.local.runs.event_codec import EventEncoder
from pumice.engines.local.session import LocalSession
from pumice.engines.local.supervisor import control_protocol
from pumice.engines.local.supervisor.control_protocol import NEWEST, OLDEST, encode, encode_error
from pumice.engines.local.supervisor.runtime_directory import socket_path
from pumice.model.problem import PumiceError

# A watcher that does not read loses the connection when this much waits for it.
_MOST_WAITING: Final = 32 << 20
_REBIND: Final = 30.0


@dataclass(slots=True)
class ControlServer:
    """Serves while the run lives. `detach` is called when a client asks the run to go on without its terminal."""

    session: LocalSession
    detach: Callable[[], bool] = lambda: False
    _path: Path | None = None
    _ref: str = ""
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _watchers: set[asyncio.StreamWriter] = field(default_factory=set)
    _encoder: EventEncoder = field(default_factory=EventEncoder)

    def publish(self, event: RunEvent) -> None:
        """Send an event to the watchers; open the socket when the run has begun."""
        if isinstance(event, RunPlanned):
            self._ref = event.name
            self._spawn(self._open(event.job.uid))
        if isinstance(event, LogOutput):
            lines = [[each.pod, each.container, each.stream, each.text, each.unfinished] for each in event.lines]
            messages = [{"event": "LogOutput", "data": lines}] if self._watchers else []
        else:
            messages = [{"event": kind, "data": data} for kind, data in self._encoder.encode(event)]
        for writer in tuple(self._watchers):
            for message in messages:
                writer.write(encode(message))
            if writer.transport.get_write_buffer_size() > _MOST_WAITING:
                self._watchers.discard(writer)
                writer.transport.abort()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for writer in tuple(self._watchers):
            # What is written goes out, unless the watcher does not read.
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await writer.drain()
            writer.close()
        if self._server is not None:
            self._server.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, uid: str) -> None:
        """Bind the socket, and bind it again when it is gone: logging out removes the runtime directory."""
        while True:
            try:
                self._path = socket_path(os.environ, uid)
                if self._server is None or not self._path.exists():
                    await self._bind(self._path)
            except (OSError, RunError):
                # Without the socket the run goes on; `ps` and `logs` read files.
                self._path = None
            await asyncio.sleep(_REBIND)

    async def _bind(self, path: Path) -> None:
        if self._server is not None:
            self._server.close()
        limit = control_protocol.LONGEST_MESSAGE
        self._server = await asyncio.start_unix_server(self._serve, sock=listening_socket(path), limit=limit)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not control_protocol.peer_is_same_user(writer.get_extra_info("socket")):
            writer.close()
            return
        try:
            while line := await reader.readline():
                writer.write(encode(await self._answer(line, writer)))
                await writer.drain()
        except (OSError, ValueError):
            # The client has gone, or has sent more than a message may have.
            writer.transport.abort()
        finally:
            self._watchers.discard(writer)
            writer.close()

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter) -> Mapping[str, Any]:
        try:
            message = control_protocol.decode(line)
            operation = getattr(self, f"_do_{message.get('op')}", None)
            if operation is None:
                raise SettingsError(f"op: {message.get('op')}: unknown")
            found: Mapping[str, Any] = await operation(message, writer)
        except RunError as error:
            return {"error": encode_error(error)}
        except PumiceError as error:
            return {"error": encode_error(RunError(error.problem.message, error.problem.hint))}
        except (ValueError, TypeError, KeyError, TimeoutError) as error:
            return {"error": encode_error(RunError(f"{type(error).__name__}: {error}".rstrip(": ")))}
        return {"ok": True, **found}

    async def _do_hello(self, message: Mapping[str, Any], _writer: asyncio.StreamWriter) -> Mapping[str, Any]:
        oldest, newest = message["protocol"]
        if newest < OLDEST or oldest > NEWEST:
            theirs, ours = f"{oldest} to {newest}", f"{OLDEST} to {NEWEST}"
            raise RunError(f"the run speaks protocol {ours}, the client {theirs}", "use the same version of Pumice")
        return {"protocol": [OLDEST, NEWEST], "version": importlib.metadata.version("pumice"), "run": self._ref}

    async def _do_stop(self, message: Mapping[str, Any], _writer: asyncio.StreamWriter) -> Mapping[str, Any]:
        force = bool(message.get("force"))
        return {"stopping": self.session.stop(Stop(TERMINATED, "Stopped"), force=force)}

    async def _do_suspend(self, _message: Mapping[str, Any], _writer: asyncio.StreamWriter) -> Mapping[str, Any]:
        self.session.suspend()
        return {}

    async def _do_restart(self, _message: Mapping[str, Any], _writer: asyncio.StreamWriter) -> Mapping[str, Any]:
        self.session.restart()
        return {}

    async def _do_scale(self, message: Mapping[str, Any], _writer: asyncio.StreamWriter) -> Mapping[str, Any]:
        self.session.scale({str(task): int(number) for task, number in message["replicas"].items()})
        return {}

    async def _do_kill(self, message: Mapping[str, Any], _writer: asyncio.StreamWriter) -> Mapping[str, Any]:
        return {"killed": await self.session.kill(str(message["pod"]), int(message.get("signal") or 9))}

    async def _do_exec(self, message: Mapping[str, Any], _writer: asyncio.StreamWriter) -> Mapping[str, Any]:
        """Run a command and return its output. A terminal is not available this way."""
        argv = [str(word) for word in message["argv"]]
        container, timeout = str(message.get("container") or ""), message.get("timeout")
        code, output = await self.session.exec(str(message["pod"]), argv, container=container, timeout=timeout)
        return {"code": code, "output": output.decode("utf-8", "surrogateescape")}

    async def _do_detach(self, _message: Mapping[str, Any], _writer: asyncio.StreamWriter) -> Mapping[str, Any]:
        if not self.detach():
            hint = "start it with `pumice submit`, or with `pumice run -d`"
            raise RunError("the run is part of the process that shows it, so it cannot go on without it", hint)
        return {}

    async def _do_events(self, _message: Mapping[str, Any], writer: asyncio.StreamWriter) -> Mapping[str, Any]:
        self._watchers.add(writer)
        return {"run": self._ref}


def listening_socket(path: Path) -> socket.socket:
    """Return a socket at this path that only this user can connect to. Raises OSError."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The path of a socket may have 107 bytes only.
        listening.bind(f"/proc/self/fd/{directory}/{path.name}")
        path.chmod(0o600)
    except OSError:
        listening.close()
        raise
    finally:
        os.close(directory)
    return listening


async def run_with_control(session: LocalSession, listener: Callable[[RunEvent], None]) -> Outcome:
    """Run a session to its end, reachable through its control socket."""
    server = ControlServer(session)

    def listen(event: RunEvent) -> None:
        server.publish(event)
        listener(event)

    try:
        return await session.run(listen)
    finally:
        await server.close()

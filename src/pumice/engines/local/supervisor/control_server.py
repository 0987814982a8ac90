"""The control socket of a run: other processes of the same user stop, scale, watch and enter the run through it.

A foreground run also has the connection of its client, the lease. No output is lost on it: while the client does not
read, the output of the pods waits in their pipes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.diagnosis.outcome import StopReason
from pumice.engines.local.daemon.connections import Connection, Listener, unknown_request
from pumice.engines.local.daemon.runtime_files import control_socket
from pumice.engines.local.local_run import LocalRun
from pumice.engines.local.rpc.wire import Message
from pumice.engines.local.sandbox.sandbox_errors import StartError
from pumice.engines.local.supervisor.entering import Entering, connect
from pumice.engines.local.supervisor.request_codec import OUTPUT, encode_output
from pumice.model.problem import Position
from pumice.model.pumice_error import PumiceError
from pumice.store.events import LogOutput, RunEvent, RunPlanned
from pumice.store.history.entries import EventEncoder
from pumice.store.run_end import TERMINATED, RunEnded, Stop
from pumice.store.run_errors import InvalidOption, RunError, WaitTimeout, WrongState

# A watcher that does not read is disconnected when this many bytes wait for it.
_MOST_WAITING: Final = 32 << 20
_LOOK_AGAIN: Final = 30.0


@dataclass(slots=True)
class ControlServer:
    """Serves while the run lives."""

    run: LocalRun
    lease: Connection | None = None  # of the client of a foreground run
    detach: Callable[[], Awaitable[str]] | None = None  # releases the lease, and returns the name of the run
    _uid: str = ""
    _listener: Listener = field(init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _watchers: list[Connection] = field(default_factory=list)
    _encoder: EventEncoder = field(default_factory=EventEncoder)

    def publish(self, event: RunEvent) -> None:
        """Send an event to the watchers; open the socket when the run has begun."""
        if isinstance(event, RunPlanned):
            self._uid = event.job.uid
            self._listener = Listener(lambda: control_socket(self._uid), self._serve, self._uid)
            self._spawn(self._keep_open())
        if self.lease is not None and isinstance(event, LogOutput):
            self._send_to_client(self.lease, _line(OUTPUT, encode_output(event)), is_log=True)
        if not isinstance(event, LogOutput):
            entries = self._encoder.encode(event)
        elif self._watchers:
            lines = [[each.pod, each.container, each.stream, each.text, each.unfinished] for each in event.lines]
            entries = [(LogOutput.__name__, lines)]
        else:
            entries = []
        for kind, data in entries:
            line = _line(kind, data)
            if self.lease is not None and not isinstance(event, LogOutput):
                self._send_to_client(self.lease, line, is_log=False)
            for watcher in tuple(self._watchers):
                watcher.notify(line)
                if watcher.unsent > _MOST_WAITING:
                    self._watchers.remove(watcher)
                    watcher.abort(ConnectionAbortedError("the client does not read"))

    def _send_to_client(self, lease: Connection, line: bytes, *, is_log: bool) -> None:
        if is_log and lease.unsent > _MOST_WAITING:
            # Only while the run is being stopped, which waits for no reader. The log files have these lines.
            return
        lease.notify(line)
        if lease.is_full and not self.run.gate.closed:
            self.run.gate.close()
            self._spawn(self._open_gate(lease))

    async def _open_gate(self, lease: Connection) -> None:
        """Let the pods print again when the client has read."""
        with suppress(ConnectionError):
            await lease.drain()
        self.run.gate.open()

    def release(self) -> None:
        """Continue without the client."""
        self.lease = None
        self.run.gate.open()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for watcher in self._watchers:
            # What is written goes out, unless the watcher does not read.
            await watcher.finish(1)
        if self._uid:
            self._listener.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_open(self) -> None:
        wanted = asyncio.Event()
        with suppress(ValueError, RuntimeError):
            # Only the main thread gets signals; elsewhere the socket comes back a little later.
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, wanted.set)
        while True:
            wanted.clear()
            # Without the socket the run goes on; `ps` and `logs` read files.
            with suppress(OSError, RunError):
                await self._listener.keep()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN):
                    await wanted.wait()

    async def _serve(self, connection: Connection) -> None:
        entering = Entering(self.run, connection)

        async def answer(request: Message) -> Any:
            if request.get("do") == "events":
                self._watchers.append(connection)
                return None
            if request.get("do") == "enter":
                with _refusals(request):
                    return await entering.enter(request)
            if request.get("do") == "connect":
                with _refusals(request):
                    return await connect(self.run, request)
            return await self.answer(request)

        try:
            await connection.serve_requests(answer)
        finally:
            await entering.close()
            if connection in self._watchers:
                self._watchers.remove(connection)

    async def answer(self, request: Message) -> Any:
        """Do what another process asks of the run. Raises RunError, for a malformed request, too."""
        run = self.run
        with _refusals(request):
            match request.get("do"):
                case "stop" | "retire":
                    return self._stop(request)
                case "suspend":
                    return run.suspend()
                case "restart":
                    return run.restart()
                case "scale":
                    return run.scale({str(task): int(number) for task, number in request["replicas"].items()})
                case "kill":
                    return await run.kill(str(request["pod"]), int(request.get("signal") or 9))
                case "usage":
                    return msgspec.to_builtins(await run.session.sampler.fresh())
                case "exec":
                    argv = [str(word) for word in request["argv"]]
                    container, timeout = str(request.get("container") or ""), request.get("timeout")
                    code, output = await run.exec(str(request["pod"]), argv, container=container, timeout=timeout)
                    return {"code": code, "output": output.decode("latin-1")}
                case "detach":
                    if self.detach is None or self.lease is None:
                        raise WrongState("the run is detached already")
                    return await self.detach()
            raise unknown_request(request)

    def _stop(self, request: Message) -> bool:
        """Stop the run. The client of a foreground run sends the reason.

        `insist`: if the run is being stopped already, end it at once.
        """
        code, reason = int(request.get("code") or TERMINATED), str(request.get("reason") or StopReason.STOPPED)
        grace = request.get("grace")
        why = Stop(code, reason, str(request.get("message") or ""), None if grace is None else float(grace))
        stopped = self.run.stop(why, force=bool(request.get("force")))
        return stopped or (bool(request.get("insist")) and self.run.stop(why, force=True))


def _line(kind: str, data: Any) -> bytes:
    return msgspec.json.encode({"event": kind, "data": data}) + b"\n"


@contextmanager
def _refusals(request: Message) -> Iterator[None]:
    """Refuse what cannot be done, and malformed requests."""
    try:
        yield
    except RunError:
        raise
    except TimeoutError as error:
        raise WaitTimeout(f"the command has not ended within {request.get('timeout')}s, and was killed") from error
    except StartError as error:
        raise InvalidOption(error.message, where=Position("command")) from error
    except PumiceError as error:
        raise WrongState(error.problem.message, error.problem.advice) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidOption(f"{type(error).__name__}: {error}") from error


def give_up(reason: str) -> None:
    """End at once, as if this process had been killed: the service recovers the run, and no retry is spent."""
    sys.stderr.write(f"{reason}\n")
    sys.stderr.flush()
    os._exit(1)


async def run_with_control(run: LocalRun, listener: Callable[[RunEvent], None]) -> RunEnded:
    """Run a job to its end, reachable through its control socket."""
    server = ControlServer(run)
    if threading.current_thread() is threading.main_thread():
        # A client may send it as soon as the lock is signed.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def listen_and_publish(event: RunEvent) -> None:
        server.publish(event)
        listener(event)

    try:
        return await run.run(listen_and_publish)
    finally:
        await server.close()

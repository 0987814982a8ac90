"""A run that ends with its client: the client's side of the connection to the process of the run.

    async with leased(spawned_supervisor()) as run:
        async for event in run.start(request):
            print(event)

A program may call `stop`, `detach` and `call` meanwhile. The CLI uses `forked_supervisor`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.engines.local.clock import elapsed
from pumice.engines.local.daemon.line_protocol import LIMIT, Connection, Hello, Message, encoded
from pumice.engines.local.events import RunEvent, RunPlanned
from pumice.engines.local.outcome import Outcome, Stop
from pumice.engines.local.run_errors import ConnectionFailed
from pumice.engines.local.runs.event_codec import EventDecoder
from pumice.engines.local.runs.journal import Entry
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.supervisor.request_codec import (
    DETACH,
    DETACHED,
    OUTPUT,
    START,
    STOP,
    error_of,
    output_of,
    plain_request,
)
from pumice.engines.local.supervisor.supervisor_process import SupervisorProcess
from pumice.model.job import Job

__all__ = ["LeasedRun", "SupervisorLostError", "leased"]

_NO_TIME: Final = dt.datetime.min.replace(tzinfo=dt.UTC)  # the time of an event is when it arrives
_MOST_UNREAD: Final = 64  # messages
_END_SECONDS: Final = 20.0
_MOMENT: Final = 0.005


class SupervisorLostError(ConnectionFailed):
    """The process of the run ended before the run did."""


@dataclass(slots=True)
class LeasedRun:
    connection: Connection
    name: str = ""  # NAME:N, as soon as the run has begun
    directory: str = ""
    outcome: Outcome | None = None  # when it has ended
    detached: str = ""  # its name, when it goes on without this process
    warning: str = ""  # what a detached run misses
    _decoder: EventDecoder = field(default_factory=lambda: EventDecoder(Job()))
    _last_id: int = 0
    _calls: dict[int, asyncio.Future[Any]] = field(default_factory=dict)
    _unread: deque[Message | None] = field(default_factory=deque)  # None is the end
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _room: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, request: RunRequest) -> AsyncIterator[RunEvent]:
        """Start the run and yield its events until it ends or is detached. After a refusal it may be called again.

        Raises RunError if the run cannot start, and SupervisorLostError.
        """
        own = self._send(START, request=plain_request(request))
        while (message := await self._next()) is not None:
            if message.get("id") == own or "error" in message:
                if "error" in message:
                    raise error_of(message["error"])
                return
            if message.get("event") == DETACHED:
                self.detached, self.warning = message["data"]["run"], message["data"]["warning"]
                return
            event = self._event(message)
            if event is not None:
                yield event
        raise SupervisorLostError(f"{self.name or 'the run'} has ended: its process was killed")

    def stop(self, why: Stop | None = None, *, force: bool = False, insist: bool = False) -> None:
        """Stop the run gracefully, or at once; `insist`: at once if it is being stopped already."""
        why = why or Stop()
        fields = {"code": why.code, "reason": why.reason, "message": why.message}
        self._send(STOP, **fields, force=force, insist=insist)

    async def detach(self) -> None:
        """Let the run outlive this process. Raises RunError if that is not possible, and then nothing changes."""
        await self.call(DETACH)

    def release(self) -> None:
        """Request `detach` without waiting for the answer, for a program that cannot read now."""
        self._send(DETACH)

    async def call(self, what: str, **fields: Any) -> Any:
        """Send a request to the process of the run, and return the result. Raises RunError."""
        answer = asyncio.get_running_loop().create_future()
        self._calls[self._send(what, **fields)] = answer
        self._room.set()
        return await answer

    def _send(self, what: str, **fields: Any) -> int:
        self._last_id += 1
        self.connection.writer.write(encoded({**fields, "id": self._last_id, "do": what}))
        return self._last_id

    async def _next(self) -> Message | None:
        while not self._unread:
            self._arrived.clear()
            await self._arrived.wait()
        message = self._unread.popleft()
        self._room.set()
        return message

    async def read(self) -> None:
        """Read what arrives. Stop while many messages wait to be taken, unless an answer is awaited."""
        message: Message | None = {}
        while message is not None:
            try:
                message = await self.connection.receive()
            except ConnectionFailed:
                message = None
            answer = None if message is None else self._calls.pop(message.get("id", 0), None)
            if message is not None and message.get("event") == DETACHED:
                self._end_calls(None)
            if answer is None or message is None:
                self._unread.append(message)
                self._arrived.set()
            elif not answer.cancelled():
                if "error" in message:
                    answer.set_exception(error_of(message["error"]))
                else:
                    answer.set_result(message.get("result"))
            while len(self._unread) >= _MOST_UNREAD and not self._calls:
                self._room.clear()
                await self._room.wait()
        self._end_calls(SupervisorLostError("the process of the run has ended"))

    def _end_calls(self, error: Exception | None) -> None:
        """End calls that get no answer: a detached run announces that it is detached, and answers nothing else."""
        for waiting in self._calls.values():
            if waiting.done():
                continue
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)
        self._calls.clear()

    def _event(self, message: Message) -> RunEvent | None:
        kind, data = str(message.get("event")), message.get("data")
        if kind == OUTPUT:
            return output_of(data or ())
        event = self._decoder.decode(Entry(0, _NO_TIME, 0, kind, data))
        if isinstance(event, RunPlanned):
            self.name, self.directory = event.name, event.directory
        elif isinstance(event, Outcome):
            self.outcome = event
        return event


@asynccontextmanager
async def leased(process: SupervisorProcess) -> AsyncIterator[LeasedRun]:
    """Yield the connection to a new process. At the end the run ends, unless it was detached.

    Raises ConnectionFailed.
    """
    reader, writer = await asyncio.open_unix_connection(sock=process.lease, limit=LIMIT)
    connection = Connection(reader, writer)
    run = LeasedRun(connection)
    reading: asyncio.Task[None] | None = None
    try:
        await connection.send({"hello": msgspec.to_builtins(Hello())})
        first = await connection.receive()
        if first is None:
            raise SupervisorLostError("the process of the run was killed before it began")
        if "error" in first:
            raise error_of(first["error"])
        connection.peer = msgspec.convert(first.get("hello"), Hello)
        connection.check_protocol()
        reading = asyncio.get_running_loop().create_task(run.read())
        yield run
    finally:
        if reading is not None:
            reading.cancel()
        writer.close()
        if not run.detached:
            await _ended(process)


async def _ended(process: SupervisorProcess) -> None:
    """Wait until the process has ended, which it does at once; end one that does not."""
    deadline = elapsed() + _END_SECONDS
    while process.child.poll() is None:
        if elapsed() > deadline:
            process.child.kill()
            process.child.wait()
            return
        await asyncio.sleep(_MOMENT)

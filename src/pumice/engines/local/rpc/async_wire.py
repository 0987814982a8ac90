"""One end of a connection between two processes, for asyncio: calls, requests to answer, announcements.

A side may do all three at the same time. Neither side collects without bound what the other one does not read: reading
stops while messages wait to be received, and a sender that writes much waits in `drain`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pumice.engines.local.rpc.wire import Message, Wire, WireError, close_all

_MOST_UNREAD: Final = 64  # messages; and requests that are answered at the same time
_MOST_UNSENT: Final = 1 << 16  # bytes


class Reply(NamedTuple):
    """The answer to a request, with descriptors, which are given away."""

    result: Any
    descriptors: Sequence[int] = ()


class AsyncWire:
    """`lost` is called first of all when the other side has gone, and returns the error of calls without an answer.

    `received` gets, in order, every message that is no awaited answer, with its descriptors; else `receive` returns it.
    """

    def __init__(
        self,
        wire: Wire,
        lost: Callable[[], Exception],
        received: Callable[[Message, list[int]], None] | None = None,
    ) -> None:
        self.most_unsent, self.few_unsent = _MOST_UNSENT, _MOST_UNSENT // 4  # bytes at which `drain` waits, and ends
        self._wire = wire
        self._lost = lost
        self._received = received or self._keep
        self._loop = asyncio.get_running_loop()
        self._last_id = 0
        self._calls: dict[int, asyncio.Future[tuple[Any, list[int]]]] = {}
        self._unread: deque[Message | Exception | None] = deque()  # None, or an error, is the end
        self._arrived = asyncio.Event()
        self._sent: list[asyncio.Future[None]] = []  # who waits in `drain`
        self._reads = False
        self._writes = False
        self._closing = False
        self._broken = False  # nothing can be sent any more
        self._error: Exception | None = None  # why there is no answer any more
        wire.socket.setblocking(False)
        self._resume()

    # --- call -------------------------------------------------------------------------------------------------------

    async def call(self, what: str, **fields: Any) -> Any:
        """Send a request and return the result. Raises what the other side raised, and the error of `lost`."""
        result, descriptors = await self.exchange(what, (), **fields)
        close_all(descriptors)
        return result

    async def exchange(self, what: str, descriptors: Sequence[int], **fields: Any) -> tuple[Any, list[int]]:
        """Call with descriptors, which are given away; return those of the answer, too."""
        if self._error is not None:
            close_all(descriptors)
            raise self._error
        number = self._last_id + 1
        answer: asyncio.Future[tuple[Any, list[int]]] = self._loop.create_future()
        self._calls[number] = answer
        self._resume()
        try:
            self.request(what, descriptors, **fields)
            return await answer
        finally:
            self._calls.pop(number, None)

    def request(self, what: str, descriptors: Sequence[int] = (), **fields: Any) -> int:
        """Send a request without waiting; return its id. The answer is received like an announcement."""
        self._last_id += 1
        self.notify({**fields, "id": self._last_id, "do": what}, descriptors)
        return self._last_id

    # --- send -------------------------------------------------------------------------------------------------------

    def notify(self, message: Message | bytes, descriptors: Sequence[int] = ()) -> None:
        """Send a message, or an encoded line, as soon as the other side takes it. A lost connection ignores it."""
        if self._error is not None or self._closing or self._broken:
            close_all(descriptors)
            return
        if isinstance(message, bytes):
            self._wire.put_encoded(message)
        else:
            self._wire.put(message, descriptors)
        if not self._writes:
            self._flush()

    @property
    def unsent(self) -> int:
        """The number of bytes that the other side has not taken yet."""
        return self._wire.unsent

    @property
    def is_full(self) -> bool:
        return self.unsent > self.most_unsent

    async def drain(self) -> None:
        """Wait until the other side has taken most of what was sent. Raises ConnectionResetError."""
        if self._error is not None or self._broken:
            raise _closed()
        if self.is_full:
            waiting = self._loop.create_future()
            self._sent.append(waiting)
            await waiting

    def _flush(self) -> None:
        try:
            done = self._wire.flush()
        except OSError:
            # The other side has gone. What it sent before is still to be read, and then the end.
            self._wire.discard_unsent()
            self._broken = done = True
            self._wake(_closed())
            self._resume()
        if done and self._writes:
            self._loop.remove_writer(self._wire.socket)
        elif not done and not self._writes:
            self._loop.add_writer(self._wire.socket, self._flush)
        self._writes = not done
        if self.unsent <= self.few_unsent:
            self._wake(None)
        if done and self._closing:
            self.abort(_closed())

    def _wake(self, error: Exception | None) -> None:
        waiting, self._sent = self._sent, []
        for future in waiting:
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)

    # --- receive ----------------------------------------------------------------------------------------------------

    async def receive(self) -> Message | None:
        """Return the next message that is no awaited answer; None at the end. Raises WireError."""
        while not self._unread:
            self._arrived.clear()
            await self._arrived.wait()
        found = self._unread.popleft()
        if found is None or isinstance(found, Exception):
            self._unread.append(None)  # it stays the end
        else:
            self._resume()
        if isinstance(found, Exception):
            raise found
        return found

    async def serve(self, answer: Callable[[Message], Awaitable[Any]]) -> None:
        """Answer requests, several at the same time, until the connection ends. Raises WireError.

        What `answer` raises is the answer as well. A handler whose client has gone is not interrupted. A client that
        does not read its answers gets no more: its next requests wait.
        """
        running: set[asyncio.Task[None]] = set()
        free = asyncio.Semaphore(_MOST_UNREAD)

        async def respond(request: Message) -> None:
            try:
                result = await answer(request)
                reply = result if isinstance(result, Reply) else Reply(result)
                self.notify({"id": request.get("id"), "result": reply.result}, reply.descriptors)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the caller gets it
                self._refuse(request, error)
            with suppress(ConnectionError):
                await self.drain()
            free.release()

        try:
            while (request := await self.receive()) is not None:
                await free.acquire()
                task = self._loop.create_task(respond(request))
                running.add(task)
                task.add_done_callback(running.discard)
        finally:
            if running:
                await asyncio.wait(running)

    def _refuse(self, request: Message, error: BaseException) -> None:
        encode_error = self._wire.form.encode_error
        try:
            self.notify({"id": request.get("id"), "error": encode_error(error)})
        except Exception as unsendable:  # noqa: BLE001 - an error may quote bytes that are no text
            self.notify({"id": request.get("id"), "error": encode_error(unsendable)})

    def _readable(self) -> None:
        problem: Exception | None = None
        try:
            ended = not self._wire.read()
            while (found := self._wire.take()) is not None:
                self._handle(*found)
                if self._error is not None:
                    return
        except BlockingIOError:
            return
        except OSError:
            ended = True
        except WireError as error:
            ended, problem = True, error
        if ended and self._error is None:
            self.abort(self._lost(), problem)
        elif len(self._unread) >= _MOST_UNREAD and not self._calls:
            self._loop.remove_reader(self._wire.socket)
            self._reads = False

    def _handle(self, message: Message, descriptors: list[int]) -> None:
        waiting = None if "do" in message else self._calls.get(message.get("id", 0))
        if waiting is None:
            self._received(message, descriptors)
        elif waiting.done():
            close_all(descriptors)
        elif "error" in message:
            close_all(descriptors)
            waiting.set_exception(self._wire.decode_error(message["error"]))
        else:
            waiting.set_result((message.get("result"), descriptors))

    def _keep(self, message: Message, descriptors: list[int]) -> None:
        close_all(descriptors)
        self._unread.append(message)
        self._arrived.set()

    def _resume(self) -> None:
        """Read again, if reading had stopped because nothing was received."""
        if not self._reads and self._error is None and not self._closing:
            self._loop.add_reader(self._wire.socket, self._readable)
            self._reads = True

    # --- end --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection when everything is sent."""
        self._closing = True
        if self._reads and self._error is None:
            self._loop.remove_reader(self._wire.socket)
            self._reads = False
        if not self._writes:
            self.abort(_closed())

    async def finish(self, seconds: float | None = None) -> None:
        """Close when everything is sent; at once if the other side has gone, or does not take it in time."""
        self.most_unsent = self.few_unsent = 0
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(seconds):
                await self.drain()
        self.abort(_closed())

    def abort(self, error: Exception, problem: Exception | None = None) -> None:
        """End the connection at once. Calls without an answer raise the error, and `receive` the problem, if any."""
        if self._error is not None:
            return
        self._error = error
        self._loop.remove_reader(self._wire.socket)
        self._loop.remove_writer(self._wire.socket)
        self._wire.close()
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(error)
                # Mark it as retrieved, or asyncio warns about futures that nothing awaits.
                answer.exception()
        self._wake(_closed())
        self._unread.append(problem)
        self._arrived.set()


def _closed() -> ConnectionResetError:
    return ConnectionResetError("the connection is closed")

"""An event loop on a private daemon thread, on which the synchronous classes drive the asynchronous core.

So they work in a notebook, under a running event loop and in any thread. A forked child gets a thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

from pumice.model.pumice_error import PumiceError

T = TypeVar("T")


class Batches(AsyncIterator[T]):
    """Iterates over what comes in batches. A thread that reads it is woken once per batch."""

    def __init__(self, source: AsyncIterator[list[T]]) -> None:
        self.source = source
        self._items = (item async for batch in source for item in batch)

    async def __anext__(self) -> T:
        return await anext(self._items)

    async def aclose(self) -> None:
        await self._items.aclose()


class LoopThread:
    """Starts its thread when it is first used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="pumice", daemon=True)
                self._thread.start()
            return self._loop

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; return its result. An interrupt cancels it."""
        __tracebackhide__ = True  # for pytest and IPython, which show the code of the caller instead
        loop = self.loop
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a synchronous call on the thread of the event loop would wait for itself")
        if sys.is_finalizing():
            # Daemon threads do not run any more: the answer would never come.
            work.close()
            raise RuntimeError("the interpreter is shutting down")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except PumiceError as error:
            # Without the frames of the private thread: none of them is the caller's.
            raise error.with_traceback(None) from error.__cause__
        except BaseException:
            future.cancel()
            raise

    def soon(self, work: Callable[[], object]) -> None:
        """Call a function on the thread of the loop; do not wait for it."""
        self.loop.call_soon_threadsafe(work)

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """Yield what an asynchronous iterator yields. An interrupt ends it."""
        __tracebackhide__ = True
        if isinstance(source, Batches):
            yield from (item for batch in self.iterate(source.source) for item in batch)
            return

        async def following() -> T | _End:
            return await anext(source, _END)

        try:
            while not isinstance(item := self.call(following()), _End):
                yield item
        finally:
            if isinstance(source, AsyncGenerator):
                with suppress(RuntimeError):
                    self.call(source.aclose())


class _End:
    """The end of an iterator."""


_END: Final = _End()
PRIVATE: Final[list[LoopThread]] = [LoopThread()]
_INHERITED: Final[list[LoopThread]] = []


def private_loop() -> LoopThread:
    """Return the loop that all synchronous classes of this process share."""
    return PRIVATE[0]


def _after_fork() -> None:
    """Replace the loop: threads do not survive a fork, and one that is gone may hold the lock.

    The loop of the parent is kept: closing it here would change the epoll descriptor that both processes share.
    """
    _INHERITED.append(PRIVATE[0])
    PRIVATE[0] = LoopThread()


os.register_at_fork(after_in_child=_after_fork)

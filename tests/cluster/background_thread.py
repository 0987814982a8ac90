"""Runs an asynchronous part of the cluster in a thread, so that tests stay synchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.patience import PATIENCE

T = TypeVar("T")


class BackgroundThread:
    """Subclasses implement `main`, which runs until it is cancelled. `stop` raises the error of a failed `main`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._ready = threading.Event()

    async def main(self) -> None:
        raise NotImplementedError

    def mark_ready(self) -> None:
        """Called by `main` when it is ready."""
        self._ready.set()

    def start(self) -> Self:
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE), f"{type(self).__name__} did not start"
        if self._failure is not None:
            self.stop()
        return self

    def stop(self) -> None:
        assert self._thread is not None
        if self._loop is not None and self._task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"{type(self).__name__} did not stop"
        if self._failure is not None:
            raise AssertionError(f"{type(self).__name__} failed: {self._failure!r}") from self._failure

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the background thread and return its result."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._guarded())
        except BaseException as error:  # noqa: BLE001 - raised by stop
            self._failure = error
        finally:
            self._ready.set()

    async def _guarded(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self.main())
        try:
            await self._task
        except asyncio.CancelledError:
            return

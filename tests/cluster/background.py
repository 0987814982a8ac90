"""An asynchronous part of the cluster in a thread of its own, so that tests stay synchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")
PATIENCE = 60.0


class Background:
    """Derive, and say in `main` what it does until it is cancelled. What goes wrong there is raised at the end."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._trouble: BaseException | None = None
        self._begun = threading.Event()

    async def main(self) -> None:
        raise NotImplementedError

    def begun(self) -> None:
        """To be called by `main` when it is ready."""
        self._begun.set()

    def start(self) -> Self:
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()
        assert self._begun.wait(PATIENCE), f"{type(self).__name__} did not start"
        if self._trouble is not None:
            self.stop()
        return self

    def stop(self) -> None:
        assert self._thread is not None
        if self._loop is not None and self._task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"{type(self).__name__} did not stop"
        if self._trouble is not None:
            raise AssertionError(f"{type(self).__name__} went wrong: {self._trouble!r}") from self._trouble

    def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Have something done in that thread, from another one."""
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
        except BaseException as error:  # noqa: BLE001 - told to whoever stops it
            self._trouble = error
        finally:
            self._begun.set()

    async def _guarded(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self.main())
        try:
            await self._task
        except asyncio.CancelledError:
            return

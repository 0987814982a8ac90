"""Connects to the service, and starts it if it does not run."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pumice.engines.local.clock import elapsed
from pumice.engines.local.daemon.background import last_lines, start_in_background
from pumice.engines.local.daemon.connections import (
    PROTOCOLS,
    RETIRE,
    AnswerLostError,
    Connection,
    connection_to,
    own_hello,
)
from pumice.engines.local.service.service_paths import ServicePaths
from pumice.store.files.file_lock import locked
from pumice.store.run_errors import ConnectionFailed

_PATIENCE: Final = 60.0  # seconds; on a busy machine, loading the modules takes long
_PAUSE: Final = 0.05
_TRIES: Final = 3


@asynccontextmanager
async def running_service(state: Path, environ: Mapping[str, str]) -> AsyncIterator[Connection | None]:
    """Yield a connection to the service if it runs, else None. Raises ConnectionFailed and RefusedError."""
    async with AsyncExitStack() as stack:
        connection = None
        with suppress(FileNotFoundError, ConnectionRefusedError):
            connection = await stack.enter_async_context(connection_to(ServicePaths(state).socket(environ)))
        yield connection


@asynccontextmanager
async def connected_service(
    state: Path, environ: Mapping[str, str], patience: float = _PATIENCE
) -> AsyncIterator[Connection]:
    """Yield a connection to the service; start it if it does not run, or if it is older than this Pumice.

    Raises ConnectionFailed with the last lines of its log, VersionMismatch and RefusedError.
    """
    paths, deadline = ServicePaths(state), elapsed() + patience
    while True:
        async with running_service(state, environ) as connection:
            if connection is not None:
                peer = connection.peer
                if peer.protocol[1] >= PROTOCOLS[0] and _numbers(peer.version) >= _numbers(own_hello().version):
                    peer.check()
                    yield connection
                    return
                with suppress(ConnectionFailed):
                    await connection.call(RETIRE)
        # The service may be about to listen, or to end; or its socket was removed.
        if paths.wake_holder():
            await asyncio.sleep(_PAUSE)
            failed = elapsed() > deadline
        else:
            failed = not await asyncio.to_thread(start_service, state, environ, max(0.0, deadline - elapsed()))
        if failed:
            lines = "\n".join(f"  {line}" for line in last_lines(paths.log))
            raise ConnectionFailed(f"the service does not start\n{lines}".rstrip(), f"its log is {paths.log}")


async def ask_service(state: Path, environ: Mapping[str, str], request: str, **fields: Any) -> Any:
    """Send a request to the service and return the result; again if the service ends before it answers.

    All its requests may be repeated. Raises what `connected_service` raises, and AnswerLostError in the end.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            async with connected_service(state, environ) as service:
                return await service.call(request, **fields)
        except AnswerLostError:
            if not tries_left:
                raise
    return None


def start_service(state: Path, environ: Mapping[str, str], seconds: float = _PATIENCE) -> bool:
    """Start the service, and wait until it or another one runs. False if it failed.

    Of many clients at once, one starts it, and the others wait.
    """
    paths = ServicePaths(state)
    with ExitStack() as stack:
        with suppress(OSError):
            # The service explains in its log what is wrong with the directory.
            paths.lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            stack.enter_context(locked(paths.lock.with_name("start.lock")))
        return paths.holder().is_alive or start_in_background(service_words(state), environ, paths.log, seconds)


def service_words(state: Path) -> list[str]:
    """Return the command of the service."""
    return [sys.executable, "-I", "-X", "utf8", "-m", "pumice.engines.local.service", str(state)]


def _numbers(version: str) -> list[int]:
    """Return what a version is compared by: its release numbers."""
    found = re.match(r"[0-9.]*", version)
    return [int(number) for number in (found[0] if found else "").split(".") if number]

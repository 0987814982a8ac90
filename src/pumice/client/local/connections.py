"""Connections to the processes of runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from pumice.client.local.liveness import check_changeable, not_responding, not_running, wake_owner
from pumice.engines.local.daemon.connections import PATIENCE, Connection, SilentPeerError, connection_to
from pumice.engines.local.daemon.runtime_files import control_socket
from pumice.store.files.run_store import StoredRun

_POLL: Final = 0.1


@asynccontextmanager
async def connected(run: StoredRun, patience: float = PATIENCE) -> AsyncIterator[Connection]:
    """Connect to the process of a run. Raises WrongState if it has ended, ConnectionFailed."""
    deadline = time.monotonic() + patience
    while True:
        check_changeable(run)
        if not run.is_owned:
            raise not_running(run)
        try:
            async with connection_to(control_socket(run.record.uid), patience=patience) as connection:
                connection.peer.check()
                yield connection
                return
        except (FileNotFoundError, ConnectionRefusedError) as error:
            # The socket is created a moment after the run begins, and again after a logout has removed it.
            wake_owner(run)
            if time.monotonic() > deadline:
                raise not_responding(run) from error
        except SilentPeerError as error:
            raise not_responding(run) from error
        await asyncio.sleep(_POLL)


async def call(run: StoredRun, request: str, **fields: Any) -> Any:
    """Send a request to the process of a run, and return the result. Raises RunError."""
    async with connected(run) as connection:
        return await connection.call(request, **fields)

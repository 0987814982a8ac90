"""Connections to the processes of runs, and what these say of the CPUs, memory and GPUs that their pods use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from pumice.client.backend import Usage
from pumice.client.local.liveness import check_changeable, not_responding, not_running, wake_owner
from pumice.engines.local.daemon.connections import PATIENCE, Connection, SilentPeerError, connection_to
from pumice.engines.local.daemon.runtime_files import control_socket
from pumice.store.files.run_store import StoredRun
from pumice.store.run_errors import RunError
from pumice.store.sample_file import Sample, read_samples

_POLL: Final = 0.1
# Seconds for what pods use: a process that does not respond must not hide the others.
_USAGE_PATIENCE: Final = 3.0


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


async def usage(run: StoredRun) -> Usage:
    """Return what the pods of a run use now; the last sample of each pod if it does not answer."""
    try:
        async with asyncio.timeout(_USAGE_PATIENCE):
            samples = msgspec.convert(await call(run, "usage"), list[Sample])
    except (RunError, OSError, TimeoutError):
        samples = newest_samples(read_samples(run.directory))
    return Usage(samples, run.is_owned)


def newest_samples(recorded: Iterable[Sample]) -> list[Sample]:
    """Return the last sample of each pod in which it had a process: a pod that was killed is not in the last round."""
    return list({each.pod: each for each in recorded if each.memory}.values())

"""The service of this machine, which queues, recovers and removes runs: asked, ended."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pumice.client.backend import StopRun, wait
from pumice.client.local.changes import make_change
from pumice.client.local.liveness import service_is_running
from pumice.client.local.run_reader import ref_of
from pumice.engines.local.daemon.connections import PATIENCE, RETIRE, AnswerLostError
from pumice.engines.local.scheduling.run_queue import active_runs
from pumice.engines.local.service.on_demand import running_service
from pumice.store.run_errors import WrongState

if TYPE_CHECKING:
    from pumice.client.local.local_backend import LocalBackend

_POLL: Final = 0.1


async def ask_running(backend: LocalBackend, request: str) -> Any:
    """Send a request to the service; None if it is not running, or ends before it answers."""
    with suppress(AnswerLostError):
        async with running_service(backend.store.state, backend.environ) as service:
            return None if service is None else await service.call(request)
    return None


async def stop_service(backend: LocalBackend) -> bool:
    """End the service; runs continue. False if it is not running."""
    state, deadline = backend.store.state, time.monotonic() + PATIENCE
    was_running = service_is_running(state)
    while service_is_running(state) and time.monotonic() < deadline:
        # It may be about to listen, or to end.
        await ask_running(backend, RETIRE)
        await asyncio.sleep(_POLL)
    return was_running


async def shut_down(backend: LocalBackend) -> None:
    """Stop all runs at once, and the service."""
    runs = [run for run, _ in active_runs(backend.store)]
    for run in runs:
        with suppress(WrongState):
            await make_change(backend, run, StopRun(force=True))
    await wait(backend, [ref_of(run) for run in runs])
    await stop_service(backend)

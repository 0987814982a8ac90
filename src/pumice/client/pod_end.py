"""Waits for the end of a pod that is not replaced."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Final

from pumice.client.backend import Backend, RunRef
from pumice.diagnosis.outcome import Outcome
from pumice.model.slot import slots
from pumice.model.snapshot import FINISHED_PODS, PodPhase
from pumice.store.history.run_history import RunHistory

# A policy replaces a pod a moment after it has ended.
_SETTLED: Final = 3.0  # seconds
_POLL: Final = 0.5
REMOVED: Final = "Removed"


async def pod_end(backend: Backend, run: RunRef, pod: str) -> tuple[str, str]:
    """Return what has ended, the run or the pod, and how: an outcome, the phase of the pod, or REMOVED."""
    while not (status := await backend.status(run)).is_over:
        history = RunHistory((await backend.history(run)).record)
        since = None
        async with aclosing(backend.journal(run, follow=True)) as parts:
            async for entries in parts:
                for entry in entries:
                    history.add(entry)
                end = _end(history, pod)
                since = None if not end else since or time.monotonic()
                if since is not None and time.monotonic() - since >= _SETTLED and history.outcome is None:
                    return f"{run}/{pod}", end
        # Another process may continue it.
        await asyncio.sleep(_POLL)
    return str(run), status.outcome


def has_succeeded(end: str) -> bool:
    return end in (Outcome.SUCCEEDED, PodPhase.SUCCEEDED)


def _end(history: RunHistory, name: str) -> str:
    if name not in (each.short_name for each in slots(history.job)):
        return REMOVED
    pod = history.pods.get(name)
    if pod is None or not pod.is_finished:
        return ""
    return str(pod.phase) if pod.phase in FINISHED_PODS else REMOVED

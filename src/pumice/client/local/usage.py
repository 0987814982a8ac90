"""What the pods of runs use of CPUs, memory and GPUs: now, and since they started."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from pumice.client.backend import Usage
from pumice.client.local.connections import call
from pumice.store.files.run_store import StoredRun
from pumice.store.run_errors import RunError
from pumice.store.sample_file import Sample, read_samples

# Seconds for an answer: a process that does not respond must not hide the others.
_PATIENCE: Final = 3.0


async def usage(run: StoredRun) -> Usage:
    """Return what the pods of a run use now; the last sample of each pod if it does not answer."""
    try:
        async with asyncio.timeout(_PATIENCE):
            samples = msgspec.convert(await call(run, "usage"), list[Sample])
    except (RunError, OSError, TimeoutError):
        samples = newest_samples(read_samples(run.directory))
    return Usage(samples, run.is_owned)


def newest_samples(recorded: Iterable[Sample]) -> list[Sample]:
    """Return the last sample of each pod in which it had a process: a pod that was killed is not in the last round."""
    return list({each.pod: each for each in recorded if each.memory}.values())

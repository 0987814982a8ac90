"""What the pods of runs use of CPUs, memory and GPUs: now, and since they started."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from pumice.client.local_client import LocalClient
from pumice.engines.local.run_errors import RunError
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.samples.sample_file import Sample, read_samples

__all__ = ["Sample", "usage"]

# Seconds for an answer: a process that does not respond must not hide the others.
_PATIENCE: Final = 3.0


async def usage(client: LocalClient, runs: Sequence[StoredRun]) -> dict[str, list[Sample]]:
    """Return what the pods of each run use now, by the name of the run; the newest record if it does not answer."""
    found = await asyncio.gather(*(_usage(client, run) for run in runs))
    return {run.ref: each for run, each in zip(runs, found, strict=True)}


async def _usage(client: LocalClient, run: StoredRun) -> list[Sample]:
    try:
        async with asyncio.timeout(_PATIENCE), client.connected(run) as connection:
            return msgspec.convert(await connection.call("usage"), list[Sample])
    except (RunError, OSError, TimeoutError):
        recorded = read_samples(run.directory)
        return [each for each in recorded if each.t == recorded[-1].t]

"""No gang: pods are made at once, and each is scheduled by itself."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.engines.kubernetes.cache.decode_pods import CachedPod
from pumice.engines.kubernetes.gangs.base import DEFAULT_SCHEDULER, with_scheduler
from pumice.model.job import Job, Manifest


@dataclass(frozen=True, slots=True)
class NoGang:
    name: str = "none"
    waits_for_group: bool = False

    def observed(self, _job: Job) -> None:
        return None

    async def ensure(self, _job: Job, _group: Manifest) -> None:
        """There is nothing to keep."""

    async def remove(self, _job: Job) -> None:
        """There is nothing to remove."""

    def shape_pod(self, _job: Job, manifest: Manifest) -> Manifest:
        return with_scheduler(manifest, DEFAULT_SCHEDULER)

    def check_pod(self, _wanted: Manifest, _made: CachedPod) -> None:
        """Nothing was asked for that could be dropped."""

"""Records Kubernetes Events of Jobs, best effort: they wait in a bounded queue and never delay a job."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.controller.logging import LogThrottle
from pumice.model.job import Job
from pumice.model.units import to_seconds
from pumice.model.vocabulary import GROUP_VERSION, KIND
from pumice.reconcile.decision import JobEvent

COMPONENT: Final = "pumice-controller"
# Limits of the API server.
MAX_MESSAGE: Final = 1024
MAX_REASON: Final = 128
MAX_QUEUED: Final = 5000
# The name of an event may have 253 characters, of which the unique suffix takes 17.
_MAX_PREFIX: Final = 253 - 17
_ATTEMPTS: Final = 4

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class EventRecorder:
    client: Client
    now: Callable[[], dt.datetime]
    dropped: int = 0
    _throttle: LogThrottle = field(default_factory=lambda: LogThrottle(dt.timedelta(seconds=60)))
    _queue: asyncio.Queue[tuple[str, bytes]] = field(default_factory=lambda: asyncio.Queue(MAX_QUEUED))

    def record(self, job: Job, events: Sequence[JobEvent]) -> None:
        for event in events:
            try:
                self._queue.put_nowait((job.namespace, msgspec.json.encode(event_of(job, event, self.now()))))
            except asyncio.QueueFull:
                self.dropped += 1

    async def run(self) -> None:
        """Send events until cancelled."""
        while True:
            namespace, body = await self._queue.get()
            try:
                await self.client.create(resources.CORE_EVENTS, namespace, body=body, attempts=_ATTEMPTS)
            except ApiError as error:
                self.dropped += 1
                # A namespace that is being deleted refuses events as a matter of course.
                if "NamespaceTerminating" not in error.causes and self._throttle.allows(self.now()):
                    _log.warning("could not record an event in namespace %s: %s", namespace, error)
            finally:
                self._queue.task_done()

    async def flush(self, seconds: float) -> None:
        """Wait at shutdown until the queued events are sent, at most so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._queue.join()
        except TimeoutError:
            self.dropped += self._queue.qsize()


def event_of(job: Job, event: JobEvent, now: dt.datetime) -> dict[str, Any]:
    timestamp = to_seconds(now)
    # Volcano's command line finds the events of a job by the prefix of their names.
    prefix = job.name[:_MAX_PREFIX].rstrip("-.")
    message = event.message if len(event.message) <= MAX_MESSAGE else event.message[: MAX_MESSAGE - 3] + "..."
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{prefix}.{secrets.token_hex(8)}", "namespace": job.namespace},
        "involvedObject": {
            "apiVersion": GROUP_VERSION,
            "kind": KIND,
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.uid,
            "resourceVersion": job.metadata.resource_version,
        },
        "reason": event.reason[:MAX_REASON],
        "message": message,
        "type": str(event.severity),
        "firstTimestamp": timestamp,
        "lastTimestamp": timestamp,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
    }

"""Events of a Job in Kubernetes' own form, told best effort: they wait in a bounded line and never hold up a job."""

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
from pumice.model.job import Job
from pumice.model.timestamps import to_seconds
from pumice.model.vocabulary import GROUP_VERSION, KIND
from pumice.reconcile.decision import JobEvent

COMPONENT: Final = "pumice-controller"
# Longer ones are refused.
LONGEST_MESSAGE: Final = 1024
LONGEST_REASON: Final = 128
LONGEST_LINE: Final = 5000
# Of an event's name, which may have 253 characters, what the end that makes it unique leaves.
_LONGEST_STEM: Final = 253 - 17
_LINKS: Final = "-."  # with which no part of a name may end
_ATTEMPTS: Final = 4
_SILENCE: Final = dt.timedelta(seconds=60)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class EventRecorder:
    client: Client
    now: Callable[[], dt.datetime]
    dropped: int = 0
    _complained: dt.datetime | None = None
    _line: asyncio.Queue[tuple[str, bytes]] = field(default_factory=lambda: asyncio.Queue(LONGEST_LINE))

    def tell(self, job: Job, events: Sequence[JobEvent]) -> None:
        for event in events:
            try:
                self._line.put_nowait((job.namespace, msgspec.json.encode(event_of(job, event, self.now()))))
            except asyncio.QueueFull:
                self.dropped += 1

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            namespace, body = await self._line.get()
            try:
                await self.client.create(resources.CORE_EVENTS, namespace, body=body, attempts=_ATTEMPTS)
            except ApiError as error:
                self.dropped += 1
                self._complain(namespace, error)
            finally:
                self._line.task_done()

    def _complain(self, namespace: str, error: ApiError) -> None:
        """Now and then: what refuses one event may refuse all, and where a namespace ends, nobody will read them."""
        now = self.now()
        if "NamespaceTerminating" in error.causes or (self._complained and abs(now - self._complained) < _SILENCE):
            return
        self._complained = now
        _log.warning("an event of namespace %s could not be told: %s", namespace, error)

    async def drain(self, seconds: float) -> None:
        """Before the end: tell what is still in the line, but not for ever."""
        try:
            async with asyncio.timeout(seconds):
                await self._line.join()
        except TimeoutError:
            self.dropped += self._line.qsize()


def event_of(job: Job, event: JobEvent, now: dt.datetime) -> dict[str, Any]:
    moment = to_seconds(now)
    # Volcano's command line finds the events of a job by this beginning of their names.
    stem = job.name[:_LONGEST_STEM].rstrip(_LINKS)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{stem}.{secrets.token_hex(8)}", "namespace": job.namespace},
        "involvedObject": {
            "apiVersion": GROUP_VERSION,
            "kind": KIND,
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.uid,
            "resourceVersion": job.metadata.resource_version,
        },
        "reason": event.reason[:LONGEST_REASON],
        "message": _shortened(event.message),
        "type": str(event.severity),
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
    }


def _shortened(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 3] + "..."

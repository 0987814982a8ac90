"""Keeps the end of the log of the first failed pod of an attempt, in a Secret of the Job, before that pod is deleted.

Only with `--keep-log-tails`, because it needs the right to read logs. It must not hold up the life cycle: a deletion
waits for at most two seconds, whatever kubelets and API server do, and no failure here is one of the Job. A crash
before the deletion is harmless: the next process finds the entry in the Secret.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.diagnosis.failures import Failure, Failures
from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import Secret
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.controller.logging import LogThrottle
from pumice.engines.kubernetes.controller.owned_secrets import observed_secret
from pumice.model import naming
from pumice.model.job import Job
from pumice.model.objects import owned
from pumice.model.snapshot import JobKey
from pumice.store.logs.log_tails import MOST_LINES, LogTail, end_of, old_keys, read_tail, tail_data

# Seconds for all of it, and for the log.
_LIMIT: Final = 1.8
_LOG_LIMIT: Final = 1.2
# Jobs whose logs are read at once. After a log that did not come, it is one at a time, and no other waits for its turn,
# until one comes: the passes of many Jobs must not wait for nodes that are gone.
_AT_ONCE: Final = 16
_SLOW_FOR: Final = 30.0
# A log is asked for in so many lines, less if these are longer than the server sends.
_LINES: Final = (MOST_LINES, 10, 1)
_MOST_SENT: Final = 256 << 10

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class LogTailStorage:
    client: Client
    cache: ClusterCache
    now: Callable[[], dt.datetime]
    clock: Callable[[], float]  # monotonic
    _tried: dict[JobKey, tuple[str, int, int]] = field(default_factory=dict)  # uid, version and attempt
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _slow_until: float = 0.0
    _reading: int = 0
    _throttle: LogThrottle = field(default_factory=lambda: LogThrottle(dt.timedelta(seconds=10)))

    async def keep(self, job: Job, pod_name: str, pod_uid: str) -> None:
        """Keep the tail of this pod if it failed first in its attempt. Tried once for each attempt; never raises."""
        key = JobKey(job.namespace, job.name)
        first = self._first_failure(key, job, pod_name)
        if first is None or first.pod.uid != pod_uid:
            return
        # Where policies restart single pods, the others have an older number.
        attempt = max(first.attempt, job.status.retry_count)
        mark = (job.uid, first.pod.version, attempt)
        if self._tried.get(key) == mark:
            return
        self._tried[key] = mark
        if self._reading and self.clock() < self._slow_until:
            self._warn(key, f"the log of {pod_name} is not kept: other logs do not come")
            return
        self._reading += 1
        try:
            async with asyncio.timeout(_LIMIT), self._slots:
                await self._keep(job, first, attempt)
        except TimeoutError:
            self._slow_until = self.clock() + _SLOW_FOR
            self._warn(key, f"the log of {pod_name} is not kept: it took longer than {_LIMIT:g} s")
        except ApiError as error:
            self._warn(key, f"the log of {pod_name} is not kept: {_plain(error)}")
        finally:
            self._reading -= 1

    def forget(self, job: JobKey) -> None:
        self._tried.pop(job, None)

    def _first_failure(self, key: JobKey, job: Job, pod_name: str) -> Failure | None:
        """Return the first failure of the attempt that this pod belongs to."""
        pods = self.cache.pods_of.get(key, {})
        known = pods.get(pod_name)
        if known is None or known.job_uid != job.uid:
            return None
        failures = Failures()
        for pod in pods.values():
            if pod.job_uid == job.uid and pod.observed.version == known.observed.version:
                failures.record(pod.observed)
        return next(iter(failures.in_order()), None)

    async def _keep(self, job: Job, first: Failure, attempt: int) -> None:
        name, secret = naming.log_tails_secret(job.name), None
        if (raw := await observed_secret(self.client, job.namespace, name)) is not None:
            secret = msgspec.json.decode(raw, type=Secret)
            if not secret.metadata.is_owned_by(job.uid):
                self._warn(JobKey(job.namespace, job.name), f"Secret {name} exists and does not belong to this job")
                return
            kept = read_tail(secret.data or {}, attempt)
            if kept is not None and kept.pod.version == first.pod.version:
                # By a process that was killed before the deletion.
                return
        text, problem = await self._tail(job, first)
        entries = tail_data(LogTail(attempt, first.pod, first.end.container, problem, text))
        if secret is None:
            body = owned(job, "v1", "Secret", name, {"type": "Opaque", "data": entries})
            await self.client.create(resources.SECRETS, job.namespace, body=msgspec.json.encode(body))
            return
        data: dict[str, str | None] = dict.fromkeys(old_keys(secret.data or {}, attempt))
        patch = {"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": {**data, **entries}}
        await self.client.merge_patch(resources.SECRETS, job.namespace, name, body=msgspec.json.encode(patch))

    async def _tail(self, job: Job, first: Failure) -> tuple[bytes, str]:
        """Return the end of the log, or why there is none."""
        try:
            async with asyncio.timeout(_LOG_LIMIT):
                for lines in _LINES:
                    text = await self._read(job, first, lines)
                    if len(text) < _MOST_SENT:
                        break
                self._slow_until = 0.0
                return end_of(text), ""
        except TimeoutError:
            self._slow_until = self.clock() + _SLOW_FOR
            problem = f"its node did not send the log within {_LOG_LIMIT:g} s"
        except ApiError as error:
            problem = _plain(error)
        self._warn(JobKey(job.namespace, job.name), f"the log of {first.pod.name} is not kept: {problem}")
        return b"", problem

    async def _read(self, job: Job, first: Failure, lines: int) -> bytes:
        params = {"container": first.end.container, "timestamps": "true"}
        params |= {"tailLines": str(lines), "limitBytes": str(_MOST_SENT)}
        pieces: list[bytes] = []
        size = 0
        stream = self.client.stream(resources.PODS.path(job.namespace, first.pod.name, "log"), params)
        async with aclosing(stream):
            async for piece in stream:
                pieces.append(piece)
                size += len(piece)
                if size >= _MOST_SENT:
                    break
        return b"".join(pieces)

    def _warn(self, key: JobKey, text: str) -> None:
        if self._throttle.allows(self.now()):
            _log.warning("job %s: %s", key, text, extra={"job": key})


def _plain(error: ApiError) -> str:
    """Return the reason without what the server quotes of the object, which may be a part of the log."""
    return f"the API server refused it as {error.reason or error.status}" if error.is_invalid else str(error)

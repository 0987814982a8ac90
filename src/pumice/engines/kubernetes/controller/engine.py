"""The Engine port on a Kubernetes cluster.

Reads come from the cache. Writes go to the API server, and their responses into the cache at once, so that a pass sees
the writes of the pass before it even if the watch is late.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError, if_found
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.cache.decode_jobs import decode_job, reuse_spec
from pumice.engines.kubernetes.cache.decode_pods import CachedPod, decode_pod, owned_by
from pumice.engines.kubernetes.controller.event_recorder import EventRecorder
from pumice.engines.kubernetes.controller.failed_calls import ATTEMPTS, failed, failing, name_taken
from pumice.engines.kubernetes.controller.log_tail_storage import LogTailStorage
from pumice.engines.kubernetes.controller.logging import LogThrottle
from pumice.engines.kubernetes.controller.monitoring import Metrics
from pumice.engines.kubernetes.controller.owned_objects import OwnedObjectManager
from pumice.engines.kubernetes.gangs.pod_groups import PodGroupManager, check_membership
from pumice.model import keys
from pumice.model.job import Job, JobStatus, Manifest
from pumice.model.objects import OwnedObject, claim_names
from pumice.model.snapshot import JobKey, Snapshot
from pumice.model.units import parse_time
from pumice.model.vocabulary import GangProvider
from pumice.plugins.shaping import manifest_of
from pumice.reconcile.decision import (
    CreatePod,
    DeleteJob,
    DeletePod,
    EngineCommand,
    Ensure,
    JobEvent,
    Remove,
    RemoveCommand,
)
from pumice.runtime.ports import ConflictError, EngineError

POD_GROUP: Final = "PodGroup"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class KubernetesEngine:
    client: Client
    cache: ClusterCache
    owned_objects: OwnedObjectManager
    gang: GangProvider
    pod_groups: PodGroupManager | None  # None: the gang provider has none
    recorder: EventRecorder
    metrics: Metrics
    now: Callable[[], dt.datetime]
    log_tails: LogTailStorage | None = None  # None: logs go with their pods
    _throttle: LogThrottle = field(default_factory=lambda: LogThrottle(dt.timedelta(seconds=10)))

    async def observe(self, key: JobKey) -> Snapshot | None:
        self.metrics.passes += 1
        cached = self.cache.jobs.get(key.namespace, key.name)
        if cached is None:
            self.owned_objects.forget(key)
            if self.log_tails is not None:
                self.log_tails.forget(key)
            return None
        job = cached.job
        try:
            owned_objects = await self.owned_objects.observe(job)
        except EngineError as error:
            self._log_failure(key, error)
            raise
        # Only now: pods may have changed while the owned objects were read.
        pods = self.cache.pods_of.get(key, {}).values()
        claims = [name for name in claim_names(job) if self.cache.claims.get(key.namespace, name) is not None]
        return Snapshot(
            job=job,
            pods=tuple(pod.observed for pod in pods if pod.job_uid == job.uid),
            group=self.pod_groups.observed(job) if self.pod_groups is not None else None,
            owned_objects=owned_objects,
            claims=frozenset(claims),
            commands=tuple(one.command for one in self.cache.commands_of.get(key, {}).values()),
            errors=cached.errors,
            priorities=self.cache.priorities,
            gang=self.gang,
            records_min_available=True,
        )

    async def write_status(self, snapshot: Snapshot, status: JobStatus) -> None:
        job = snapshot.job
        body = status_patch(job.metadata.resource_version, job.status, status)
        cached = self.cache.jobs.get(job.namespace, job.name)
        size = cached.size if cached is not None else 0
        try:
            raw = await self.client.merge_patch(
                resources.JOBS, job.namespace, job.name, body=body, subresource="status", attempts=ATTEMPTS, size=size
            )
        except ApiError as error:
            if error.is_conflict or error.not_found:
                raise ConflictError from error
            failure = EngineError("FailedUpdate", f"could not write the status: {error}")
            self._log_failure(JobKey(job.namespace, job.name), failure)
            raise failure from error
        self.metrics.count_transition(job.spec.queue, job.status.state.phase, status.state.phase)
        written = decode_job(raw, self.cache.kubernetes)
        self.cache.jobs.put(reuse_spec(written, self.cache.jobs.get(job.namespace, job.name)))

    async def apply(self, key: JobKey, command: EngineCommand) -> None:
        cached = self.cache.jobs.get(key.namespace, key.name)
        if cached is None:
            # The job is gone; its objects would be garbage-collected.
            return
        job = cached.job
        match command:
            case CreatePod(manifest) if not owned_by(manifest, job.uid):
                return  # The job was recreated under the same name since this was decided.
            case Ensure(owned) if not owned_by(manifest_of(owned), job.uid):
                return  # As above.
            case CreatePod(manifest):
                await self._create_pod(job, manifest)
            case DeletePod():
                await self._delete_pod(key, job, command)
            case Ensure(owned):
                await self._ensure(job, owned)
            case Remove(kind, name):
                await self._remove(job, kind, name)
            case RemoveCommand(name, uid):
                await self._remove_command(key, name, uid)
            case DeleteJob(uid):
                with failing("delete", resources.JOBS, key.name), if_found():
                    await self.client.delete(
                        resources.JOBS, key.namespace, key.name, uid=uid, propagation="Foreground", attempts=ATTEMPTS
                    )

    async def emit(self, snapshot: Snapshot, events: Sequence[JobEvent]) -> None:
        self.recorder.record(snapshot.job, events)

    def _log_failure(self, key: JobKey, error: EngineError) -> None:
        """Log a failure that the status cannot show. Many jobs may have the same one, so only some are logged."""
        if self._throttle.allows(self.now()):
            _log.warning("job %s: %s; retrying", key, error, extra={"job": key})

    async def _create_pod(self, job: Job, manifest: Manifest) -> None:
        name = manifest["metadata"]["name"]
        try:
            # The whole pod is returned: its metadata alone would cost the server an additional conversion.
            body = msgspec.json.encode(manifest)
            raw = await self.client.create(resources.PODS, job.namespace, body=body, attempts=ATTEMPTS)
        except ApiError as error:
            if not error.already_exists:
                raise failed("create", resources.PODS, name, error) from error
            # A create whose response was lost, or a pod of an earlier job of this name.
            raw = await self._existing_pod(job, name)
        pod = decode_pod(raw)
        if pod is None or pod.job_uid != job.uid:
            raise name_taken(resources.PODS.kind, name)
        # Measure how long the job waited for its first pod.
        is_first = pod.observed.index == 0 and pod.observed.task == job.spec.tasks[0].name and not job.status.version
        if is_first and job.metadata.creation_timestamp is not None:
            waited = self.now() - parse_time(job.metadata.creation_timestamp)
            self.metrics.pod_latency.observe(max(0.0, waited.total_seconds() * 1000))
        self.cache.pods.put(pod)
        check_membership(manifest, pod)

    async def _existing_pod(self, job: Job, name: str) -> bytes:
        with failing("create", resources.PODS, name):
            raw = await self.client.get(resources.PODS, job.namespace, name, attempts=ATTEMPTS)
        pod = msgspec.json.decode(raw)
        if keys.JOB_NAME not in (pod["metadata"].get("labels") or {}) and owned_by(pod, job.uid):
            message = f"Pod {name} has lost its label {keys.JOB_NAME} and is not watched without it; restore it"
            raise EngineError("FailedCreate", message)
        return raw

    async def _delete_pod(self, key: JobKey, job: Job, command: DeletePod) -> None:
        name, uid = command.name, command.uid
        known = self.cache.pods_of.get(key, {}).get(name)
        version = known.resource_version if command.unless_finished and known is not None else None
        if command.unless_finished and known is not None and known.observed.is_finished:
            return
        if self.log_tails is not None:
            await self.log_tails.keep(job, name, uid)
        pod: CachedPod | None = None
        try:
            with if_found():
                raw = await self.client.delete(
                    resources.PODS, key.namespace, name, uid=uid, resource_version=version, attempts=ATTEMPTS
                )
                pod = decode_pod(raw)
        except ApiError as error:
            # A conflict does not mean that this pod is gone; the watch shows whether another one has its name.
            if not error.is_conflict or version is None:
                raise failed("delete", resources.PODS, name, error) from error
            # The pod has changed since it was seen, and may have finished: read it and decide again.
            with failing("delete", resources.PODS, name), if_found():
                pod = decode_pod(await self.client.get(resources.PODS, key.namespace, name, attempts=ATTEMPTS))
            self.cache.enqueue(key)
        if pod is not None and not pod.is_gone:
            self.cache.pods.put(pod)
            return
        known = self.cache.pods_of.get(key, {}).get(name)
        if known is not None and known.uid == uid:
            self.cache.pods.remove(known)

    async def _ensure(self, job: Job, owned: OwnedObject) -> None:
        manifest = manifest_of(owned)
        if manifest["kind"] != POD_GROUP:
            await self.owned_objects.ensure(job, owned)
        elif self.pod_groups is not None:
            await self.pod_groups.ensure(job, manifest)

    async def _remove(self, job: Job, kind: str, name: str) -> None:
        if kind != POD_GROUP:
            await self.owned_objects.remove(job, kind, name)
        elif self.pod_groups is not None:
            await self.pod_groups.remove(job, name)

    async def _remove_command(self, key: JobKey, name: str, uid: str) -> None:
        with failing("delete", resources.COMMANDS, name), if_found():
            await self.client.delete(resources.COMMANDS, key.namespace, name, uid=uid, attempts=ATTEMPTS)
        known = self.cache.commands_of.get(key, {}).get(name)
        if known is not None and known.uid == uid:
            self.cache.commands.remove(known)


def status_patch(resource_version: str, before: JobStatus, after: JobStatus) -> bytes:
    """Return a merge patch in which removed fields are null; any other resource version is a conflict."""
    changes = _difference(msgspec.to_builtins(before), msgspec.to_builtins(after))
    return msgspec.json.encode({"metadata": {"resourceVersion": resource_version}, "status": changes})


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = _difference(old, value)
            if inner:
                changes[key] = inner
        elif value != old:
            changes[key] = value
    return changes

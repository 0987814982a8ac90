"""Creates, repairs and removes the Services, ConfigMaps, NetworkPolicies, Secrets and claims of a job.

Only their metadata is watched. The content of a job's own objects is read once after each change that the controller
did not make itself. An object of the right name with another owner is never modified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.cache.cluster_cache import ALL_NAMESPACES, OWNED_KINDS, ClusterCache
from pumice.engines.kubernetes.cache.decode_pods import CachedObject, decode_object, owned_by
from pumice.engines.kubernetes.controller.owned_secrets import SecretManager
from pumice.model import naming
from pumice.model.job import Job, Manifest
from pumice.model.objects import Once, OwnedObject
from pumice.model.snapshot import JobKey
from pumice.plugins.owned_objects import manifest_of
from pumice.reconcile.phases import FINAL
from pumice.runtime.key_pairs import make_key_pair
from pumice.runtime.ports import EngineError

ATTEMPTS: Final = 4
_BY_KIND: Final = {resource.kind: resource for resource in (*OWNED_KINDS, resources.SECRETS, resources.CLAIMS)}
# The parts of an object that the controller decides on; the server fills in the rest.
_PARTS: Final = ("spec", "data", "stringData")

_ObjectKey = tuple[str, str]  # kind and name


@dataclass(slots=True)
class OwnedObjectManager:
    client: Client
    cache: ClusterCache
    secrets: SecretManager
    # The content of the objects of each job, with the resource version that was read.
    _contents: dict[JobKey, dict[_ObjectKey, tuple[str, Manifest]]] = field(default_factory=dict)

    async def observe(self, job: Job) -> Mapping[_ObjectKey, Manifest]:
        """Return the existing objects of a job; without their content if the job is finished."""
        job_key = JobKey(job.namespace, job.name)
        finished = job.status.state.phase in FINAL
        known = self._contents.get(job_key, {})
        found: dict[_ObjectKey, Manifest] = {}
        for key, cached in list(self.cache.owned_objects_of.get(job_key, {}).items()):
            if cached.job_uid != job.uid:
                continue
            version, content = known.get(key, ("", {}))
            if version != cached.resource_version and not finished:
                read = await self._read(job_key, key, cached)
                if read is None:
                    continue
                content = read
            found[key] = content
        # A new job has no Secret yet; if there is one of its name, creating it fails.
        if "ssh" in job.spec.plugins and job.status.state.phase:
            name = naming.ssh_secret(job.name)
            secret = await self._observe_secret(job, name, watch=not finished)
            if secret is not None:
                found[("Secret", name)] = secret
        return found

    def forget(self, job: JobKey) -> None:
        self._contents.pop(job, None)
        self.secrets.forget(job)

    def clear(self, namespace: str = ALL_NAMESPACES) -> None:
        """Forget all contents of a namespace: another controller may have changed the objects."""
        for job in list(self._contents):
            if namespace in (ALL_NAMESPACES, job.namespace):
                del self._contents[job]
        self.secrets.clear(namespace)

    async def ensure(self, job: Job, owned: OwnedObject) -> None:
        """Create the object, or repair it."""
        if isinstance(owned, Once):
            await self._ensure_secret(job, owned)
            return
        manifest = manifest_of(owned)
        resource, name = _BY_KIND[manifest["kind"]], manifest["metadata"]["name"]
        try:
            body = msgspec.json.encode(manifest)
            raw = await self.client.create(resource, job.namespace, body=body, attempts=ATTEMPTS)
        except ApiError as error:
            if not error.already_exists:
                raise failed("create", resource, name, error) from error
            raw = await self._repair(job, resource, manifest)
        cached = decode_object(raw)
        if resource is resources.CLAIMS:
            self.cache.claims.put(cached)
            return
        # The written content need not be read again.
        content = (cached.resource_version, _content(msgspec.json.decode(raw)))
        self._contents.setdefault(JobKey(job.namespace, job.name), {})[(resource.kind, cached.name)] = content
        self.cache.owned_objects[resource.kind].put(cached)

    async def remove(self, job: Job, kind: str, name: str) -> None:
        key = JobKey(job.namespace, job.name)
        if kind == "Secret":
            uid = self.secrets.uid_of(job.namespace, name)
            if uid is None:
                # A Secret of this name may be foreign. The next pass observes it first.
                self.secrets.forget(key)
                raise EngineError("FailedDelete", f"could not delete Secret {name}: its uid is not known yet")
            await self._delete(resources.SECRETS, job, name, uid)
            self.secrets.put(key, job.uid, name, "")
            return
        cached = self.cache.owned_objects_of.get(key, {}).get((kind, name))
        if cached is None or cached.job_uid != job.uid:
            return
        await self._delete(_BY_KIND[kind], job, name, cached.uid)
        self.cache.owned_objects[kind].remove(cached)
        self._contents.get(key, {}).pop((kind, name), None)

    async def _read(self, job: JobKey, key: _ObjectKey, cached: CachedObject) -> Manifest | None:
        resource = _BY_KIND[key[0]]
        try:
            raw = await self.client.get(resource, cached.namespace, cached.name, attempts=ATTEMPTS)
        except ApiError as error:
            if error.not_found:
                return None
            raise failed("get", resource, cached.name, error) from error
        content = _content(msgspec.json.decode(raw))
        self._contents.setdefault(job, {})[key] = (decode_object(raw).resource_version, content)
        return content

    async def _repair(self, job: Job, resource: Resource, wanted: Manifest) -> bytes:
        """Replace the controller's parts of an existing object."""
        name = wanted["metadata"]["name"]
        try:
            existing = msgspec.json.decode(await self.client.get(resource, job.namespace, name, attempts=ATTEMPTS))
            if resource is not resources.CLAIMS and not owned_by(existing, job.uid):
                raise name_taken(resource.kind, name)
            if resource is resources.CLAIMS or existing["metadata"].get("deletionTimestamp"):
                return msgspec.json.encode(existing)
            merged = dict(existing)
            if "spec" in wanted:
                merged["spec"] = {**existing.get("spec", {}), **wanted["spec"]}
            if "data" in wanted:
                merged["data"] = wanted["data"]
            body = msgspec.json.encode(merged)
            return await self.client.replace(resource, job.namespace, name, body=body, attempts=ATTEMPTS)
        except ApiError as error:
            if error.is_invalid:
                # The object was recreated with another value of an immutable field; delete it, so that the next pass
                # creates it again.
                await self._delete(resource, job, name, existing["metadata"]["uid"])
            raise failed("update", resource, name, error) from error

    async def _observe_secret(self, job: Job, name: str, *, watch: bool) -> Manifest | None:
        try:
            return await self.secrets.observe(JobKey(job.namespace, job.name), job.uid, name, watch=watch)
        except ApiError as error:
            raise failed("look at", resources.SECRETS, name, error) from error

    async def _ensure_secret(self, job: Job, owned: Once) -> None:
        """Create the Secret if it does not exist. A rewrite would make kubelet empty the mounts of running pods."""
        name, key = owned.manifest["metadata"]["name"], JobKey(job.namespace, job.name)
        self._check_secret_is_own(key, name)
        try:
            # Generating an RSA key takes a tenth of a second, which would delay other jobs.
            body = msgspec.json.encode(await asyncio.to_thread(owned.created_with, make_key_pair))
            raw = await self.client.create(resources.SECRETS, job.namespace, body=body, attempts=ATTEMPTS)
        except ApiError as error:
            self.secrets.forget(key)
            if error.already_exists and await self._observe_secret(job, name, watch=True) is not None:
                # A create whose response was lost.
                return
            self._check_secret_is_own(key, name)
            raise failed("create", resources.SECRETS, name, _without_content(error)) from error
        self.secrets.put(key, job.uid, name, decode_object(raw).uid)

    def _check_secret_is_own(self, job: JobKey, name: str) -> None:
        if self.secrets.is_foreign(job.namespace, name):
            # It may be removed at any time, and Secrets are not watched: check again in the next pass.
            self.secrets.forget(job)
            raise name_taken(resources.SECRETS.kind, name)

    async def _delete(self, resource: Resource, job: Job, name: str, uid: str | None) -> None:
        try:
            await self.client.delete(resource, job.namespace, name, uid=uid, attempts=ATTEMPTS)
        except ApiError as error:
            if resource is resources.SECRETS:
                self.secrets.forget(JobKey(job.namespace, job.name))
            if not error.not_found:
                raise failed("delete", resource, name, error) from error


def failed(verb: str, resource: Resource, name: str, error: ApiError) -> EngineError:
    """Return the error that the status of the job shows for a failed call."""
    reason = {"create": "FailedCreate", "delete": "FailedDelete"}.get(verb, "FailedUpdate")
    return EngineError(reason, f"could not {verb} {resource.kind} {name}: {error}")


def name_taken(kind: str, name: str) -> EngineError:
    message = f"{kind} {name} exists and does not belong to this job; remove it, or give the job another name"
    return EngineError("NameTaken", message)


def _without_content(error: ApiError) -> ApiError:
    """Drop the message of a validation error: it may quote the Secret, and events and logs are public."""
    if error.is_invalid or error.status == HTTPStatus.BAD_REQUEST:
        return ApiError(error.status, error.reason, f"the API server refused it as {error.reason or error.status}")
    return error


def _content(document: dict[str, Any]) -> Manifest:
    return {"kind": document.get("kind", ""), **{part: document[part] for part in _PARTS if part in document}}

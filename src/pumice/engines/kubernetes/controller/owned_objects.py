"""Creates, repairs and removes the Services, ConfigMaps, NetworkPolicies, Secrets and claims of a job.

Only their metadata is watched. The content of a job's own objects is read once after each change that the controller
did not make itself. An object of the right name with another owner is never modified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError, if_found
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.cache.cluster_cache import ALL_NAMESPACES, OWNED_KINDS, ClusterCache
from pumice.engines.kubernetes.cache.decode_pods import CachedObject, decode_object, owned_by
from pumice.engines.kubernetes.controller.failed_calls import ATTEMPTS, failed, failing, name_taken
from pumice.engines.kubernetes.controller.owned_secrets import SecretManager
from pumice.model import naming
from pumice.model.job import Job, Manifest
from pumice.model.objects import Once, OwnedObject
from pumice.model.snapshot import JobKey
from pumice.plugins.shaping import manifest_of
from pumice.reconcile.phases import FINAL

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
            secret = await self.secrets.observe(job_key, job.uid, name, watch=not finished)
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
            await self.secrets.ensure(job, owned)
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
        if kind == "Secret":
            await self.secrets.remove(job, name)
            return
        key = JobKey(job.namespace, job.name)
        cached = self.cache.owned_objects_of.get(key, {}).get((kind, name))
        if cached is None or cached.job_uid != job.uid:
            return
        await self._delete(_BY_KIND[kind], job, name, cached.uid)
        self.cache.owned_objects[kind].remove(cached)
        self._contents.get(key, {}).pop((kind, name), None)

    async def _read(self, job: JobKey, key: _ObjectKey, cached: CachedObject) -> Manifest | None:
        resource = _BY_KIND[key[0]]
        content = None
        with failing("get", resource, cached.name), if_found():
            raw = await self.client.get(resource, cached.namespace, cached.name, attempts=ATTEMPTS)
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

    async def _delete(self, resource: Resource, job: Job, name: str, uid: str) -> None:
        with failing("delete", resource, name), if_found():
            await self.client.delete(resource, job.namespace, name, uid=uid, attempts=ATTEMPTS)


def _content(document: dict[str, Any]) -> Manifest:
    return {"kind": document.get("kind", ""), **{part: document[part] for part in _PARTS if part in document}}

"""Services, ConfigMaps, NetworkPolicies, Secrets and claims of a job: read when they changed, made, put right, removed.

Only their metadata is watched, of which little is kept; the content of those that belong to a job is read once after
each change that was not ours. An object of the right name that belongs to somebody else is never touched.
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
# What of an object is ours to say; the rest is the server's.
_PARTS: Final = ("spec", "data", "stringData")


@dataclass(slots=True)
class OwnedObjectManager:
    client: Client
    cache: ClusterCache
    secrets: SecretManager
    # Contents by job, kind and name, with the version that they were read at.
    _contents: dict[JobKey, dict[tuple[str, str], tuple[str, Manifest]]] = field(default_factory=dict)

    async def observed(self, job: Job) -> Mapping[tuple[str, str], Manifest]:
        """The companions of a job as they are; of a finished one it is enough to know that they are there."""
        key = JobKey(job.namespace, job.name)
        finished = job.status.state.phase in FINAL
        known = self._contents.get(key, {})
        found: dict[tuple[str, str], Manifest] = {}
        for place, seen in list(self.cache.owned_objects_of.get(key, {}).items()):
            if seen.job_uid != job.uid:
                continue
            version, content = known.get(place, ("", {}))
            if version != seen.resource_version and not finished:
                read = await self._read(key, place, seen)
                if read is None:
                    continue
                content = read
            found[place] = content
        if "ssh" in job.spec.plugins:
            name = naming.ssh_secret(job.name)
            secret = await self._secret(job, name, watched=not finished)
            if secret is not None:
                found[("Secret", name)] = secret
        return found

    def forget(self, key: JobKey) -> None:
        self._contents.pop(key, None)
        self.secrets.forget(key)

    def start_over(self, namespace: str = ALL_NAMESPACES) -> None:
        """Forget everything that is there: what is known was true before somebody else was at work."""
        for key in list(self._contents):
            if namespace in (ALL_NAMESPACES, key.namespace):
                del self._contents[key]
        self.secrets.start_over(namespace)

    async def ensure(self, job: Job, companion: OwnedObject) -> None:
        """Make the object, or put it right."""
        manifest = manifest_of(companion)
        resource, name = _BY_KIND[manifest["kind"]], manifest["metadata"]["name"]
        if isinstance(companion, Once):
            await self._ensure_secret(job, companion)
            return
        try:
            raw = await self.client.create(
                resource, job.namespace, body=msgspec.json.encode(manifest), attempts=ATTEMPTS
            )
        except ApiError as error:
            if not error.already_exists:
                raise failed("create", resource, name, error) from error
            raw = await self._put_right(job, resource, manifest)
        self._noted(job, resource, raw)

    async def remove(self, job: Job, kind: str, name: str) -> None:
        key = JobKey(job.namespace, job.name)
        if kind == "Secret":
            await self._delete(resources.SECRETS, job, name, self.secrets.own_uid(job.namespace, name))
            self.secrets.put(key, job.uid, name, None)
            return
        seen = self.cache.owned_objects_of.get(key, {}).get((kind, name))
        if seen is None or seen.job_uid != job.uid:
            return
        await self._delete(_BY_KIND[kind], job, name, seen.uid)
        self.cache.owned_objects[kind].remove(seen)
        self._contents.get(key, {}).pop((kind, name), None)

    async def _read(self, key: JobKey, place: tuple[str, str], seen: CachedObject) -> Manifest | None:
        try:
            raw = await self.client.get(_BY_KIND[place[0]], seen.namespace, seen.name, attempts=ATTEMPTS)
        except ApiError as error:
            if error.not_found:
                return None
            raise failed("get", _BY_KIND[place[0]], seen.name, error) from error
        content = _content(msgspec.json.decode(raw))
        self._contents.setdefault(key, {})[place] = (decode_object(raw).resource_version, content)
        return content

    async def _put_right(self, job: Job, resource: Resource, wanted: Manifest) -> bytes:
        """Replace what is ours to say in an object that exists."""
        name = wanted["metadata"]["name"]
        try:
            there = msgspec.json.decode(await self.client.get(resource, job.namespace, name, attempts=ATTEMPTS))
            if resource is not resources.CLAIMS and not owned_by(there, job.uid):
                raise name_taken(resource.kind, name)
            if resource is resources.CLAIMS or there["metadata"].get("deletionTimestamp"):
                return msgspec.json.encode(there)
            body = msgspec.json.encode(_merged(there, wanted))
            return await self.client.replace(resource, job.namespace, name, body=body, attempts=ATTEMPTS)
        except ApiError as error:
            if error.is_invalid:
                # A field that cannot be changed was changed by making the object anew; so that is how it goes back.
                await self._delete(resource, job, name, there["metadata"]["uid"])
            raise failed("update", resource, name, error) from error

    async def _secret(self, job: Job, name: str, *, watched: bool) -> Manifest | None:
        try:
            return await self.secrets.look(JobKey(job.namespace, job.name), job.uid, name, watched=watched)
        except ApiError as error:
            raise failed("look at", resources.SECRETS, name, error) from error

    async def _ensure_secret(self, job: Job, companion: Once) -> None:
        manifest, name = companion.manifest, companion.manifest["metadata"]["name"]
        key = JobKey(job.namespace, job.name)
        there = await self._secret(job, name, watched=True)
        if self.secrets.is_foreign(job.namespace, name):
            # Somebody may remove it, and nobody tells us of Secrets.
            self.secrets.forget(key)
            raise name_taken(resources.SECRETS.kind, name)
        try:
            if there is not None:
                metadata = {"uid": self.secrets.own_uid(job.namespace, name)}
                body = msgspec.json.encode({"metadata": metadata, "stringData": manifest["stringData"]})
                raw = await self.client.merge_patch(
                    resources.SECRETS, job.namespace, name, body=body, attempts=ATTEMPTS
                )
            else:
                # Making an RSA key takes a tenth of a second, in which other jobs want to be served.
                made = await asyncio.to_thread(companion.created_with, make_key_pair)
                body = msgspec.json.encode(made)
                raw = await self.client.create(resources.SECRETS, job.namespace, body=body, attempts=ATTEMPTS)
        except ApiError as error:
            self.secrets.forget(key)
            raise failed("create", resources.SECRETS, name, _discreet(error)) from error
        self.secrets.put(key, job.uid, name, dict(manifest["stringData"]), decode_object(raw).uid)

    async def _delete(self, resource: Resource, job: Job, name: str, uid: str | None) -> None:
        try:
            await self.client.delete(resource, job.namespace, name, uid=uid, attempts=ATTEMPTS)
        except ApiError as error:
            if resource is resources.SECRETS:
                # Nobody tells us of Secrets, so that we must look again.
                self.secrets.forget(JobKey(job.namespace, job.name))
            if not error.not_found:
                raise failed("delete", resource, name, error) from error

    def _noted(self, job: Job, resource: Resource, raw: bytes) -> None:
        """What was written need not be read again."""
        seen = decode_object(raw)
        if resource is resources.CLAIMS:
            self.cache.claims.put(seen)
            return
        content = _content(msgspec.json.decode(raw))
        key = JobKey(job.namespace, job.name)
        self._contents.setdefault(key, {})[(resource.kind, seen.name)] = (seen.resource_version, content)
        self.cache.owned_objects[resource.kind].put(seen)


def failed(verb: str, resource: Resource, name: str, error: ApiError) -> EngineError:
    """What the job's status says of a call that did not work."""
    reason = {"create": "FailedCreate", "delete": "FailedDelete"}.get(verb, "FailedUpdate")
    return EngineError(reason, f"could not {verb} {resource.kind} {name}: {error}")


def name_taken(kind: str, name: str) -> EngineError:
    message = f"{kind} {name} exists and does not belong to this job; remove it, or give the job another name"
    return EngineError("NameTaken", message)


def _discreet(error: ApiError) -> ApiError:
    """A server that finds fault with what a Secret holds may quote it, and events and logs are no place for keys."""
    if error.is_invalid or error.status == HTTPStatus.BAD_REQUEST:
        return ApiError(error.status, error.reason, f"the API server refused it as {error.reason or error.status}")
    return error


def _content(document: dict[str, Any]) -> Manifest:
    return {"kind": document.get("kind", ""), **{part: document[part] for part in _PARTS if part in document}}


def _merged(there: dict[str, Any], wanted: Manifest) -> dict[str, Any]:
    merged = dict(there)
    if "spec" in wanted:
        merged["spec"] = {**there.get("spec", {}), **wanted["spec"]}
    if "data" in wanted:
        merged["data"] = wanted["data"]
    return merged

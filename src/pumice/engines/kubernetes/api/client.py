"""The API server, as far as Pumice needs it: requests that come back as bytes, errors that say what they mean.

Nothing is decoded here that the caller did not ask for. Writes share one limit, which adapts to what the server bears;
reads have one of their own, and what is urgent, such as the Lease that everything hangs on, waits behind nobody. A
write that failed in transit may have been carried out all the same: who repeats a create must expect `already_exists`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlencode

import msgspec

from pumice.engines.kubernetes.api.backoff import Backoff
from pumice.engines.kubernetes.api.concurrency_limit import Limit
from pumice.engines.kubernetes.api.discovery import discover
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.pages import Page, read_page
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.api.transport import JSON, Transport
from pumice.engines.kubernetes.api.watch import Watch, read_event, watch_lifetime
from pumice.engines.kubernetes.auth.access import Access

__all__ = ["Client", "Resource"]

MERGE_PATCH: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

# Each is a connection; a cluster in trouble must not see thousands of them. Watches are not counted.
PARALLEL_READS: Final = 64

Params = Mapping[str, str]


class Client:
    def __init__(
        self,
        access: Access,
        *,
        field_manager: str = "pumice",
        parallel_writes: int = 64,
        timeout: float = 30.0,
    ) -> None:
        self.access = access
        self.writes = Limit(parallel_writes)
        self.reads = Limit(PARALLEL_READS)
        self._transport = Transport(access, timeout=timeout)
        self._manager = {"fieldManager": field_manager}
        # The same for every plain write, so it is not put together for each.
        self._manager_query = urlencode(self._manager)
        self._new_backoff = Backoff

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def request(  # noqa: PLR0913 - what HTTP has, each with the value that nearly all calls take
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        attempts: int | None = 1,
        urgent: bool = False,
    ) -> bytes:
        """The body of the answer. With `attempts=None` it is tried until the server says yes, or no for good."""
        target = self._target(path, params)
        ask = self._transport.exchange if urgent else self._bounded
        backoff: Backoff | None = None
        tried = 0
        while True:
            try:
                return await ask(method, target, body, content_type, accept)
            except ApiError as error:
                tried += 1
                if not error.is_transient or (attempts is not None and tried >= attempts):
                    raise
                backoff = backoff or self._new_backoff()
                delay = backoff.after_failure(error.retry_after)
            await asyncio.sleep(delay)

    async def _bounded(self, method: str, target: str, body: bytes | None, content_type: str, accept: str) -> bytes:
        limit = self.reads if method == "GET" else self.writes
        epoch = await limit.enter()
        try:
            answer = await self._transport.exchange(method, target, body, content_type, accept)
        except ApiError as error:
            if error.is_throttled:
                limit.refused(epoch)
            raise
        finally:
            limit.leave()
        limit.succeeded()
        return answer

    async def get(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        subresource: str = "",
        attempts: int | None = 1,
        urgent: bool = False,
    ) -> bytes:
        return await self.request("GET", _one(resource, namespace, name, subresource), attempts=attempts, urgent=urgent)

    async def create(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None,
        body: bytes,
        *,
        name: str | None = None,
        subresource: str = "",
        dry_run: bool = False,
        attempts: int | None = 1,
        urgent: bool = False,
    ) -> bytes:
        """Name and subresource only where something is created of an object, as a Binding is of a Pod."""
        path = _one(resource, namespace, name, subresource) if name else _all(resource, namespace)
        params = self._params(dry_run=dry_run)
        return await self.request("POST", path, params=params, body=body, attempts=attempts, urgent=urgent)

    async def replace(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: bytes,
        *,
        subresource: str = "",
        attempts: int | None = 1,
        urgent: bool = False,
    ) -> bytes:
        path = _one(resource, namespace, name, subresource)
        return await self.request("PUT", path, params=self._params(), body=body, attempts=attempts, urgent=urgent)

    async def merge_patch(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: bytes,
        *,
        subresource: str = "",
        dry_run: bool = False,
        attempts: int | None = 1,
        urgent: bool = False,
    ) -> bytes:
        path = _one(resource, namespace, name, subresource)
        params = self._params(dry_run=dry_run)
        return await self.request(
            "PATCH", path, params=params, body=body, content_type=MERGE_PATCH, attempts=attempts, urgent=urgent
        )

    async def apply(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: bytes,
        *,
        subresource: str = "",
        force: bool = True,
        dry_run: bool = False,
        attempts: int | None = 1,
    ) -> bytes:
        """Server-side apply: of the fields in the body Pumice is the owner, the others stay as they are."""
        path = _one(resource, namespace, name, subresource)
        params = self._params(dry_run=dry_run, force=force)
        return await self.request("PATCH", path, params=params, body=body, content_type=APPLY, attempts=attempts)

    async def delete(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
        attempts: int | None = 1,
    ) -> bytes:
        """With a uid, only the object that was meant: never a newer one that has its name."""
        body = _delete_options(uid, resource_version, grace, propagation)
        return await self.request("DELETE", _one(resource, namespace, name), body=body, attempts=attempts)

    async def list_pages(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        limit: int = 500,
        attempts: int | None = 1,
    ) -> AsyncGenerator[tuple[list[msgspec.Raw], str], None]:
        """The items, undecoded, and the version of the list, which is the same on all pages."""
        path = resource.path(namespace)
        params = _selection(label_selector, field_selector) | {"limit": str(limit)}
        while True:
            answer = await self.request(
                "GET", path, params=params, accept=METADATA_LIST if metadata_only else JSON, attempts=attempts
            )
            page: Page = read_page(answer)
            yield page.items, page.version
            if not page.more:
                return
            params["continue"] = page.more

    async def watch(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        timeout_seconds: float | None = None,
    ) -> AsyncGenerator[tuple[str, msgspec.Raw], None]:
        """What changes after that version, with bookmarks, until the server ends it. Close it with `aclosing`."""
        lifetime = timeout_seconds or watch_lifetime()
        params = _selection(label_selector, field_selector) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(lifetime))),
        }
        accept = METADATA if metadata_only else JSON
        watch = Watch(self._transport, self._target(resource.path(namespace), params), accept)
        try:
            while lines := await watch.read():
                for line in lines:
                    event = read_event(line)
                    yield event.type, event.object
        finally:
            watch.close()

    async def discover(self) -> frozenset[str]:
        """What the server offers: `batch.volcano.sh/v1alpha1`, `batch.volcano.sh/v1alpha1/jobs`, `v1/pods/status`."""
        return await discover(self.request)

    def _params(self, *, dry_run: bool = False, force: bool = False) -> Params:
        if not dry_run and not force:
            return self._manager
        return self._manager | ({"dryRun": "All"} if dry_run else {}) | ({"force": "true"} if force else {})

    def _target(self, path: str, params: Params | None) -> str:
        if params is self._manager:
            return f"{path}?{self._manager_query}"
        return f"{path}?{urlencode(params)}" if params else path


def _one(resource: Resource, namespace: str | None, name: str, subresource: str = "") -> str:
    # Without a name the path is that of the whole collection, and a delete would empty it.
    if not name:
        raise ValueError(f"a {resource.kind} without a name")
    if resource.namespaced and not namespace:
        raise ValueError(f"the {resource.kind} {name!r} without a namespace")
    return resource.path(namespace, name, subresource)


def _all(resource: Resource, namespace: str | None) -> str:
    if resource.namespaced and not namespace:
        raise ValueError(f"a {resource.kind} without a namespace")
    return resource.path(namespace)


def _selection(labels: str, fields: str) -> dict[str, str]:
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in chosen.items() if value}


def _delete_options(
    uid: str | None, resource_version: str | None, grace: int | None, propagation: str | None
) -> bytes | None:
    preconditions = {
        name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value is not None
    }
    options: dict[str, object] = {}
    if preconditions:
        options["preconditions"] = preconditions
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if propagation is not None:
        options["propagationPolicy"] = propagation
    return msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **options}) if options else None

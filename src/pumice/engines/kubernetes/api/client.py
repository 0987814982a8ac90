"""The client of the API server: returns bytes, raises errors that say what they mean, retries what may pass.

Callers decode what they need. Writes share one adaptive concurrency limit and reads another, and large bodies one in
bytes; urgent requests, such as those for the Lease, bypass all three. A write that failed in transit may have been
carried out all the same: callers that repeat a create must expect `already_exists`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Final, Self, TypedDict, Unpack
from urllib.parse import urlencode

import msgspec

from pumice.engines.kubernetes.api.backoff import Backoff
from pumice.engines.kubernetes.api.concurrency_limit import ConcurrencyLimit
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.http1 import ProtocolError
from pumice.engines.kubernetes.api.raw_objects import read_event, read_page
from pumice.engines.kubernetes.api.resources import ACCESS_REVIEWS, Resource
from pumice.engines.kubernetes.api.transport import JSON, Transport
from pumice.engines.kubernetes.auth.access import Access

MERGE_PATCH: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_ANY: Final = "application/json, */*"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

# Each is a connection. Watches are not counted.
PARALLEL_READS: Final = 64
PAGE_SIZE: Final = 500
# Larger objects are written few at a time. A server takes a hundred milliseconds for a pod with thousands of variables,
# and for the status of such a Job; while it works on 64 of them, the calls of all other jobs wait.
LARGE_BODY: Final = 16 * 1024
LARGE_BODIES: Final = 256 * 1024  # bytes of large bodies under way
# Seconds after which a stream that sends nothing is taken for dead. A live server sends a watch a bookmark about every
# minute.
_MAX_SILENCE: Final = 150.0
# How long a watch lasts in seconds; random, so that watches do not all end at once.
_LIFETIME: Final = (300.0, 600.0)
_RANDOM: Final = random.Random()  # noqa: S311 - not a secret

Params = Mapping[str, str]


class _Call(TypedDict, total=False):
    """Options of every call; `request` has their defaults."""

    attempts: int | None
    urgent: bool
    size: int


class Client:
    def __init__(
        self, access: Access, *, field_manager: str = "pumice", parallel_writes: int = 64, timeout: float = 30.0
    ) -> None:
        self.access = access
        self.writes = ConcurrencyLimit(parallel_writes)
        self.reads = ConcurrencyLimit(PARALLEL_READS)
        self.large_bodies = ConcurrencyLimit(LARGE_BODIES)
        self._transport = Transport(access, timeout=timeout)
        self._manager = {"fieldManager": field_manager}
        # The query of every plain write, encoded once.
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

    async def request(  # noqa: PLR0913 - the parts of an HTTP request
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
        size: int = 0,
    ) -> bytes:
        """Return the body of the response. With `attempts=None`, transient errors are retried without end.

        An `urgent` call waits for no others. `size` is that of the object, if it is larger than the body.
        """
        target = self._target(path, params)
        send = self._transport.request if urgent else partial(self._limited_by_size, size=size)
        backoff: Backoff | None = None
        failures = 0
        while True:
            try:
                return await send(method, target, body, content_type, accept)
            except ApiError as error:
                failures += 1
                if not error.is_transient or (attempts is not None and failures >= attempts):
                    raise
                backoff = backoff or self._new_backoff()
                delay = backoff.after_failure(error.retry_after)
            await asyncio.sleep(delay)

    async def _limited_by_size(  # noqa: PLR0913 - see request
        self, method: str, target: str, body: bytes | None, content_type: str, accept: str, *, size: int
    ) -> bytes:
        size = max(size, len(body or b""))
        if size <= LARGE_BODY:
            return await self._limited(method, target, body, content_type, accept)
        await self.large_bodies.acquire(size)
        try:
            return await self._limited(method, target, body, content_type, accept)
        finally:
            self.large_bodies.release(size)

    async def _limited(self, method: str, target: str, body: bytes | None, content_type: str, accept: str) -> bytes:
        limit = self.reads if method == "GET" else self.writes
        epoch = await limit.acquire()
        try:
            response = await self._transport.request(method, target, body, content_type, accept)
        except ApiError as error:
            if error.is_throttled:
                limit.throttled(epoch)
            raise
        finally:
            limit.release()
        limit.succeeded()
        return response

    async def get(self, resource: Resource, namespace: str | None, name: str, **call: Unpack[_Call]) -> bytes:
        return await self.request("GET", _object_path(resource, namespace, name), **call)

    async def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: bytes,
        *,
        dry_run: bool = False,
        strict: bool = False,
        **call: Unpack[_Call],
    ) -> bytes:
        """`strict`: a field that the server does not know is an error, not a warning."""
        if resource.namespaced and not namespace:
            raise ValueError(f"a {resource.kind} without a namespace")
        params = self._manager | {"dryRun": "All"} if dry_run else self._manager
        params = params | {"fieldValidation": "Strict"} if strict else params
        return await self.request("POST", resource.path(namespace), params=params, body=body, **call)

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: bytes, **call: Unpack[_Call]
    ) -> bytes:
        return await self.request(
            "PUT", _object_path(resource, namespace, name), params=self._manager, body=body, **call
        )

    async def merge_patch(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: bytes,
        *,
        subresource: str = "",
        dry_run: bool = False,
        **call: Unpack[_Call],
    ) -> bytes:
        path = _object_path(resource, namespace, name, subresource)
        params = self._manager | {"dryRun": "All"} if dry_run else self._manager
        return await self.request("PATCH", path, params=params, body=body, content_type=MERGE_PATCH, **call)

    async def apply(
        self, resource: Resource, namespace: str | None, name: str, body: bytes, **call: Unpack[_Call]
    ) -> bytes:
        """Server-side apply: Pumice takes ownership of the fields in the body, the others stay."""
        path, params = _object_path(resource, namespace, name), self._manager | {"force": "true"}
        return await self.request("PATCH", path, params=params, body=body, content_type=APPLY, **call)

    async def delete(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        **call: Unpack[_Call],
    ) -> bytes:
        """Delete an object. With a uid, only that object and never a newer one of the same name."""
        conditions = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {field: value for field, value in conditions.items() if value is not None}
        options: dict[str, object] = {"preconditions": preconditions} if preconditions else {}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **options}) if options else None
        return await self.request("DELETE", _object_path(resource, namespace, name), body=body, **call)

    async def list_pages(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        attempts: int | None = 1,
    ) -> AsyncGenerator[tuple[list[msgspec.Raw], str], None]:
        """Yield the undecoded items and the resource version of the list, which is the same on all pages."""
        params = _selectors(label_selector, field_selector) | {"limit": str(PAGE_SIZE)}
        accept = METADATA_LIST if metadata_only else JSON
        while True:
            body = await self.request("GET", resource.path(namespace), params=params, accept=accept, attempts=attempts)
            page = read_page(body)
            yield page.items or [], page.metadata.resource_version
            if not page.metadata.continue_token:
                return
            params["continue"] = page.metadata.continue_token

    async def watch(  # noqa: PLR0913 - see request
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> AsyncGenerator[tuple[str, msgspec.Raw], None]:
        """Yield type and object of each change after that version until the watch ends. Close it with `aclosing`."""
        params = _selectors(label_selector, field_selector) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(round(_RANDOM.uniform(*_LIFETIME))),
        }
        # The pieces of a line whose end has not arrived, joined once when it has: there may be hundreds, of an object
        # of several megabytes. Text after the last line break was cut off, and is no event.
        begun: list[bytes] = []
        stream = self.stream(resource.path(namespace), params, METADATA if metadata_only else JSON)
        async with aclosing(stream):
            async for piece in stream:
                first, *others = piece.split(b"\n")
                begun.append(first)
                if others:
                    lines = [b"".join(begun), *others]
                    begun = [lines.pop()]
                    for line in filter(None, lines):
                        event = read_event(line)
                        yield event.type, event.object

    async def stream(self, path: str, params: Params, accept: str = _ANY) -> AsyncGenerator[bytes, None]:
        """Yield the pieces of a text, such as a log, as they arrive. Close it with `aclosing`.

        That closes the connection: HTTP/1.1 has no other way to cancel a response.
        """
        connection = await self._transport.open_stream(self._target(path, params), accept)
        try:
            while piece := await connection.read(_MAX_SILENCE):
                yield piece
        except (OSError, ProtocolError) as error:
            raise self._transport.unreachable(error) from error
        finally:
            connection.close()

    def _target(self, path: str, params: Params | None) -> str:
        if params is self._manager:
            return f"{path}?{self._manager_query}"
        return f"{path}?{urlencode(params)}" if params else path


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in selectors.items() if value}


def _object_path(resource: Resource, namespace: str | None, name: str, subresource: str = "") -> str:
    # Without a name the path is that of the whole collection, and a delete would empty it.
    if not name:
        raise ValueError(f"a {resource.kind} without a name")
    if resource.namespaced and not namespace:
        raise ValueError(f"the {resource.kind} {name!r} without a namespace")
    return resource.path(namespace, name, subresource)


class _ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


async def is_allowed(client: Client, attributes: Mapping[str, str], *, attempts: int = 3) -> bool:
    """`attributes`: namespace, verb, group, resource and others of a SelfSubjectAccessReview. Raises ApiError."""
    kind = ACCESS_REVIEWS
    review = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": {"resourceAttributes": attributes}}
    answer = await client.create(kind, None, msgspec.json.encode(review), attempts=attempts)
    return msgspec.json.decode(answer, type=_Review).status.allowed

"""The connection to the API server of one context: every error becomes one that says what to do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api.client import Client, is_allowed
from pumice.engines.kubernetes.api.errors import AccessError, ApiError
from pumice.engines.kubernetes.api.resources import NAMESPACES, SELF_REVIEWS, Resource
from pumice.engines.kubernetes.auth.access import NO_CLUSTER, Access, NoClusterError, find_access, in_cluster_access
from pumice.engines.kubernetes.auth.kubeconfig import Kubeconfig
from pumice.model.problem import FLAGS, Option
from pumice.model.suggestions import did_you_mean
from pumice.store.run_errors import ConnectionFailed, Denied, ForbiddenError, InvalidOption, NoSuchRun, RunError

IN_CLUSTER: Final = "in-cluster"
_NO_JOBS: Final = "the cluster has no Volcano Jobs: neither Pumice nor Volcano is installed there"
_INSTALL: Final = "an administrator types: pumice install --image IMAGE | kubectl apply -f -"
_ROLE: Final = "ask an administrator for a Role with get, list and watch of Jobs, pods, pods/log and events"
_EXPIRED: Final = "log in again, or check the user of the context in the kubeconfig"


@dataclass(slots=True)
class Connection:
    """`name` is the context. An event loop of its own gets connections of its own."""

    name: str
    access: Access
    namespace: str  # in which a Job is looked up; empty for all
    tell: Callable[[str], None] = lambda _text: None  # takes a line for the user
    kubeconfig: str = ""  # that the user named
    _is_lost: bool = False
    _client: Client | None = None
    _loop: Any = field(default=None, repr=False)

    @classmethod
    def open(cls, context: str, namespace: str = "", kubeconfig: str = "", *, everywhere: bool = False) -> Connection:
        """Read the kubeconfig; nothing is contacted. Raises InvalidOption."""
        try:
            access = in_cluster_access() if context == IN_CLUSTER else find_access(kubeconfig or None, context)
        except NoClusterError as error:
            raise InvalidOption(NO_CLUSTER, "set KUBECONFIG to a file") from error
        except AccessError as error:
            raise InvalidOption(str(error)) from error
        return cls(context, access, "" if everywhere else namespace or access.namespace, kubeconfig=kubeconfig)

    @property
    def client(self) -> Client:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = Client(self.access), loop
        return self._client

    def where(self, namespace: str) -> tuple[Option, ...]:
        """Return the options by which a command finds what is in a namespace."""
        is_default = namespace in ("", self.access.namespace)
        named = (Option("kubeconfig", self.kubeconfig),) if self.kubeconfig else ()
        return Option("on", self.name), *(() if is_default else (Option("namespace", namespace),)), *named

    def flags(self, namespace: str) -> str:
        return " ".join(FLAGS.option(each) for each in self.where(namespace))

    def lost(self, why: str) -> None:
        """Tell once that the connection is lost, however many watches notice it."""
        if not self._is_lost:
            self._is_lost = True
            self.tell(f"{self.name}: connection lost, reconnecting: {why}")

    def found(self) -> None:
        if self._is_lost:
            self._is_lost = False
            self.tell(f"{self.name}: connected again")

    async def close(self) -> None:
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.close()
            self._client = None

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes | None:
        """Return an object; None if it does not exist. Raises RunError."""
        try:
            return await self.client.get(resource, namespace or None, name, attempts=3)
        except ApiError as error:
            if error.not_found and error.reason == "NotFound":
                return None
            raise self.explained(error) from error

    async def all(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[msgspec.Raw]:
        """Return all objects of a kind. Raises RunError."""
        async with aclosing(self.each(resource, namespace, labels=labels, fields=fields)) as found:
            return [raw async for raw in found]

    async def each(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncGenerator[msgspec.Raw, None]:
        """Yield the objects of a kind, page by page. Raises RunError."""
        pages = self.client.list_pages(
            resource, namespace or None, label_selector=labels, field_selector=fields, attempts=3
        )
        with self.explaining():
            async with aclosing(pages):
                async for items, _ in pages:
                    for raw in items:
                        yield raw

    async def user_name(self) -> str:
        """Return what the API server calls this user; empty if it does not say. Raises RunError."""
        review = msgspec.json.encode({"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind})
        try:
            body = await self.client.create(SELF_REVIEWS, None, review, attempts=3)
        except ApiError as error:
            # Before Kubernetes 1.28 there is no such review, and an administrator may forbid it.
            if error.not_found or error.is_forbidden:
                return ""
            raise self.explained(error) from error
        status = msgspec.json.decode(body).get("status") or {}
        return str((status.get("userInfo") or {}).get("username") or "")

    async def may(
        self, verb: str, resource: Resource, namespace: str, subresource: str = "", *, attempts: int = 3
    ) -> bool:
        """Return whether this user has a right. Raises ApiError."""
        about = {"namespace": namespace, "verb": verb, "group": resource.group, "resource": resource.plural}
        return await is_allowed(self.client, about | {"subresource": subresource}, attempts=attempts)

    async def check_namespace(self, namespace: str = "") -> None:
        """Raises InvalidOption if the namespace does not exist, as far as this user may know."""
        namespace = namespace or self.namespace
        if not namespace:
            return
        with suppress(Denied):
            if await self.get(NAMESPACES, "", namespace) is not None:
                return
            names = [msgspec.json.decode(raw)["metadata"]["name"] for raw in await self.all(NAMESPACES)]
            hint = did_you_mean(namespace, names)
            raise InvalidOption(f"{namespace}: no such namespace on {self.name}", hint)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        try:
            yield
        except ApiError as error:
            raise self.explained(error) from error

    def explained(self, error: ApiError) -> RunError:
        """Return the error for the user: what is wrong, and what to do."""
        if error.status == HTTPStatus.UNAUTHORIZED:
            return ForbiddenError(f"{self.name}: the API server refused the credentials", _EXPIRED)
        if error.status == HTTPStatus.BAD_REQUEST:
            # Such as a label selector that is none.
            return InvalidOption(f"{self.name}: {' '.join(str(error).split())}")
        if error.is_forbidden:
            return ForbiddenError(f"{self.name}: {error}", _ROLE)
        if error.not_found:
            if error.reason != "NotFound":
                return InvalidOption(f"{self.name}: {_NO_JOBS}", _INSTALL)
            return NoSuchRun(f"{self.name}: {error}")
        return ConnectionFailed(f"{self.name}: {error}")


def known_contexts(config: Kubeconfig | None) -> list[str]:
    """Return the names for `--on`: of the contexts of a kubeconfig, and of the cluster that this process runs in."""
    names = [] if config is None else sorted(config.contexts)
    return [*names, *([IN_CLUSTER] if os.environ.get("KUBERNETES_SERVICE_HOST") else [])]


def gone(run: str, *, is_replaced: bool = False) -> NoSuchRun:
    """Return the error of a Job that was deleted while it was watched."""
    if is_replaced:
        return NoSuchRun(f"{run}: was replaced by another Job of this name", "name it again to see the new one")
    return NoSuchRun(f"{run}: was deleted", "its pods and logs are gone with it")

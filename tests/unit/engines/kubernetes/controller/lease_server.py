"""An API server for Leases in virtual time: forbidden, slow and lost requests."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError

R = TypeVar("R")
LeaseKey = tuple[str, str]


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]  # of BaseEventLoop
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]  # likewise
        super()._run_once()  # type: ignore[misc]  # likewise


def play_virtually(story: Coroutine[Any, Any, R]) -> R:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)


@dataclass
class LeaseServer:
    leases: dict[LeaseKey, dict[str, Any]] = field(default_factory=dict)
    version: int = 0

    def holders(self) -> dict[LeaseKey, str]:
        return {key: lease["spec"]["holderIdentity"] for key, lease in self.leases.items()}

    def hold(self, namespace: str, name: str, holder: str) -> None:
        """Write a Lease as another controller does."""
        self.store(namespace, name, {"metadata": {"name": name}, "spec": {"holderIdentity": holder}})

    def store(self, namespace: str, name: str, lease: dict[str, Any]) -> bytes:
        self.version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.leases[namespace, name] = lease
        return json.dumps(lease).encode()


@dataclass
class LeaseClient:
    """The connection of one controller, which a test can slow down, cut or forbid."""

    server: LeaseServer
    random: random.Random = field(default_factory=lambda: random.Random(0))
    latency: float = 0.01
    loss: float = 0.0
    is_cut: bool = False
    slow: dict[str, float] = field(default_factory=dict)  # how long requests with a verb are on the way
    late: float = 0.0  # how long responses are on the way
    forbidden_verbs: set[str] = field(default_factory=set)

    async def get(self, _resource: object, namespace: str, name: str, **_how: bool) -> bytes:
        await self._before("get", namespace)
        if (namespace, name) not in self.server.leases:
            raise ApiError(404, "NotFound", f'leases "{name}" not found')
        return await self._after(json.dumps(self.server.leases[namespace, name]).encode())

    async def create(self, _resource: object, namespace: str, body: bytes, **_how: bool) -> bytes:
        lease = json.loads(body)
        name = lease["metadata"]["name"]
        await self._before("create", namespace)
        if (namespace, name) in self.server.leases:
            raise ApiError(409, "AlreadyExists")
        return await self._after(self.server.store(namespace, name, lease))

    async def replace(self, _resource: object, namespace: str, name: str, body: bytes, **_how: bool) -> bytes:
        await self._before("update", namespace)
        lease, stored = json.loads(body), self.server.leases.get((namespace, name))
        if stored is None:
            raise ApiError(404, "NotFound")
        if stored["metadata"]["resourceVersion"] != lease["metadata"].get("resourceVersion"):
            raise ApiError(409, "Conflict")
        return await self._after(self.server.store(namespace, name, lease))

    async def list_pages(self, _resource: object, namespace: str) -> AsyncIterator[tuple[list[msgspec.Raw], str]]:
        await self._before("list", namespace)
        found = [lease for key, lease in self.server.leases.items() if key[0] == namespace]
        await self._after(b"")
        yield [msgspec.Raw(json.dumps(lease).encode()) for lease in found], ""

    async def _before(self, verb: str, namespace: str) -> None:
        await asyncio.sleep(self.slow.get(verb, 0.0))
        await self._delay()
        if verb in self.forbidden_verbs:
            raise ApiError(403, "Forbidden", f"you may not {verb} Leases in {namespace}")

    async def _after(self, answer: bytes) -> bytes:
        """Delay or lose a response after the server carried out the request."""
        await asyncio.sleep(self.late)
        await self._delay()
        return answer

    async def _delay(self) -> None:
        await asyncio.sleep(self.latency * self.random.random())
        if self.is_cut or self.random.random() < self.loss:
            await asyncio.sleep(self.random.choice((0.0, 3.0, 30.0)))
            raise UnreachableError("away")

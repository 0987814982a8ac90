"""The Lease in simulated time; tests/cluster has real controllers that compete for one."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.controller.lease import Durations, LeaseLock
from pumice.engines.memory.clock import EPOCH
from tests.unit.engines.kubernetes.played_api import play, played

QUICK = Durations(lease=15.0, renew=10.0, retry=0.001)


@dataclass
class Server:
    """Stores one Lease; responses to writes are delayed as scripted."""

    now: float = 1000.0
    lease: dict[str, Any] | None = None
    superseding: dict[str, Any] | ApiError | None = None  # the Lease for the whole cluster
    delays: list[float] = field(default_factory=list)
    refusal: ApiError | None = None
    written_at: float = 0.0
    _version: int = 0

    async def get(self, _resource: object, _namespace: str, name: str, **_how: bool) -> bytes:
        lease = self.superseding if name == "all" else self.lease
        if isinstance(lease, ApiError):
            raise lease
        if lease is None:
            raise ApiError(404, "NotFound")
        return json.dumps(lease).encode()

    async def create(self, _resource: object, _namespace: str, body: bytes, **_how: bool) -> bytes:
        if self.lease is not None:
            raise ApiError(409, "AlreadyExists")
        return self._store(body)

    async def replace(self, _resource: object, _namespace: str, _name: str, body: bytes, **_how: bool) -> bytes:
        if self.refusal is not None:
            self.now += 0.5
            raise self.refusal
        if self.lease is None:
            raise ApiError(404, "NotFound")
        return self._store(body)

    def _store(self, body: bytes) -> bytes:
        self._version += 1
        self.written_at = self.now
        self.lease = json.loads(body)
        assert self.lease is not None
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        self.now += self.delays.pop(0) if self.delays else 0.0
        return json.dumps(self.lease).encode()


def a_candidate(server: Server, identity: str = "me") -> LeaseLock:
    return LeaseLock(cast(Client, server), "lab", "l", identity, lambda: EPOCH, lambda: server.now, QUICK)


def test_a_holder_that_cannot_renew_stops_before_another_may_take_over() -> None:
    """Others count from the moment of the write, not of its response."""

    async def story() -> float:
        server = Server()
        lock = a_candidate(server)
        await lock.acquire()
        acquired_at = server.written_at
        server.delays.append(9.0)
        original = server._store

        def once(body: bytes) -> bytes:
            answer = original(body)
            server.refusal = UnreachableError("away")
            return answer

        server._store = once  # type: ignore[method-assign]  # the last write that gets through
        await lock.hold()
        assert not lock.is_leader
        assert server.written_at == acquired_at
        return server.now - server.written_at

    assert play(story()) < QUICK.lease


@played
async def test_a_deleted_lease_is_recreated_at_once() -> None:
    server = Server()
    lock = a_candidate(server)
    await lock.acquire()
    server.lease = None
    assert await lock._try()
    assert server.lease is not None


@played
async def test_a_lease_recreated_by_another_is_lost_at_once() -> None:
    server = Server()
    lock, other = a_candidate(server), a_candidate(server, "other")
    await lock.acquire()
    server.lease = None
    await other.acquire()
    server.refusal = ApiError(409, "Conflict")
    await lock.hold()
    assert not lock.is_leader
    assert server.now - server.written_at < 1.0


@played
async def test_a_forbidden_lease_is_logged_with_a_hint(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        server = Server()
        lock = a_candidate(server)
        tries = iter([ApiError(403, "Forbidden", "you may not"), ApiError(403, "Forbidden", "you may not")])

        async def refused(_resource: object, _namespace: str, name: str, **_how: bool) -> bytes:
            for error in tries:
                raise error
            raise ApiError(404, "NotFound")

        server.get = refused  # type: ignore[method-assign]  # scripted
        await lock.acquire()
    logged = [record.getMessage() for record in caplog.records]
    assert logged == ["could not acquire Lease lab/l: you may not; --lease-namespace chooses another namespace for it"]


def held(version: int, holder: str = "them") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)}, "spec": {"holderIdentity": holder}}


def namespaced(server: Server) -> LeaseLock:
    lock = a_candidate(server)
    lock.superseding = "all"
    return lock


@played
async def test_a_namespaced_lock_waits_while_the_cluster_lease_is_held() -> None:
    server = Server(superseding=held(1))
    lock = namespaced(server)
    assert not await lock._try()
    assert lock._holder == ("them", "all")
    server.now += 14
    server.superseding = held(2)
    assert not await lock._try()
    server.now += 14
    assert not await lock._try()
    server.now += 1
    assert await lock._try()
    server.superseding = held(3, holder="")
    assert await lock._try()


@played
async def test_a_namespaced_lock_is_lost_when_the_cluster_lease_is_taken() -> None:
    server = Server()
    lock = namespaced(server)
    await lock.acquire()
    server.superseding = held(1)
    await lock.hold()
    assert not lock.is_leader


@played
async def test_a_forbidden_cluster_lease_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        lock = namespaced(Server(superseding=ApiError(403, "Forbidden", "you may not")))
        await lock.acquire()
        assert await lock._try()
    assert [record.getMessage() for record in caplog.records] == ["could not read Lease lab/all: you may not"]

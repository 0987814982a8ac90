"""The Lease where time is played; several real controllers fight for one in tests/cluster."""

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
from tests.unit.engines.kubernetes.played_api import play

QUICK = Durations(lease=15.0, renew=10.0, retry=0.001)


@dataclass
class Server:
    """Keeps one Lease; each answer to a write takes as long as was told."""

    now: float = 1000.0
    lease: dict[str, Any] | None = None
    above: dict[str, Any] | ApiError | None = None  # the Lease of those who serve everything
    delays: list[float] = field(default_factory=list)
    refusal: ApiError | None = None
    written_at: float = 0.0
    _version: int = 0

    async def get(self, _resource: object, _namespace: str, name: str, **_how: bool) -> bytes:
        lease = self.above if name == "all" else self.lease
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


def test_who_cannot_renew_gives_up_before_another_may_take_over() -> None:
    """Others count from the moment of the write, not from when its answer came."""

    async def story() -> float:
        server = Server()
        election = a_candidate(server)
        await election.acquire()
        acquired_at = server.written_at
        server.delays.append(9.0)
        original = server._store

        def once(body: bytes) -> bytes:
            answer = original(body)
            server.refusal = UnreachableError("away")
            return answer

        server._store = once  # type: ignore[method-assign]  # the last write that gets through
        await election.hold()
        assert not election.is_leader
        assert server.written_at == acquired_at
        return server.now - server.written_at

    assert play(story()) < QUICK.lease


def test_a_lease_that_somebody_removes_is_made_again_at_once() -> None:
    async def story() -> None:
        server = Server()
        election = a_candidate(server)
        await election.acquire()
        server.lease = None
        assert await election._try()
        assert server.lease is not None

    play(story())


def test_a_lease_that_another_made_meanwhile_is_lost_at_once() -> None:
    async def story() -> None:
        server = Server()
        election, other = a_candidate(server), a_candidate(server, "other")
        await election.acquire()
        server.lease = None
        await other.acquire()
        server.refusal = ApiError(409, "Conflict")
        await election.hold()
        assert not election.is_leader
        assert server.now - server.written_at < 1.0

    play(story())


def test_where_a_lease_may_not_be_made_it_is_said_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        server = Server()
        election = a_candidate(server)
        tries = iter([ApiError(403, "Forbidden", "you may not"), ApiError(403, "Forbidden", "you may not")])

        async def refused(_resource: object, _namespace: str, name: str, **_how: bool) -> bytes:
            for error in tries:
                raise error
            raise ApiError(404, "NotFound")

        server.get = refused  # type: ignore[method-assign]  # as long as the test wants it
        await election.acquire()

    with caplog.at_level(logging.WARNING):
        play(story())
    told = [record.getMessage() for record in caplog.records]
    assert told == ["Lease lab/l cannot be had: you may not; --lease-namespace names another place for it"]


def held(version: int, holder: str = "them") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)}, "spec": {"holderIdentity": holder}}


def below(server: Server) -> LeaseLock:
    election = a_candidate(server)
    election.above = "all"
    return election


def test_who_serves_some_stands_aside_for_who_serves_all_until_that_one_is_gone() -> None:
    async def story() -> None:
        server = Server(above=held(1))
        election = below(server)
        assert not await election._try()
        assert election._holder == ("them", "all")
        server.now += 14
        server.above = held(2)
        assert not await election._try()
        server.now += 14
        assert not await election._try()
        server.now += 1
        assert await election._try()
        server.above = held(3, holder="")
        assert await election._try()

    play(story())


def test_who_serves_some_ends_when_somebody_begins_to_serve_all() -> None:
    async def story() -> None:
        server = Server()
        election = below(server)
        await election.acquire()
        server.above = held(1)
        await election.hold()
        assert not election.is_leader

    play(story())


def test_where_the_lease_for_all_may_not_be_looked_at_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        election = below(Server(above=ApiError(403, "Forbidden", "you may not")))
        await election.acquire()
        assert await election._try()

    with caplog.at_level(logging.WARNING):
        play(story())
    assert [record.getMessage() for record in caplog.records] == ["Lease lab/all cannot be looked at: you may not"]

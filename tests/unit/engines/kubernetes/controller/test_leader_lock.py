"""The lock of a leader in virtual time; test_leadership.py has whole controllers, tests/cluster real ones."""

from __future__ import annotations

import asyncio
import logging
from typing import cast

import pytest

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.controller.leadership import Durations, LeaderLock, LeaseLock
from pumice.engines.memory.timeline import EPOCH
from tests.unit.engines.kubernetes.controller.lease_server import LeaseClient, LeaseServer, play_virtually

DURATIONS = Durations()
KEY = ("kube-system", "l")


def a_lock(client: LeaseClient, identity: str = "me") -> LeaderLock:
    clock = asyncio.get_running_loop().time
    return LeaderLock(LeaseLock(cast(Client, client), "l", identity, lambda: EPOCH, clock))


def test_a_holder_that_cannot_renew_stops_before_another_may_take_over() -> None:
    """Others count from the moment of the write, not of its response."""

    async def story() -> float:
        server = LeaseServer()
        client = LeaseClient(server, latency=0)
        lock = a_lock(client)
        await lock.acquire()
        loop, version = asyncio.get_running_loop(), server.version
        written_at = loop.time()

        async def cut_after_a_late_answer() -> None:
            nonlocal written_at
            client.late = 7.0
            while server.version == version:  # noqa: ASYNC110 - in virtual time
                await asyncio.sleep(0.01)
            written_at, client.is_cut = loop.time(), True

        cutting = asyncio.create_task(cut_after_a_late_answer())
        await lock.hold()
        await cutting
        assert not lock.is_leader
        return loop.time() - written_at

    assert play_virtually(story()) < DURATIONS.lease


def test_a_deleted_lease_is_recreated_at_once() -> None:
    async def story() -> None:
        server = LeaseServer()
        lock = a_lock(LeaseClient(server))
        await lock.acquire()
        holding = asyncio.create_task(lock.hold())
        server.leases.clear()
        await asyncio.sleep(3)
        assert server.holders() == {KEY: "me"}
        assert lock.is_leader
        holding.cancel()

    play_virtually(story())


def test_a_lease_recreated_by_another_is_lost_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        server = LeaseServer()
        lock, other = a_lock(LeaseClient(server)), a_lock(LeaseClient(server), "other")
        await lock.acquire()
        server.leases.clear()
        await other.acquire()
        async with asyncio.timeout(3):
            await lock.hold()
        assert not lock.is_leader

    play_virtually(story())
    assert "Lease kube-system/l was taken by other" in caplog.text


def test_a_standby_waits_for_the_holder_of_a_deleted_lease() -> None:
    """The holder notices the deletion only at its next renewal."""

    async def story() -> None:
        server = LeaseServer()
        server.hold(*KEY, "other")
        lock = a_lock(LeaseClient(server))
        acquiring = asyncio.create_task(lock.acquire())
        await asyncio.sleep(2)
        server.leases.clear()
        await asyncio.sleep(10)
        assert not acquiring.done()
        async with asyncio.timeout(5):
            await acquiring

    play_virtually(story())


def test_the_holder_that_is_waited_for_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        server = LeaseServer()
        server.hold(*KEY, "other")
        lock = a_lock(LeaseClient(server))
        await lock.acquire()
        await lock.release()
        assert server.holders() == {KEY: ""}

    with caplog.at_level(logging.INFO):
        play_virtually(story())
    assert [record.getMessage() for record in caplog.records] == ["waiting: other holds Lease kube-system/l"]


def test_an_error_of_the_server_is_named_until_it_passes(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        client = LeaseClient(LeaseServer())
        client.is_cut = True
        lock = a_lock(client)
        acquiring = asyncio.create_task(lock.acquire())
        await asyncio.sleep(60)
        assert lock.failure == "could not acquire Lease kube-system/l: away"
        client.is_cut = False
        await acquiring
        assert lock.failure == ""

    play_virtually(story())
    assert [record.getMessage() for record in caplog.records] == ["could not acquire Lease kube-system/l: away"]

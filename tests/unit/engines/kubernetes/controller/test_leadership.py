"""Leader election in virtual time: at most one controller serves a namespace, whatever happens."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from typing import cast

import pytest

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.cache.cluster_cache import ALL_NAMESPACES
from pumice.engines.kubernetes.controller.leadership import LeaderElector
from pumice.engines.memory.timeline import EPOCH
from tests.unit.engines.kubernetes.controller.lease_server import LeaseClient, LeaseServer, play_virtually

HOME, LEASE = "kube-system", "pumice-controller"


class Serving:
    """Who serves which namespace now; two at once are an error."""

    def __init__(self) -> None:
        self.now: set[tuple[str, str]] = set()
        self.history: list[tuple[str, str]] = []

    def begin(self, identity: str, namespace: str) -> None:
        for other, served in self.now:
            overlap = ALL_NAMESPACES in (served, namespace) or served == namespace
            assert not overlap, f"{identity} serves {namespace or 'all'} beside {other}, which serves {served or 'all'}"
        self.now.add((identity, namespace))
        self.history.append((identity, namespace))

    def leaders(self) -> list[str]:
        return sorted(identity for identity, _ in self.now)


class Process:
    """A controller, as far as leader election goes."""

    def __init__(self, name: str, server: LeaseServer, serving: Serving, *namespaces: str) -> None:
        self.client = LeaseClient(server)
        self.name, self.serving = name, serving
        self.elector = LeaderElector(
            cast(Client, self.client), lambda: EPOCH, asyncio.get_running_loop().time, identity=name
        )
        self.task = asyncio.create_task(self.elector.run(namespaces, self._serve))

    async def _serve(self, namespace: str) -> None:
        self.serving.begin(self.name, namespace)
        try:
            await asyncio.Event().wait()
        finally:
            self.serving.now.discard((self.name, namespace))

    async def stop(self) -> None:
        assert not self.task.done(), self.task
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def kill(self) -> None:
        self.client.is_cut = True
        await self.stop()


async def until_leader(serving: Serving, name: str, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while name not in serving.leaders():  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.1)


def test_a_standby_takes_over() -> None:
    async def story() -> None:
        server, serving = LeaseServer(), Serving()
        one = Process("one", server, serving)
        await until_leader(serving, "one", 5)
        two = Process("two", server, serving)
        await asyncio.sleep(60)
        assert serving.leaders() == ["one"]
        assert server.holders() == {(HOME, LEASE): "one"}
        # It waits, and is ready to take over.
        assert two.elector.failure == ""
        await one.stop()
        await until_leader(serving, "two", 5)
        await two.kill()
        three = Process("three", server, serving)
        await asyncio.sleep(10)
        assert not serving.now
        await until_leader(serving, "three", 8)
        await three.stop()

    play_virtually(story())


def test_a_lease_is_released_though_the_api_server_is_slow() -> None:
    async def story() -> None:
        server, serving = LeaseServer(), Serving()
        one = Process("one", server, serving)
        await until_leader(serving, "one", 5)
        one.client.slow = {"update": 3.0}
        await one.stop()
        assert server.holders() == {(HOME, LEASE): ""}

    play_virtually(story())


class TestForbidden:
    @pytest.mark.parametrize(
        ("verb", "namespaces", "needed"),
        [
            pytest.param("get", (), f"Lease {LEASE}, create and list on Leases in", id="get"),
            pytest.param("create", (), f"Lease {LEASE}, create and list on Leases in", id="create"),
            pytest.param("list", (), f"Lease {LEASE}, create and list on Leases in", id="list"),
            pytest.param("get", ("a",), f"Lease {LEASE}-a, create on Leases, get on Lease {LEASE} in", id="namespace"),
        ],
    )
    def test_without_the_right_it_ends_and_names_the_right(
        self, verb: str, namespaces: Sequence[str], needed: str
    ) -> None:
        async def story() -> None:
            server, serving = LeaseServer(), Serving()
            process = Process("one", server, serving, *namespaces)
            process.client.forbidden_verbs = {verb}
            with pytest.raises(ApiError) as caught:
                await process.task
            name = "-".join((LEASE, *namespaces))
            assert str(caught.value) == (
                f"could not acquire Lease kube-system/{name}: you may not {verb} Leases in kube-system; "
                f"grant get and update on {needed} namespace kube-system (docs/guides/permissions.md), "
                "or use --no-leader-elect if there is no other controller"
            )
            assert not serving.now
            # It is not in the way of another controller.
            other = Process("other", server, serving)
            await until_leader(serving, "other", 5)
            await other.stop()

        play_virtually(story())

    def test_a_right_that_is_taken_away_ends_the_leadership_and_the_process(self) -> None:
        async def story() -> None:
            serving = Serving()
            process = Process("one", LeaseServer(), serving)
            await until_leader(serving, "one", 5)
            process.client.forbidden_verbs = {"get", "update", "create", "list"}
            async with asyncio.timeout(15):
                with pytest.raises(ApiError, match="grant get and update on"):
                    await process.task
            assert not serving.now

        play_virtually(story())

    def test_a_right_that_returns_in_time_ends_nothing(self) -> None:
        async def story() -> None:
            serving = Serving()
            process = Process("one", LeaseServer(), serving)
            await until_leader(serving, "one", 5)
            process.client.forbidden_verbs = {"get", "update"}
            await asyncio.sleep(5)
            process.client.forbidden_verbs = set()
            await asyncio.sleep(20)
            assert serving.history == [("one", ALL_NAMESPACES)]
            assert serving.leaders() == ["one"]
            await process.stop()

        play_virtually(story())


def test_a_controller_for_all_namespaces_waits_until_those_for_single_ones_have_stopped() -> None:
    async def story() -> None:
        server, serving = LeaseServer(), Serving()
        one = Process("one", server, serving, "a", "b")
        await asyncio.sleep(2)
        assert serving.now == {("one", "a"), ("one", "b")}
        everywhere = Process("all", server, serving)
        await until_leader(serving, "all", 6)
        assert serving.leaders() == ["all"]
        await everywhere.stop()
        await asyncio.sleep(3)
        assert serving.now == {("one", "a"), ("one", "b")}
        await one.stop()

    play_virtually(story())


def test_controllers_for_all_and_for_one_namespace_that_start_together() -> None:
    """The Lease for all namespaces is free when the other controller looks, and taken before it writes its own."""

    async def story() -> None:
        server, serving = LeaseServer(), Serving()
        one = Process("one", server, serving, "a")
        one.client.slow = {"create": 2.0}
        await asyncio.sleep(0.5)
        everywhere = Process("all", server, serving)
        await asyncio.sleep(10)
        assert serving.history == [("all", ALL_NAMESPACES)]
        await everywhere.stop()
        await one.stop()

    play_virtually(story())


@pytest.mark.parametrize("number", [*range(6), *(pytest.param(n, marks=pytest.mark.soak) for n in range(6, 106))])
def test_random_lives(number: int) -> None:
    play_virtually(RandomLife(random.Random(int(os.environ["PUMICE_TEST_SEED"]) * 1000 + number)).play())


class RandomLife:
    """Controllers start, stop, are killed and cut off."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.serving, self.server = rng, Serving(), LeaseServer()
        self.alive: list[Process] = []

    async def play(self) -> None:
        actions = (self.start, self.start, self.stop, self.kill, self.cut)
        for step in range(60):
            await asyncio.sleep(self.rng.choice((0.1, 1.0, 5.0, 20.0)))
            await self.rng.choice(actions)(f"c{step}")
        await self.start("last", ())
        for process in self.alive:
            process.client.is_cut, process.client.loss = False, 0.0
        await asyncio.sleep(120)
        assert [namespace for _, namespace in self.serving.now] == [ALL_NAMESPACES]
        for process in self.alive:
            await process.stop()

    async def start(self, name: str, scope: Sequence[str] | None = None) -> None:
        if scope is None:
            scope = self.rng.choice(((), (), ("a",), ("a", "b")))
        process = Process(name, self.server, self.serving, *scope)
        process.client.random, process.client.latency, process.client.loss = self.rng, 0.5, 0.05
        self.alive.append(process)

    async def stop(self, _name: str) -> None:
        if self.alive:
            await self.alive.pop(self.rng.randrange(len(self.alive))).stop()

    async def kill(self, _name: str) -> None:
        if self.alive:
            await self.alive.pop(self.rng.randrange(len(self.alive))).kill()

    async def cut(self, _name: str) -> None:
        if self.alive:
            process = self.rng.choice(self.alive)
            process.client.is_cut = not process.client.is_cut

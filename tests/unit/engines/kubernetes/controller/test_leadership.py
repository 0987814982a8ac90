"""Leader election in virtual time: at most one controller serves a namespace, whatever happens."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from typing import cast

import pytest

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.cache.cluster_cache import ALL_NAMESPACES
from pumice.engines.kubernetes.controller.leadership import LeaderElector
from pumice.engines.memory.clock import EPOCH
from tests.unit.engines.kubernetes.controller.lease_server import LeaseClient, LeaseServer, play_virtually

HOME, OLD = "kube-system", "pumice-system"
LEASE = "pumice-controller"


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

    def __init__(self, name: str, server: LeaseServer, serving: Serving, flag: str = "", *namespaces: str) -> None:
        self.client = LeaseClient(server)
        self.name, self.serving = name, serving
        self.elector = LeaderElector(
            cast(Client, self.client), lambda: EPOCH, flag, asyncio.get_running_loop().time, identity=name
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


class TestOneLeader:
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            pytest.param("", OLD, id="outside first, then installed"),
            pytest.param(OLD, "", id="installed first"),
            pytest.param("lab", OLD, id="two other namespaces"),
            pytest.param("", "kube-system", id="the default, given"),
        ],
    )
    def test_wherever_their_leases_are(self, first: str, second: str) -> None:
        async def story() -> None:
            server, serving = LeaseServer(), Serving()
            if first == OLD:
                server.namespaces.add(OLD)
            one = Process("one", server, serving, first)
            await until_leader(serving, "one", 5)
            # An operator installs Pumice.
            server.namespaces.update((OLD, "lab"))
            two = Process("two", server, serving, second)
            await asyncio.sleep(60)
            assert serving.leaders() == ["one"]
            assert server.holders()[HOME, LEASE] == server.holders()[OLD, LEASE] == "one"
            await one.stop()
            await until_leader(serving, "two", 5)
            await two.stop()

        play_virtually(story())

    def test_an_installed_controller_of_an_earlier_version_is_waited_for(self) -> None:
        """It holds a Lease in the namespace of the installation only."""

        async def story() -> None:
            server, serving = LeaseServer({HOME, OLD}), Serving()
            server.hold(OLD, LEASE, "earlier")
            process = Process("new", server, serving)
            for _ in range(20):
                await asyncio.sleep(2)
                server.hold(OLD, LEASE, "earlier")
                assert not serving.now
                # A standby does not hold back others, and does not look like a second leader.
                assert server.holders() == {(OLD, LEASE): "earlier"}
            ended = asyncio.get_running_loop().time()
            await until_leader(serving, "new", 20)
            assert asyncio.get_running_loop().time() - ended >= 14
            # An earlier version that starts again waits in turn.
            assert server.holders() == {(HOME, LEASE): "new", (OLD, LEASE): "new"}
            await process.stop()

        play_virtually(story())

    def test_an_earlier_version_that_took_its_lease_is_yielded_to(self) -> None:
        async def story() -> None:
            server, serving = LeaseServer(), Serving()
            process = Process("new", server, serving)
            await until_leader(serving, "new", 5)
            server.namespaces.add(OLD)
            server.hold(OLD, LEASE, "earlier")
            await asyncio.sleep(3)
            assert not serving.now
            assert server.holders()[HOME, LEASE] == ""
            await process.stop()

        play_virtually(story())

    @pytest.mark.parametrize("flag", [OLD, ""])
    def test_a_deleted_namespace_ends_no_leadership(self, flag: str) -> None:
        """The documented uninstallation deletes it, under a controller that goes on outside."""

        async def story() -> None:
            server, serving = LeaseServer({HOME, OLD}), Serving()
            leader = Process("one", server, serving, flag)
            await until_leader(serving, "one", 5)
            standby = Process("two", server, serving, flag)
            await asyncio.sleep(3)
            server.begin_deletion(OLD)
            await asyncio.sleep(20)
            server.end_deletion(OLD)
            await asyncio.sleep(20)
            assert serving.history == [("one", ALL_NAMESPACES)]
            await leader.stop()
            await until_leader(serving, "two", 5)
            await standby.stop()

        play_virtually(story())

    def test_a_holder_whose_namespace_is_deleted_is_waited_for(self) -> None:
        """A controller of an earlier version works for ten more seconds after its Lease has gone."""

        async def story(*, seen: bool) -> None:
            server, serving = LeaseServer({HOME, OLD}), Serving()
            server.hold(OLD, LEASE, "earlier")
            process = Process("one", server, serving) if seen else None
            await asyncio.sleep(2)
            server.begin_deletion(OLD)
            process = process or Process("one", server, serving)
            await asyncio.sleep(10)
            assert not serving.now
            server.end_deletion(OLD)
            await until_leader(serving, "one", 8)
            await process.stop()

        play_virtually(story(seen=True))
        play_virtually(story(seen=False))


class TestForbidden:
    def test_without_permission_in_kube_system_the_other_lease_is_enough(self) -> None:
        async def story() -> None:
            server, serving = LeaseServer({HOME, OLD, "lab"}), Serving()
            first = Process("restricted", server, serving, "lab")
            first.client.forbidden = {HOME, OLD}
            await asyncio.sleep(10)
            assert server.holders() == {("lab", LEASE): "restricted"}
            # Controllers that may hold both Leases get the time to notice this one.
            assert not serving.now
            await until_leader(serving, "restricted", 10)
            assert server.holders() == {("lab", LEASE): "restricted"}
            await first.stop()

        play_virtually(story())

    def test_a_lease_that_may_only_be_listed_is_respected(self) -> None:
        """The installed role allows to write only the Lease for all namespaces in kube-system."""

        async def story() -> None:
            server, serving = LeaseServer(), Serving()
            outside = Process("outside", server, serving, "", "a")
            await until_leader(serving, "outside", 5)
            outside.client.slow = {"create": 1.0}
            # Before the other controller can take its Lease there.
            server.namespaces.add(OLD)
            installed = Process("installed", server, serving, OLD, "a")
            installed.client.only_name = LEASE
            await asyncio.sleep(20)
            assert serving.leaders() == ["outside"]
            await outside.stop()
            await until_leader(serving, "installed", 5)
            assert server.holders()[HOME, f"{LEASE}-a"] == ""
            await installed.stop()

        play_virtually(story())

    def test_without_permission_anywhere_it_says_why(self) -> None:
        async def story() -> None:
            server, serving = LeaseServer(), Serving()
            process = Process("one", server, serving)
            process.client.forbidden = {HOME}
            await asyncio.sleep(5)
            assert process.elector.failure == (
                "could not acquire Lease kube-system/pumice-controller: you may not get Leases in kube-system; "
                "--lease-namespace chooses another namespace for it"
            )
            process.client.forbidden.clear()
            await until_leader(serving, "one", 5)
            assert process.elector.failure == ""
            await process.stop()

        play_virtually(story())

    def test_a_permission_that_is_taken_away_ends_the_leadership(self) -> None:
        """Others rely on a Lease that was held once."""

        async def story() -> None:
            server, serving = LeaseServer({HOME, "lab"}), Serving()
            process = Process("one", server, serving, "lab")
            await until_leader(serving, "one", 5)
            process.client.forbidden = {HOME}
            await asyncio.sleep(15)
            assert not serving.now
            await process.stop()

        play_virtually(story())

    def test_without_permission_to_list_controllers_for_namespaces_are_given_time_to_yield(self) -> None:
        async def story() -> None:
            server, serving = LeaseServer(), Serving()
            one = Process("one", server, serving, "", "a")
            await until_leader(serving, "one", 5)
            everywhere = Process("all", server, serving)
            everywhere.client.forbidden_verbs = {"list"}
            await until_leader(serving, "all", 20)
            assert serving.leaders() == ["all"]
            await everywhere.stop()
            await one.stop()

        play_virtually(story())


def test_a_controller_for_all_namespaces_waits_until_those_for_single_ones_have_stopped() -> None:
    async def story() -> None:
        server, serving = LeaseServer(), Serving()
        one = Process("one", server, serving, "", "a", "b")
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
        one = Process("one", server, serving, "", "a")
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
    """Controllers start, stop, are killed and cut off; Pumice is installed, uninstalled and moved."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.serving = rng, Serving()
        self.server = LeaseServer({HOME, "lab"})
        self.alive: list[Process] = []

    async def play(self) -> None:
        actions = (self.start, self.start, self.stop, self.kill, self.cut, self.make_namespace, self.delete_namespace)
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
        flag = self.rng.choice(("", OLD, "lab"))
        process = Process(name, self.server, self.serving, flag, *scope)
        if flag != "lab" and self.rng.random() < 0.3:
            # As the installed roles are.
            process.client.only_name = LEASE
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

    async def make_namespace(self, _name: str) -> None:
        self.server.namespaces.add(self.rng.choice((OLD, "lab")))

    async def delete_namespace(self, _name: str) -> None:
        namespace = self.rng.choice((OLD, "lab"))
        if namespace in self.server.namespaces - self.server.terminating:
            self.server.begin_deletion(namespace)
            # No namespace with pods in it is gone sooner.
            delay = self.rng.uniform(5, 40)
            asyncio.get_running_loop().call_later(delay, self.server.end_deletion, namespace)

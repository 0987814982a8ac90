"""Why a change of a Job is refused: the API server is asked at most once a minute."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from pumice.client.backend import RemoveRun, RunRef, StopRun
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.live.cluster_observer import Rights
from pumice.client.observer import Refusals, Repeat
from pumice.engines.kubernetes.api.errors import UnreachableError

RUN = RunRef("train", 0, "ml", "1234")


@dataclass(slots=True)
class Server:
    """Allows some resources; `error` replaces every answer."""

    allowed: tuple[str, ...] = ()
    error: Exception | None = None
    asked: list[str] = field(default_factory=list)

    async def create(self, _resource: object, _namespace: object, body: bytes, **_: object) -> bytes:
        if self.error is not None:
            raise self.error
        attributes = msgspec.json.decode(body)["spec"]["resourceAttributes"]
        right = f"{attributes['verb']} {attributes['resource']}.{attributes['group']}"
        self.asked.append(f"{right} in {attributes['namespace']}")
        return msgspec.json.encode({"status": {"allowed": right in self.allowed}})


def rights_on(server: Server, moments: list[float]) -> Rights:
    connection = Connection("prod", cast("Any", None), "ml")
    connection._client = cast("Any", server)
    return Rights(connection, clock=lambda: moments[0])


def refusals(rights: Rights, *, asks: bool = True) -> Refusals:
    async def ask() -> Refusals:
        rights.connection._loop = asyncio.get_running_loop()
        return await rights.refusals(RUN, asks=asks)

    return asyncio.run(ask())


def test_a_missing_right_is_the_reason() -> None:
    found = refusals(rights_on(Server(), [0.0]))
    assert found[StopRun] == "you have no right to create commands.bus.volcano.sh in ml: ask an administrator"
    assert found[RemoveRun] == "you have no right to delete jobs.batch.volcano.sh in ml: ask an administrator"
    assert found[Repeat] == "you have no right to create jobs.batch.volcano.sh in ml: ask an administrator"


def test_with_all_rights_nothing_is_refused() -> None:
    rights = ("create commands.bus.volcano.sh", "delete jobs.batch.volcano.sh", "create jobs.batch.volcano.sh")
    assert refusals(rights_on(Server(allowed=rights), [0.0])) == {}


def test_answers_hold_for_a_minute() -> None:
    server, moments = Server(), [0.0]
    rights = rights_on(server, moments)
    refusals(rights)
    refusals(rights)
    assert sorted(server.asked) == [
        "create commands.bus.volcano.sh in ml",
        "create jobs.batch.volcano.sh in ml",
        "delete jobs.batch.volcano.sh in ml",
    ]
    moments[0] = 61.0
    refusals(rights)
    assert len(server.asked) == 6


@pytest.mark.parametrize("asks", [pytest.param(True, id="no answer"), pytest.param(False, id="not asked")])
def test_without_an_answer_the_change_itself_will_say_it(asks: bool) -> None:
    found = refusals(rights_on(Server(error=UnreachableError("gone")), [0.0]), asks=asks)
    assert StopRun not in found

"""A table stays current over whatever a server does, and keeps what it knows while the server is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from pumice.client.cluster.connection import Connection
from pumice.client.cluster.live_objects import LiveObjects, LiveTable, live
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.resources import PODS
from pumice.store.run_errors import ConnectionFailed, ForbiddenError

Step = Sequence[tuple[str, dict[str, Any]]] | Exception | list[dict[str, Any]]


def an_object(uid: str, value: object = 1) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "resourceVersion": "7"}, "value": value}


def raw(found: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(found))


@dataclass(slots=True)
class Server:
    """Plays lists and watches in turns; the last watch stays open. `done` is set when it is reached."""

    lists: list[list[dict[str, Any]] | Exception]
    watches: list[list[tuple[str, dict[str, Any]]] | Exception]
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def list_pages(self, *_: object, **__: object) -> AsyncGenerator[tuple[list[msgspec.Raw], str], None]:
        step = self.lists.pop(0)
        if isinstance(step, Exception):
            raise step
        yield [raw(each) for each in step], "5"

    async def watch(self, *_: object, **__: object) -> AsyncGenerator[tuple[str, msgspec.Raw], None]:
        if not self.watches:
            self.done.set()
            await asyncio.Event().wait()
        step = self.watches.pop(0)
        if isinstance(step, Exception):
            raise step
        for kind, found in step:
            yield kind, raw(found)


class Value(msgspec.Struct):
    value: int | None


def decode(found: msgspec.Raw) -> int | None:
    return msgspec.json.decode(found, type=Value).value


@dataclass(slots=True)
class Access:
    server: str = "https://prod"


def play(server: Server) -> tuple[LiveTable[int], list[tuple[int | None, int | None]]]:
    connection, changes = Connection("prod", cast("Any", Access()), "ml"), list[tuple[int | None, int | None]]()

    async def run() -> LiveTable[int]:
        connection._client, connection._loop = cast("Any", server), asyncio.get_running_loop()
        table = LiveTable(connection, PODS, "ml", decode, lambda before, after: changes.append((before, after)))
        await table.first()
        await server.done.wait()
        await table.close()
        return table

    return asyncio.run(run()), changes


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = asyncio.sleep
    monkeypatch.setattr("pumice.client.cluster.live_objects.asyncio.sleep", lambda _seconds: sleep(0))


def test_changes_are_taken_as_they_come() -> None:
    events = [
        ("ADDED", an_object("b", 2)),
        ("MODIFIED", an_object("a", 3)),
        ("BOOKMARK", an_object("", 0)),
        ("DELETED", an_object("b", 2)),
    ]
    table, changes = play(Server([[an_object("a")]], [events]))
    assert table.items == {"a": 3}
    assert changes == [(None, 1), (None, 2), (1, 3), (2, None)]
    assert table.failure is None


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(UnreachableError("cut off"), id="the connection breaks"),
        pytest.param(ApiError(410, "Expired", "too old"), id="the version has expired"),
        pytest.param(ApiError(403, "Forbidden", "no"), id="a right is gone for a while"),
    ],
)
def test_what_happened_meanwhile_is_in_the_next_list(error: Exception) -> None:
    lists: list[list[dict[str, Any]] | Exception] = [[an_object("a"), an_object("b")], error, [an_object("b", 5)]]
    table, _ = play(Server(lists, [error]))
    assert table.items == {"b": 5}
    assert table.failure is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(UnreachableError("cut off"), ConnectionFailed, id="the connection broke"),
        pytest.param(ApiError(403, "Forbidden", "no"), ForbiddenError, id="no right"),
    ],
)
def test_what_was_read_stays_and_the_failure_is_said(error: Exception, kind: type[Exception]) -> None:
    found: list[object] = []

    async def run() -> None:
        server = Server([[an_object("a")], error, [an_object("a")]], [error])
        connection = Connection("prod", cast("Any", Access()), "ml")
        connection._client, connection._loop = cast("Any", server), asyncio.get_running_loop()
        table: LiveTable[int] = LiveTable(connection, PODS, "ml", decode)
        table.start()
        while table.failure is None:  # noqa: ASYNC110 - whatever the table does between
            await asyncio.sleep(0)
        found.extend((type(table.failure), table.items))
        await table.close()

    asyncio.run(run())
    assert found == [kind, {"a": 1}]


def test_an_object_that_cannot_be_read_stays_as_it_was_and_others_are_left_out() -> None:
    events = [("MODIFIED", an_object("a", "no number")), ("ADDED", an_object("b", None)), ("ADDED", an_object("c"))]
    table, _ = play(Server([[an_object("a")]], [events]))
    assert table.items == {"a": 1, "c": 1}


def test_a_reader_that_waits_gets_each_change_and_the_error_that_ends_them() -> None:
    async def run() -> tuple[list[bool], list[object], list[str]]:
        changes = [("MODIFIED", an_object("a", 3)), ("DELETED", an_object("a", 4))]
        server = Server([[an_object("a")], ApiError(403, "Forbidden", "no")], [changes, ApiError(410, "Expired", "")])
        connection = Connection("prod", cast("Any", Access()), "ml")
        connection._client, connection._loop = cast("Any", server), asyncio.get_running_loop()
        objects = LiveObjects(connection, PODS, "ml", versions=[])

        async def read_on() -> None:
            while await objects.changed(5.0):
                continue

        async with live(objects):
            seen = [await objects.changed(5.0), objects.is_listed]
            with pytest.raises(ForbiddenError):
                await read_on()
            seen.append(await objects.changed(0.01))
        versions = [msgspec.json.decode(each)["value"] for each in objects.versions or ()]
        return seen, versions, [*objects.items]

    assert asyncio.run(run()) == ([True, True, False], [3, 4], [])

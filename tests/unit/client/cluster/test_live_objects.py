"""A lost connection is retried for ten minutes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pumice.client.cluster.connection import Connection
from pumice.client.cluster.live_objects import Patience
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.store.run_errors import ConnectionFailed, Denied


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_seconds: float) -> None:
        return

    monkeypatch.setattr("pumice.client.cluster.live_objects.asyncio.sleep", at_once)


@pytest.mark.usefixtures("no_pauses")
def test_failures_are_borne_for_ten_minutes() -> None:
    moments, lost = iter([0.0, 300.0, 599.0, 700.0, 1299.0, 1301.0]), list[str]()
    connection = Connection("prod", cast("Any", None), "ml", tell=lost.append)
    patience = Patience(connection, clock=lambda: next(moments))
    error = UnreachableError("the server is gone")

    async def fail(times: int) -> None:
        for _ in range(times):
            await patience.after(error)

    asyncio.run(fail(3))
    patience.succeeded()
    asyncio.run(fail(2))
    with pytest.raises(ConnectionFailed, match="prod: the server is gone"):
        asyncio.run(fail(1))
    said = "prod: connection lost, reconnecting: the server is gone"
    assert lost == [said, "prod: connected again", said]


@pytest.mark.usefixtures("no_pauses")
def test_a_server_that_has_just_started_may_refuse() -> None:
    patience = Patience(Connection("prod", cast("Any", None), "ml"), clock=lambda: 0.0)

    async def fail() -> None:
        await patience.after(UnreachableError("the server is gone"))
        for _ in range(20):
            await patience.after(ApiError(403, "Forbidden", "pods is forbidden"))

    with pytest.raises(Denied):
        asyncio.run(fail())


def test_a_refusal_is_not_borne() -> None:
    patience = Patience(Connection("prod", cast("Any", None), "ml"))
    with pytest.raises(Denied):
        asyncio.run(patience.after(ApiError(403, "Forbidden", "pods is forbidden")))

"""The lines of a container's log are recognised when they are read again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

import pytest

from pumice.client.cluster.connection import Connection
from pumice.client.cluster.container_log import SECOND, ContainerLog
from pumice.store.logs.log_source import Execution

NOON = 1_794_916_800  # 2026-11-17T12:00:00Z


class _Client:
    """Answers each request with the next text, in pieces of some bytes."""

    def __init__(self, texts: list[str], size: int) -> None:
        self.texts, self.size, self.asked = texts, size, list[Mapping[str, str]]()

    async def stream(self, _path: str, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        self.asked.append(params)
        content = self.texts.pop(0).encode()
        for at in range(0, len(content), self.size):
            yield content[at : at + self.size]


class _Connection:
    def __init__(self, client: _Client) -> None:
        self.client = client


def _log(client: _Client, since: int = 0) -> ContainerLog:
    connection = cast("Connection", cast("Any", _Connection(client)))
    return ContainerLog(connection, "ml", "train-w-0", Execution("w-0", 1, 1, "main", 0, ""), since)


def _read(log: ContainerLog, *, follow: bool = False) -> list[tuple[int, bytes]]:
    async def read() -> list[tuple[int, bytes]]:
        return [(time, text) async for lines in log.read(follow=follow) for time, _, text in lines]

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("line", "time", "text"),
    [
        pytest.param("2026-11-17T12:00:00.5Z a", NOON * SECOND + 500_000_000, b"a\n", id="fraction"),
        pytest.param("2026-11-17T12:00:00Z a b", NOON * SECOND, b"a b\n", id="whole second"),
        pytest.param("2026-11-17T20:00:00.000000001+08:00 a", NOON * SECOND + 1, b"a\n", id="zone of the node"),
        pytest.param("2026-11-17T12:00:00Z ", NOON * SECOND, b"\n", id="empty line"),
        pytest.param("no time here", 0, b"no time here\n", id="no time"),
    ],
)
def test_a_line_has_the_time_of_the_server(line: str, time: int, text: bytes) -> None:
    assert _read(_log(_Client([line + "\n"], 4))) == [(time, text)]


def test_what_was_read_of_the_last_second_is_left_out() -> None:
    first = "2026-11-17T12:00:00.1Z a\n2026-11-17T12:00:01.1Z b\n2026-11-17T12:00:01.1Z b\n"
    again = "2026-11-17T12:00:01.1Z b\n" * 3 + "2026-11-17T12:00:01.05Z late\n"
    client = _Client([first, again], 7)
    log = _log(client)
    assert [text for _, text in _read(log)] == [b"a\n", b"b\n", b"b\n"]
    assert [text for _, text in _read(log)] == [b"b\n", b"late\n"]
    assert client.asked[1]["sinceTime"] == "2026-11-17T12:00:01Z"


def test_a_cut_line_is_left_to_the_next_part() -> None:
    client = _Client(["2026-11-17T12:00:00Z whole\n2026-11-17T12:00:00Z cu", "2026-11-17T12:00:00Z cut\n"], 100)
    log = _log(client)
    assert [text for _, text in _read(log, follow=True)] == [b"whole\n"]
    assert [text for _, text in _read(log, follow=True)] == [b"cut\n"]


def test_the_last_line_of_a_log_that_ended_needs_no_end() -> None:
    assert [text for _, text in _read(_log(_Client(["2026-11-17T12:00:00Z bye"], 5)))] == [b"bye\n"]


def test_older_lines_of_the_same_second_are_left_out() -> None:
    client = _Client(["2026-11-17T12:00:00.1Z old\n2026-11-17T12:00:00.6Z new\n"], 100)
    assert [text for _, text in _read(_log(client, NOON * SECOND + 500_000_000))] == [b"new\n"]
    assert client.asked[0]["sinceTime"] == "2026-11-17T12:00:00Z"


def test_a_log_that_a_kubelet_has_no_more_has_no_line() -> None:
    gone = "unable to retrieve container logs for containerd://20e10f3963a571e13767"
    assert _read(_log(_Client([gone], 400))) == []
    printed = _read(_log(_Client([f"2026-11-17T12:00:00Z {gone}\n"], 400)))
    assert [text for _, text in printed] == [f"{gone}\n".encode()]

"""Probes by themselves: what they ask, what they take for an answer, and when they tell it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from pumice.engines.local.kubelet.probes import Probe, port_number
from pumice.engines.local.sandbox.sandbox_errors import GONE, StartError
from tests.patience import PATIENCE

CONTAINER = {"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}


def run(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await story

    asyncio.run(bounded())


@dataclass
class Reached:
    """A container that answers as it is told to, over real sockets."""

    code: int = 0
    output: bytes = b""
    answer: bytes | None = b"HTTP/1.1 200 OK\r\n\r\n"
    error: Exception | None = None
    asked: list[object] = field(default_factory=list)
    _peers: list[socket.socket] = field(default_factory=list)

    async def exec(self, argv: list[str], timeout: float | None) -> tuple[int, bytes]:  # noqa: ARG002, ASYNC109 - as the sandbox has it
        self.asked.append(argv)
        if self.error is not None:
            raise self.error
        return self.code, self.output

    async def connect(self, port: int) -> socket.socket:
        self.asked.append(port)
        if self.error is not None:
            raise self.error
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._peers.append(theirs)
        if self.answer is not None:
            theirs.sendall(self.answer)
            theirs.shutdown(socket.SHUT_WR)
        return ours

    def request(self) -> list[str]:
        return self._peers[-1].recv(4096).decode().split("\r\n")

    def close(self) -> None:
        for peer in self._peers:
            peer.close()


def test_defaults_are_those_of_kubernetes() -> None:
    assert Probe.read(None) is None
    probe = Probe.read({"exec": {"command": ["true"]}})
    assert probe == Probe({"exec": {"command": ["true"]}}, delay=0, period=10, timeout=1, successes=1, failures=3)


def test_what_a_manifest_says() -> None:
    manifest = {"initialDelaySeconds": 1, "periodSeconds": 2, "timeoutSeconds": 3, "successThreshold": 4}
    manifest |= {"failureThreshold": 5}
    assert Probe.read(manifest) == Probe(manifest, delay=1, period=2, timeout=3, successes=4, failures=5)


@pytest.mark.parametrize(
    ("seconds", "delay"),
    [
        pytest.param(0, 20, id="from the start"),
        pytest.param(15, 5, id="what is left of it"),
        pytest.param(30, 0, id="nothing is left"),
    ],
)
def test_the_delay_counts_from_the_start_of_the_container(seconds: float, delay: float) -> None:
    assert Probe({}, delay=20).since(seconds).delay == delay


@pytest.mark.parametrize(
    ("handler", "reached", "failure"),
    [
        pytest.param({"exec": {"command": ["x"]}}, Reached(), "", id="exec"),
        pytest.param({"exec": {"command": ["x"]}}, Reached(code=3), "exit code 3", id="exec fails"),
        pytest.param(
            {"exec": {"command": ["x"]}}, Reached(code=3, output=b"a\nwhy\n"), "exit code 3: why", id="exec says why"
        ),
        pytest.param(
            {"exec": {"command": ["x"]}},
            Reached(error=StartError(GONE, "x: not found")),
            "x: not found",
            id="no program",
        ),
        pytest.param({"tcpSocket": {"port": 80}}, Reached(), "", id="tcp"),
        pytest.param(
            {"tcpSocket": {"port": 80}},
            Reached(error=OSError(111, "Connect call failed")),
            "connection refused",
            id="shut",
        ),
        pytest.param({"tcpSocket": {"port": "db"}}, Reached(), "the container has no port named db", id="unknown port"),
        pytest.param({"httpGet": {"port": "web"}}, Reached(), "", id="http"),
        pytest.param({"httpGet": {"port": 80}}, Reached(answer=b"HTTP/1.1 302 Found\r\n"), "", id="http elsewhere"),
        pytest.param(
            {"httpGet": {"port": 80}}, Reached(answer=b"HTTP/1.1 503 No\r\n"), "HTTP status 503", id="http fails"
        ),
        pytest.param({"httpGet": {"port": 80}}, Reached(answer=b"SSH-2.0\r\n"), "the answer is not HTTP", id="ssh"),
        pytest.param({"httpGet": {"port": 80}}, Reached(answer=b""), "the answer is not HTTP", id="hung up"),
        pytest.param({"sleep": {"seconds": 0}}, Reached(), "", id="sleep"),
        pytest.param({"grpc": {"port": 80}}, Reached(), "", id="grpc, as far as the port opens"),
    ],
)
def test_answers(handler: dict[str, Any], reached: Reached, failure: str) -> None:
    async def story() -> None:
        assert await Probe(handler, timeout=50).check(CONTAINER, reached) == failure

    run(story())
    reached.close()


def test_silence_is_no_answer() -> None:
    reached = Reached(answer=None)

    async def story() -> None:
        assert (
            await Probe({"httpGet": {"port": 80}}, timeout=0.05).check(CONTAINER, reached) == "no answer within 0.05s"
        )

    run(story())
    reached.close()


def test_what_is_asked_for_by_http() -> None:
    reached = Reached()
    target = {"port": "web", "path": "/healthz?deep=1", "httpHeaders": [{"name": "X-Who", "value": "me"}]}

    async def story() -> None:
        assert await Probe({"httpGet": target}).check(CONTAINER, reached) == ""

    run(story())
    assert reached.asked == [8080]
    lines = reached.request()
    assert lines[0] == "GET /healthz?deep=1 HTTP/1.1"
    assert {"Host: localhost", "X-Who: me", "Connection: close"} <= set(lines)
    reached.close()


def reported_failures(answers: list[int], **numbers: int) -> list[str]:
    """What a probe tells while the codes of its command are these."""
    reported: list[str] = []

    class Script(Reached):
        async def exec(self, argv: list[str], timeout: float | None) -> tuple[int, bytes]:  # noqa: ARG002, ASYNC109 - as above
            if not answers:
                raise asyncio.CancelledError
            return answers.pop(0), b""

    async def report(failure: str) -> None:
        reported.append(failure)

    async def story() -> None:
        probe = Probe({"exec": {"command": ["x"]}}, period=0, timeout=50, **numbers)
        watching: Callable[..., Awaitable[None]] = probe.watch
        with pytest.raises(asyncio.CancelledError):
            await watching(CONTAINER, Script(), report)

    run(story())
    return reported


def test_it_reports_when_enough_answers_in_a_row_agree() -> None:
    bad = "exit code 1"
    assert reported_failures([1, 1, 1, 1], failures=3, successes=1) == [bad]
    assert reported_failures([1, 1, 0, 1, 1, 0], failures=3, successes=1) == ["", ""]
    assert reported_failures([0, 0, 0, 1, 0, 0], failures=1, successes=2) == ["", bad, ""]


@pytest.mark.parametrize(("port", "number"), [(80, 80), ("80", 80), ("web", 8080)])
def test_ports(port: object, number: int) -> None:
    assert port_number(port, CONTAINER) == number

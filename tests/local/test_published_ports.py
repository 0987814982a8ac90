"""Published ports: a pod's port on the loopback of the host."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from pathlib import Path

import pytest

from pumice.engines.local.network.published_ports import (
    PortTakenError,
    PublishedPort,
    check_ports,
    listen,
    listen_near,
    published_ports,
)
from pumice.engines.local.network.relay import Stream
from pumice.store.events import PortPublished, PortTaken, WarningIssued
from pumice.store.options import Publish
from pumice.store.run_errors import InvalidOption
from tests.async_tests import async_test
from tests.local.sandbox.boxes import Box, in_box, python_mounts

# Answers only after the client has closed its side: without half-closes there is no answer.
SERVER = """
import socket, threading
listener = socket.create_server(("0.0.0.0", 8080))
print("up", flush=True)
def serve(connection):
    with connection:
        said = connection.makefile("rb").read()
        connection.sendall(b"%d bytes, the first %s" % (len(said), said[:5]))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


async def _ask(published: PublishedPort, words: bytes) -> bytes:
    client = Stream(*await asyncio.open_connection("127.0.0.1", published.local_port))
    client.writer.write(words)
    client.writer.write_eof()
    answer = await client.reader.read()
    client.writer.close()
    return answer


@in_box
async def test_many_connections_at_once_with_half_closes(box: Box) -> None:
    published = PublishedPort(box.sandbox, "a", 8080, listen(0))
    await published.start()
    with pytest.raises(ConnectionError):
        await _ask(published, b"too early")
    await box.pod("a")
    output = await box.start(box.spec("a", sys.executable, "-I", "-c", SERVER, mounts=python_mounts()))
    assert await output.line() == "up"
    words = [b"%05d" % number * 20_000 for number in range(20)]
    answers = await asyncio.gather(*(_ask(published, word) for word in words))
    assert answers == [b"100000 bytes, the first %05d" % number for number in range(20)]
    await published.close()
    with pytest.raises(ConnectionError):
        await _ask(published, b"too late")


class _Unreachable:
    own_network = True

    async def connect(self, pod: str, port: int) -> socket.socket:
        raise ConnectionRefusedError(pod, port)


def test_another_port_is_used_if_the_pods_port_is_taken_and_none_was_chosen() -> None:
    with listen(0) as taken:
        port = taken.getsockname()[1]
        with listen_near(port) as other:
            assert other.getsockname()[1] != port
    with listen_near(port) as same:
        assert same.getsockname() == ("127.0.0.1", port)


@pytest.mark.parametrize("address", ["127.0.0.1", ""])
def test_a_chosen_port_that_is_taken_is_refused_with_its_holder(address: str) -> None:
    with socket.create_server((address, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidOption) as refused:
            check_ports([Publish("w-0", 6006, port), Publish("w-1", 6006, port), Publish("w-1", 6006)])
    name = Path("/proc/self/comm").read_text().strip()
    said = f"port {port} is taken by {name} (pid {os.getpid()})"
    assert [each.message for each in refused.value.problems] == [f"w-{pod}:6006:{port}: {said}" for pod in (0, 1)]


def test_a_port_that_this_user_may_not_open_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_port: int) -> socket.socket:
        raise PortTakenError(80, PermissionError(errno.EACCES, "denied"))

    # The tests may run as root, who may open all ports.
    monkeypatch.setattr("pumice.engines.local.network.published_ports.listen", refuse)
    with pytest.raises(InvalidOption) as refused:
        check_ports([Publish("w-0", 6006, 80)])
    first = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text().strip()
    assert refused.value.problem.message == "w-0:6006:80: port 80 needs a right that this user does not have"
    assert refused.value.problem.hint == f"choose {first} or more"


@async_test
async def test_a_taken_port_is_published_when_it_is_free() -> None:
    events: asyncio.Queue[object] = asyncio.Queue()
    with listen(0) as taken:
        port = taken.getsockname()[1]
        options = [Publish("w-0", 80, port)]
        async with published_ports(_Unreachable(), "trial", options, events.put_nowait):
            first = await events.get()
            assert isinstance(first, PortTaken)
            assert first.why.startswith(f"port {port} is taken by ")
            taken.close()
            assert await events.get() == PortPublished("w-0", 80, f"127.0.0.1:{port}")
    with listen(port):
        assert events.empty()


@async_test
async def test_plain_processes_keep_their_own_port() -> None:
    events: asyncio.Queue[object] = asyncio.Queue()
    sandbox = _Unreachable()
    sandbox.own_network = False
    with listen(0) as free:
        port = free.getsockname()[1]
    async with published_ports(sandbox, "trial", [Publish("w-0", port, port)], events.put_nowait):
        warning, published = await events.get(), await events.get()
        assert isinstance(warning, WarningIssued)
        assert f"{port} is left to the pod" in warning.message
        assert isinstance(published, PortPublished)
        assert published.address != f"127.0.0.1:{port}"

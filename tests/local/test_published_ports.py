"""Published ports: a pod's port on the loopback of the host."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from pumice.engines.local.network.published_ports import PublishedPort, publish
from pumice.engines.local.network.relay import Stream
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
    published = await publish(box.sandbox, "a", 8080)
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
    async def connect(self, pod: str, port: int) -> socket.socket:
        raise ConnectionRefusedError(pod, port)


@async_test
async def test_another_port_is_used_if_the_pods_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        published = await publish(_Unreachable(), "a", port)
        assert published.local_port != port
        assert published.address == f"127.0.0.1:{published.local_port}"
        await published.close()
    published = await publish(_Unreachable(), "a", port)
    assert published.local_port == port
    await published.close()

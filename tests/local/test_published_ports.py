"""A pod's port, reached on the loopback of the host."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from pumice.engines.local.network.published_ports import PublishedPort, publish
from pumice.engines.local.network.relay import Stream
from tests.local.sandbox.boxes import Box, in_box, need_namespaces, python_mounts, run

# Answers only after the client has ended its side: without half-closes nothing comes back.
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


async def _ask(publication: PublishedPort, words: bytes) -> bytes:
    client = Stream(*await asyncio.open_connection("127.0.0.1", publication.local_port))
    client.writer.write(words)
    client.writer.write_eof()
    answer = await client.reader.read()
    client.writer.close()
    return answer


@in_box
async def test_many_connections_at_once_with_half_closes(box: Box) -> None:
    need_namespaces()
    publication = await publish(box.sandbox, "a", 8080)
    with pytest.raises(ConnectionError):
        await _ask(publication, b"too early")
    await box.pod("a")
    output = await box.start(box.spec("a", sys.executable, "-I", "-c", SERVER, mounts=python_mounts()))
    assert await output.line() == "up"
    words = [b"%05d" % number * 20_000 for number in range(20)]
    answers = await asyncio.gather(*(_ask(publication, word) for word in words))
    assert answers == [b"100000 bytes, the first %05d" % number for number in range(20)]
    await publication.close()
    with pytest.raises(ConnectionError):
        await _ask(publication, b"too late")


class _Nowhere:
    async def connect(self, pod: str, port: int) -> socket.socket:
        raise ConnectionRefusedError(pod, port)


def test_another_port_where_the_pods_own_is_taken() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            publication = await publish(_Nowhere(), "a", port)
            assert publication.local_port != port
            assert publication.address == f"127.0.0.1:{publication.local_port}"
            await publication.close()
        publication = await publish(_Nowhere(), "a", port)
        assert publication.local_port == port
        await publication.close()

    run(story())

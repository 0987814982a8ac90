"""The processor time of the HTTP/1.1 client beside aiohttp's client, in the same run against the same server.

The server runs in a process of its own on loopback, over TLS as an API server does and over plain TCP, and sends
answers made beforehand. Each client sends as many requests at once as the controller does: reads of a small object,
creates of a pod, and it reads a watch line by line. Printed are milliseconds of the client's processor time for a
thousand requests or watch events, the best of several rounds in turns, and the ratio: how many times as much aiohttp
takes. The project keeps its own client only while that ratio is at least 2 for requests; a watch costs the same.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import multiprocessing
import ssl
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final, cast

import aiohttp
import uvloop

from pumice.engines.kubernetes.api.transport import Transport
from pumice.engines.kubernetes.auth.access import Access
from pumice.engines.kubernetes.auth.credentials import StaticCredentials
from pumice.engines.kubernetes.auth.tls import tls_context
from tests.cluster.pki import make_pki

PARALLEL: Final = 64
ROUNDS: Final = 5
REQUESTS: Final = 2_000
EVENTS: Final = 10_000
JSON: Final = "application/json"
TIMEOUT: Final = 60.0
TOKEN: Final = f"Bearer {'0123456789abcdef' * 40}"
HEADERS: Final = {"Authorization": TOKEN}

SMALL: Final = json.dumps({"kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "x" * 100}}).encode()
_ENV: Final = [{"name": f"VC_{number}", "value": "x" * 40} for number in range(30)]
_CONTAINER: Final = {"name": "c", "image": "train:1", "env": _ENV}
POD: Final = json.dumps({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [_CONTAINER]}}).encode()
EVENT: Final = json.dumps({"type": "MODIFIED", "object": json.loads(POD)}).encode() + b"\n"


def _answer(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nAudit-Id: 5ad1e6b6-7e6c-4f2c-bc2f\r\nCache-Control: no-cache, private\r\n"
    head += f"Content-Type: {JSON}\r\nDate: Mon, 16 Nov 2026 12:00:00 GMT\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


GET_ANSWER: Final = _answer("200 OK", SMALL)
POST_ANSWER: Final = _answer("201 Created", POD)
STREAM_HEAD: Final = f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
CHUNK: Final = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)


class Server(asyncio.Protocol):
    """Answers by method and path alone; a request never comes together with the next one."""

    def __init__(self) -> None:
        self.received = b""
        self.tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
        if not end or len(body) < int(length.partition(b":")[2]):
            return
        self.received = b""
        if head.startswith(b"POST"):
            self.transport.write(POST_ANSWER)
        elif b"watch=1" in head:
            self.tasks.add(asyncio.create_task(self.stream()))
        else:
            self.transport.write(GET_ANSWER)

    async def stream(self) -> None:
        """Send each event in a write of its own, as an API server does."""
        self.transport.write(STREAM_HEAD)
        for _ in range(EVENTS):
            self.transport.write(CHUNK)
            await asyncio.sleep(0)
        self.transport.write(b"0\r\n\r\n")


def serve(certificate: str, key: str, ports: Pipe) -> None:
    async def forever() -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, key)
        loop = asyncio.get_running_loop()
        servers = [await loop.create_server(Server, "127.0.0.1", 0, ssl=context) for context in (tls, None)]
        ports.send([server.sockets[0].getsockname()[1] for server in servers])
        await asyncio.Event().wait()

    uvloop.run(forever())


def check(good: object) -> None:
    if not good:
        raise SystemExit("a client got another answer than the server sent")


async def in_parallel(request: Callable[[], Awaitable[bytes]], answer: bytes) -> None:
    async def work() -> None:
        for _ in range(REQUESTS // PARALLEL):
            check(await request() == answer)

    await asyncio.gather(*(work() for _ in range(PARALLEL)))


class Own:
    def __init__(self, access: Access) -> None:
        self.transport = Transport(access, timeout=TIMEOUT)

    async def get(self) -> None:
        await in_parallel(lambda: self.transport.request("GET", "/leases/l"), SMALL)

    async def post(self) -> None:
        await in_parallel(lambda: self.transport.request("POST", "/pods", POD), POD)

    async def watch(self) -> None:
        connection, count = await self.transport.open_stream("/pods?watch=1"), 0
        while piece := await connection.read(TIMEOUT):
            count += piece.count(b"\n")
        connection.close()
        check(count == EVENTS)

    async def close(self) -> None:
        await self.transport.close()


class Aiohttp:
    """What a client on top of aiohttp has to do at least: send, read to the end, look at the status."""

    def __init__(self, access: Access) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=access.tls if access.tls is not None else False)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        headers = {**HEADERS, "Accept": JSON, "Content-Type": JSON, "User-Agent": "pumice"}
        self.session = aiohttp.ClientSession(
            access.server, connector=connector, headers=headers, timeout=timeout, auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(), skip_auto_headers={"Accept-Encoding"},
        )  # fmt: skip

    async def exchange(self, method: str, path: str, body: bytes | None = None) -> bytes:
        async with self.session.request(method, path, data=body, allow_redirects=False) as answer:
            content = await answer.read()
        check(answer.status < HTTPStatus.MULTIPLE_CHOICES)
        return content

    async def get(self) -> None:
        await in_parallel(lambda: self.exchange("GET", "/leases/l"), SMALL)

    async def post(self) -> None:
        await in_parallel(lambda: self.exchange("POST", "/pods", POD), POD)

    async def watch(self) -> None:
        rest, count = b"", 0
        async with self.session.get("/pods?watch=1") as answer:
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                count += len(lines)
        check(count == EVENTS)

    async def close(self) -> None:
        await self.session.close()


async def measure(access: Access) -> dict[str, list[float]]:
    """Milliseconds of processor time per thousand, of both clients."""
    clients: list[Own | Aiohttp] = [Own(access), Aiohttp(access)]
    best = {case: [float("inf")] * len(clients) for case in ("get", "post", "watch")}
    for _ in range(ROUNDS):
        for case, figures in best.items():
            for index, client in enumerate(clients):
                began = time.process_time()
                await getattr(client, case)()
                count = EVENTS if case == "watch" else REQUESTS // PARALLEL * PARALLEL
                figures[index] = min(figures[index], (time.process_time() - began) / count * 1e6)
    for client in clients:
        await client.close()
    return best


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        pki = make_pki(Path(folder), dt.datetime.now(dt.UTC))
        ports, sender = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(
            target=serve, args=(pki.path("server.crt"), pki.path("server.key"), sender), daemon=True
        )
        server.start()
        tls_port, plain_port = ports.recv()
        tls = tls_context(Path(pki.path("ca.crt")).read_bytes())
        secured = Access(f"https://127.0.0.1:{tls_port}", "default", tls, StaticCredentials(HEADERS), "benchmark")
        plain = Access(f"http://127.0.0.1:{plain_port}", "default", None, StaticCredentials(HEADERS), "benchmark")
        print("ms of processor time per 1,000     pumice   aiohttp   ratio")
        for name, access in (("TLS", secured), ("plain TCP", plain)):
            for case, (own, peer) in uvloop.run(measure(access)).items():
                print(f"{case + ', ' + name:<32} {own:>8.1f} {peer:>9.1f} {peer / own:>7.2f}")
        server.terminate()
        server.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A registry on a loopback address that answers as a test tells it to, byte by byte if need be."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.unit.engines.local.images.archives import E, config, digest, layer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DATA = random.Random(7).randbytes(3000)
PLAIN_LAYER = layer(E("data", DATA))
LAYER = gzip.compress(PLAIN_LAYER, mtime=0)
CONFIG = config([PLAIN_LAYER], Cmd=["/data"])


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def raw(self) -> bytes:
        headers = {"Content-Length": str(len(self.body)), "Connection": "close", **self.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
        return f"HTTP/1.1 {self.status} x\r\n{lines}\r\n".encode("latin-1") + self.body


# Returns an answer, raw bytes, or pieces that are sent one by one until the client has had enough.
Handler = Callable[[Request], Awaitable[Answer | bytes | AsyncIterator[bytes]]]


@dataclass
class FalseRegistry:
    """`answers` are by path; those that are not set are a good registry's."""

    host: str = ""
    answers: dict[str, Handler] = field(default_factory=dict)
    files: dict[str, Answer] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    _serving: set[asyncio.Task[None] | None] = field(default_factory=set)

    def put_image(self, repository: str = "box", **changes: Any) -> dict[str, Any]:
        """Offer an image of one layer; the changes are to its manifest."""
        blobs = {"config": CONFIG, "layer": LAYER}
        for data in blobs.values():
            self.files[f"/v2/{repository}/blobs/{digest(data)}"] = Answer(data)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"digest": digest(CONFIG), "size": len(CONFIG)},
            "layers": [{"digest": digest(LAYER), "size": len(LAYER)}],
            **changes,
        }
        self.put_manifest(json.dumps(manifest).encode(), repository=repository)
        return manifest

    def put_manifest(
        self, body: bytes, headers: Mapping[str, str] | None = None, *, repository: str = "box", version: str = "latest"
    ) -> None:
        headers = {"Content-Type": MANIFEST} if headers is None else headers
        self.files[f"/v2/{repository}/manifests/{version}"] = Answer(body, headers=headers)

    def put(self, path: str, answer: Answer | bytes) -> None:
        async def handler(_request: Request) -> Answer | bytes:
            return answer

        self.answers[path] = handler

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._serving.add(task)
        try:
            # Cancelled by `end`, or by a client that has had enough.
            with suppress(
                ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError
            ):
                await self._answer(reader, writer)
        finally:
            writer.close()
            self._serving.discard(task)

    async def end(self) -> None:
        """End the connections that are left."""
        tasks = [task for task in self._serving if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # The transports are closed in the next round of the event loop.
        await asyncio.sleep(0)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _read(reader)
        self.requests.append(request)
        path = request.path.partition("?")[0]
        if path in self.answers:
            answer = await self.answers[path](request)
        else:
            answer = self.files.get(path, Answer(status=200 if path == "/v2/" else 404))
        if isinstance(answer, bytes | Answer):
            writer.write(answer if isinstance(answer, bytes) else answer.raw())
        else:
            async for piece in answer:
                writer.write(piece)
                await writer.drain()
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    pairs: Sequence[tuple[str, str, str]] = [line.partition(":") for line in head[1:] if line]
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


@asynccontextmanager
async def false_registry() -> AsyncIterator[FalseRegistry]:
    found = FalseRegistry()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield found
    finally:
        server.close()
        await found.end()

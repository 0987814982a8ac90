"""Probes: asking a container whether it has started, is ready, is alive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pumice.engines.local.sandbox.problems import SandboxError, StartError
from pumice.model.job import Manifest

OK_STATUS = range(200, 400)


class Reach(Protocol):
    """How a probe gets at a container."""

    async def exec(self, argv: list[str], timeout: float) -> int: ...  # noqa: ASYNC109 - the command must be killed when the time is up

    async def connect(self, port: int) -> Any: ...


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe as a container's manifest has it, with Kubernetes' defaults."""

    handler: Manifest
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int

    @classmethod
    def read(cls, manifest: Manifest | None) -> Probe | None:
        if not manifest:
            return None
        return cls(
            handler=manifest,
            delay=manifest.get("initialDelaySeconds") or 0,
            period=manifest.get("periodSeconds") or 10,
            timeout=manifest.get("timeoutSeconds") or 1,
            successes=manifest.get("successThreshold") or 1,
            failures=manifest.get("failureThreshold") or 3,
        )

    async def ask(self, container: Manifest, reach: Reach) -> bool:
        """Ask once; anything but a clear yes is a no."""
        try:
            async with asyncio.timeout(self.timeout):
                return await self._ask(container, reach)
        except (TimeoutError, OSError, StartError, SandboxError):
            return False

    async def _ask(self, container: Manifest, reach: Reach) -> bool:
        if "exec" in self.handler:
            return await reach.exec(list(self.handler["exec"].get("command") or []), self.timeout) == 0
        if "httpGet" in self.handler:
            return await _http_get(self.handler["httpGet"], container, reach)
        target = self.handler.get("tcpSocket") or self.handler.get("grpc") or {}
        connection = await reach.connect(port_number(target.get("port"), container))
        connection.close()
        return True

    async def watch(self, container: Manifest, reach: Reach, tell: Callable[[bool], Awaitable[None]]) -> None:
        """Ask again and again, and tell when enough answers in a row agree; until it is cancelled."""
        await asyncio.sleep(self.delay)
        row, last = 0, False
        while True:
            good = await self.ask(container, reach)
            row = row + 1 if good is last else 1
            last = good
            if row == (self.successes if good else self.failures):
                await tell(good)
            await asyncio.sleep(self.period)


def port_number(port: object, container: Manifest) -> int:
    """A port given by number, or by the name that the container gives it."""
    for declared in container.get("ports") or []:
        if declared.get("name") == port:
            return int(declared["containerPort"])
    return int(str(port))


async def _http_get(target: Manifest, container: Manifest, reach: Reach) -> bool:
    connection = await reach.connect(port_number(target.get("port"), container))
    reader, writer = await asyncio.open_connection(sock=connection)
    headers = {"Host": "localhost", "User-Agent": "pumice-probe", "Connection": "close"}
    headers |= {header["name"]: header["value"] for header in target.get("httpHeaders") or []}
    lines = [f"GET {target.get('path') or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        status = await reader.readline()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    words = status.split()
    return len(words) > 1 and words[1].isdigit() and int(words[1]) in OK_STATUS

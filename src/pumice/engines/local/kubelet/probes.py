"""Probes (startup, readiness, liveness) and lifecycle hooks: exec, httpGet, tcpSocket, grpc and sleep."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from pumice.engines.local.sandbox.sandbox_errors import SandboxError, StartError
from pumice.model.job import Manifest

OK_STATUS: Final = range(200, 400)
_LONGEST_LINE: Final = 200


class Reach(Protocol):
    """How a probe reaches a container."""

    async def exec(self, argv: list[str], timeout: float | None) -> tuple[int, bytes]: ...  # noqa: ASYNC109 - the command must be killed when the time is up

    async def connect(self, port: int) -> Any: ...


class Probe(Struct, frozen=True):
    """A probe of a container's manifest, with Kubernetes' defaults."""

    handler: Manifest
    delay: float = 0
    period: float = 10
    timeout: float | None = 1
    successes: int = 1
    failures: int = 3

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

    async def check(self, container: Manifest, reach: Reach) -> str:
        """Run the probe once; return why it failed, "" if it succeeded."""
        try:
            async with asyncio.timeout(self.timeout):
                return await self._run(container, reach)
        except TimeoutError:
            return f"no answer within {self.timeout:g}s" if self.timeout is not None else "no answer"
        except OSError as error:
            return os.strerror(error.errno).lower() if error.errno is not None else str(error)
        except (StartError, SandboxError, ValueError) as error:
            return str(error)

    async def _run(self, container: Manifest, reach: Reach) -> str:
        if "exec" in self.handler:
            code, output = await reach.exec(list(self.handler["exec"].get("command") or []), self.timeout)
            return "" if code == 0 else f"exit code {code}{_last_line(output)}"
        if "httpGet" in self.handler:
            return await _http_get(self.handler["httpGet"], container, reach)
        if "sleep" in self.handler:
            await asyncio.sleep(self.handler["sleep"].get("seconds") or 0)
            return ""
        target = self.handler.get("tcpSocket") or self.handler.get("grpc") or {}
        connection = await reach.connect(port_number(target.get("port"), container))
        connection.close()
        return ""

    def since(self, seconds: float) -> Probe:
        """Return the probe for a container that started this many seconds ago: its delay counts from then."""
        return replace(self, delay=max(0.0, self.delay - seconds))

    async def watch(self, container: Manifest, reach: Reach, on_result: Callable[[str], Awaitable[None]]) -> None:
        """Run the probe periodically, and report when enough results in a row agree; until cancelled."""
        await asyncio.sleep(self.delay)
        row, last = 0, False
        while True:
            failure = await self.check(container, reach)
            good = not failure
            row = row + 1 if good is last else 1
            last = good
            if row == (self.successes if good else self.failures):
                await on_result(failure)
            await asyncio.sleep(self.period)


def port_number(port: object, container: Manifest) -> int:
    """Return a port that is given by number, or by its name in the container."""
    for declared in container.get("ports") or []:
        if declared.get("name") == port:
            return int(declared["containerPort"])
    if not str(port).isdecimal():
        raise ValueError(f"the container has no port named {port}")
    return int(str(port))


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1][:_LONGEST_LINE]}" if lines else ""


async def _http_get(target: Manifest, container: Manifest, reach: Reach) -> str:
    connection = await reach.connect(port_number(target.get("port"), container))
    # Like kubelet, do not verify the certificate.
    tls = ssl._create_unverified_context() if target.get("scheme") == "HTTPS" else None  # noqa: S323, SLF001 - see above
    reader, writer = await asyncio.open_connection(sock=connection, ssl=tls, server_hostname="" if tls else None)
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
    if len(words) < 2 or not words[1].isdigit():  # noqa: PLR2004 - the protocol, then the status
        return "the answer is not HTTP"
    return "" if int(words[1]) in OK_STATUS else f"HTTP status {int(words[1])}"

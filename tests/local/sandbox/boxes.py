"""A sandbox for a test: real namespaces, as whoever runs the tests. Every wait has an end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.sandbox.client import Ended, Sandbox
from pumice.engines.local.sandbox.diagnosis.kernel_support import KernelSupport, check_kernel
from pumice.engines.local.sandbox.specs import ContainerSpec, Mount, RootFs

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LONGEST_TEST = 60
AS_ROOT = os.geteuid() == 0


@functools.cache
def kernel() -> KernelSupport:
    return check_kernel()


def need_namespaces() -> None:
    if kernel().missing:
        pytest.skip("; ".join(map(str, kernel().missing)))


@dataclass
class Box:
    """A sandbox, and short words for what most tests do with it."""

    sandbox: Sandbox
    _addresses: Iterator[int] = field(default_factory=lambda: itertools.count(10))
    _started: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _outputs: list[Output] = field(default_factory=list)

    async def pod(self, name: str, address: str = "") -> str:
        address = address or f"10.77.0.{next(self._addresses)}"
        await self.sandbox.create_pod(name, address, name)
        return address

    def spec(self, pod: str, /, *argv: str, **changes: Any) -> ContainerSpec:
        spec = ContainerSpec(
            id=f"{pod}/{next(self._started)}",
            pod=pod,
            argv=argv,
            env={"PATH": PATH, "HOME": "/root"},
            cwd="/",
            root=RootFs(),
            hidden=("/home", "/root"),
        )
        return replace(spec, **changes)

    async def start(self, spec: ContainerSpec) -> Output:
        reader, writer = os.pipe()
        output = Output(self.sandbox, spec.id, reader)
        self._outputs.append(output)
        try:
            await self.sandbox.start_container(spec, writer, writer)
        finally:
            os.close(writer)
        return output

    def close(self) -> None:
        for output in self._outputs:
            output.close()

    async def run(self, spec: ContainerSpec) -> tuple[Ended, str]:
        output = await self.start(spec)
        text = await output.rest()
        return await output.ended(), text

    async def shell(self, pod: str, script: str, /, **changes: Any) -> tuple[int, str]:
        ended, text = await self.run(self.spec(pod, "sh", "-c", script, **changes))
        return ended.code, text


class Output:
    """What a container writes, and how it ends."""

    def __init__(self, sandbox: Sandbox, container: str, descriptor: int) -> None:
        self.container = container
        self._sandbox = sandbox
        self._file = os.fdopen(descriptor, "r", encoding="utf-8", errors="replace")

    async def line(self) -> str:
        return (await asyncio.to_thread(self._file.readline)).rstrip("\n")

    async def rest(self) -> str:
        return await asyncio.to_thread(self._file.read)

    async def ended(self) -> Ended:
        return await self._sandbox.ended(self.container)

    def close(self) -> None:
        self._file.close()


@contextlib.asynccontextmanager
async def box(stage: Path, name: str = "job") -> AsyncIterator[Box]:
    sandbox = await Sandbox.start(name, stage)
    made = Box(sandbox)
    try:
        yield made
    finally:
        await sandbox.close()
        made.close()


def in_box(test: Callable[[Box], Awaitable[None]]) -> Callable[[Path], None]:
    """Makes a test of a coroutine that wants a sandbox."""

    @functools.wraps(test)
    def wrapper(tmp_path: Path) -> None:
        async def story() -> None:
            async with box(tmp_path / "stage") as made:
                await test(made)

        run(story())

    # pytest would ask for the parameters of what was wrapped.
    del wrapper.__wrapped__
    return wrapper


def run(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(LONGEST_TEST):
            await story

    asyncio.run(bounded())


def python_mounts() -> tuple[Mount, ...]:
    """What shows this Python in a container, wherever it lies."""
    prefixes = {sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix)}
    return tuple(Mount(prefix, prefix, read_only=True) for prefix in prefixes if not prefix.startswith("/usr"))

"""Sandboxes for tests: real namespaces, as the user who runs the tests. Every wait is bounded."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import inspect
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.sandbox.client import Ended, Sandbox
from pumice.engines.local.sandbox.diagnosis.kernel_support import KernelSupport, check_kernel
from pumice.engines.local.sandbox.sandbox_errors import SandboxError
from pumice.engines.local.sandbox.specs import ContainerSpec, Mount, RootFs, SandboxOptions
from tests.patience import PATIENCE

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
AS_ROOT = os.geteuid() == 0


@functools.cache
def kernel() -> KernelSupport:
    return check_kernel()


def need_namespaces() -> None:
    if kernel().missing:
        pytest.skip("; ".join(map(str, kernel().missing)))


@dataclass
class Box:
    """A sandbox, with short methods for what most tests do with it."""

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
        return spec._replace(**changes)

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

    async def python(self, pod: str, program: str, /, *arguments: str, **changes: Any) -> Output:
        """Start the Python of the tests."""
        argv = (sys.executable, "-ISuc", program, *arguments)
        return await self.start(self.spec(pod, *argv, mounts=python_mounts(), **changes))

    async def exec(self, container: str, *argv: str) -> tuple[int, bytes]:
        return await self.sandbox.exec(container, argv, {"PATH": PATH}, PATIENCE)


class Output:
    """The output of a container, and its end."""

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
async def box(
    directory: Path,
    name: str = "job",
    options: SandboxOptions = SandboxOptions(),  # noqa: B008 - a value
) -> AsyncIterator[Box]:
    """A sandbox of its own, for a test that needs several, or that looks at what is left of one."""
    sandbox = await Sandbox.start(name, directory, options)
    made = Box(sandbox)
    try:
        yield made
    finally:
        await sandbox.close()
        made.close()


class _SharedSandbox(Sandbox):
    """Remembers its pods, so that a test can be followed by another."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.pods: set[str] = set()

    async def create_pod(self, pod: str, address: str, hostname: str) -> None:
        await super().create_pod(pod, address, hostname)
        self.pods.add(pod)

    async def remove_pod(self, pod: str) -> None:
        await super().remove_pod(pod)
        self.pods.discard(pod)


class _Shared:
    """One sandbox for all tests of this process, and the event loop that it belongs to.

    Starting and ending a sandbox takes longer than most tests. A test that ends the sandbox leaves the next one a new.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._directory = Path(tempfile.mkdtemp(prefix="pumice-tests-"))
        self._sandbox: _SharedSandbox | None = None
        atexit.register(self._close)

    def run(self, test: Callable[[Box], Awaitable[None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE):
                sandbox = self._sandbox = self._sandbox or await _SharedSandbox.start("shared", self._directory)
                made = Box(sandbox)
                try:
                    await test(made)
                finally:
                    await self._clean(sandbox)
                    made.close()

        self._runner.run(bounded())

    async def _clean(self, sandbox: _SharedSandbox) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(SandboxError):
            for pod in list(sandbox.pods):
                await sandbox.remove_pod(pod)
        if sandbox._closed:
            self._sandbox = None
            await sandbox.close()

    def _close(self) -> None:
        if self._sandbox is not None:
            self._runner.run(self._sandbox.close())
        self._runner.close()
        shutil.rmtree(self._directory, ignore_errors=True)


_shared = functools.cache(_Shared)


def in_box(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine whose first parameter is a Box; the others are fixtures.

    The sandbox is shared. Pods of the test are removed after it.
    """

    def in_shared(test: Callable[[Box], Awaitable[None]]) -> None:
        need_namespaces()
        _shared().run(test)

    return as_test(test, in_shared)


def as_test(
    test: Callable[..., Awaitable[None]], run_with: Callable[[Callable[[Any], Awaitable[None]]], None]
) -> Callable[..., None]:
    """Make a test of a coroutine; `run_with` supplies its first parameter, pytest the others."""

    @functools.wraps(test)
    def wrapper(**fixtures: Any) -> None:
        run_with(lambda first: test(first, **fixtures))

    signature = inspect.signature(test)
    parameters = list(signature.parameters.values())[1:]
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # read by pytest
    return wrapper


def run(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await story

    asyncio.run(bounded())


def python_mounts() -> tuple[Mount, ...]:
    """The mounts that show the Python of the tests in a container."""
    prefixes = {sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix)}
    return tuple(Mount(prefix, prefix, read_only=True) for prefix in prefixes if not prefix.startswith("/usr"))

"""What a job lives in: a sandbox of the kind that the user wants and the machine permits, and its ways in and out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from enum import StrEnum
from pathlib import Path

from pumice.engines.local.network.outbound import OutboundRoute, open_outbound
from pumice.engines.local.network.published_ports import publish
from pumice.engines.local.plain_processes.process_sandbox import ProcessSandbox
from pumice.engines.local.preflight import RefusedError
from pumice.engines.local.sandbox.client import Sandbox
from pumice.engines.local.sandbox.diagnosis.kernel_support import check_kernel, covered_proc
from pumice.engines.local.sandbox.sandbox_errors import ExhaustedError, SandboxError
from pumice.model.problem import Problem

AnySandbox = Sandbox | ProcessSandbox
Tell = Callable[[str], None]


async def _nothing_to_close() -> None:
    return


_NOWHERE = OutboundRoute(_nothing_to_close)
_ON_LINUX = sys.platform == "linux"


class Isolation(StrEnum):
    AUTO = "auto"
    NAMESPACES = "namespaces"
    PROCESS = "process"


class Network(StrEnum):
    JOB = "job"
    OUTBOUND = "outbound"


async def open_sandbox(name: str, place: Path, isolation: Isolation, warn: Tell) -> AnySandbox:
    """Raises RefusedError with the commands that grant what is missing."""
    try:
        return await _open(name, place, isolation, warn)
    except ExhaustedError as error:
        raise RefusedError(f"{name}: cannot be started: {error}") from error


async def _open(name: str, place: Path, isolation: Isolation, warn: Tell) -> AnySandbox:
    if isolation == Isolation.PROCESS:
        return await ProcessSandbox.start(name, place, warn=warn)
    try:
        return _warned(await _start(name, place), warn)
    except ExhaustedError:
        raise
    except SandboxError as error:
        support = await asyncio.to_thread(check_kernel)
        lines = [f"this machine refuses what pods are made of: {error}"]
        for problem in support.missing:
            lines += [f"  {line}" for line in _lines(problem)]
        if isolation == Isolation.NAMESPACES:
            raise RefusedError("\n".join(lines)) from error
    lines.append("  the pods run as plain processes (--isolation process), with nothing between them and this machine")
    warn("\n".join(lines))
    return await ProcessSandbox.start(name, place, warn=warn)


def only_user(sandbox: AnySandbox) -> str:
    """Who containers run as, where they cannot run as any user."""
    if isinstance(sandbox, ProcessSandbox):
        return "plain processes run as the user who runs the job"
    return "without root all containers run as one user, who is root inside"


@asynccontextmanager
async def way_out(
    sandbox: AnySandbox, network: Network, hosts: str, warn: Tell, lost: Tell
) -> AsyncIterator[OutboundRoute]:
    """What pods find it by; `warn` is told what it lacks, `lost` that it is gone.

    Plain processes have the machine's own network, whatever is asked for.
    """
    if isinstance(sandbox, ProcessSandbox):
        if network == Network.JOB:
            warn("--network job is not honoured: plain processes have the network of this machine")
        yield _NOWHERE
    elif network == Network.JOB:
        yield _NOWHERE
    else:
        way = await open_outbound(sandbox, _names(hosts))
        if way.note:
            warn(way.note)
        watching = asyncio.create_task(_watch(way, lost))
        try:
            yield way
        finally:
            watching.cancel()
            await way.close()


async def _watch(way: OutboundRoute, lost: Tell) -> None:
    if way.ended is not None:
        await way.ended()
        lost("what led the pods out has ended: from now on they reach each other only")


async def _start(name: str, place: Path) -> Sandbox:
    if not _ON_LINUX:
        raise SandboxError("this is not Linux")
    return await Sandbox.start(name, place)


def _warned(sandbox: Sandbox, warn: Tell) -> Sandbox:
    if not sandbox.own_proc:
        warn("\n  ".join(_lines(covered_proc())))
    return sandbox


def _lines(problem: Problem) -> Iterator[str]:
    yield str(problem)
    if problem.hint:
        yield f"hint: {problem.hint}"


@asynccontextmanager
async def published(
    sandbox: AnySandbox, ports: Sequence[tuple[str, int]], tell: Callable[[str, int, str], None]
) -> AsyncIterator[None]:
    """`ports` are pairs of a pod's full name and a port in it; told with the address that leads there."""
    async with AsyncExitStack() as stack:
        for pod, port in ports:
            # Plain processes share the machine's ports: on its own number the listener would be in the pod's way.
            publication = await publish(sandbox, pod, port, 0 if isinstance(sandbox, ProcessSandbox) else port)
            stack.push_async_callback(publication.close)
            tell(pod, port, publication.address)
        yield


def _names(hosts: str) -> Iterator[str]:
    for line in hosts.splitlines():
        words = line.partition("#")[0].split()
        if words and words[0].startswith("10."):
            # The address comes last: names are what programs use.
            yield from (*words[1:], words[0])

"""Opens the sandbox of a job, in namespaces or as plain processes, with its outbound route."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from pumice.engines.local.network.outbound import OutboundRoute, open_outbound
from pumice.engines.local.network.proxy import is_loopback, refused_networks
from pumice.engines.local.sandbox.client import Sandbox
from pumice.engines.local.sandbox.diagnosis.kernel_support import check_kernel, covered_proc
from pumice.engines.local.sandbox.sandbox_errors import ExhaustedError, SandboxError
from pumice.engines.local.sandbox.sandbox_port import SandboxPort
from pumice.engines.local.sandbox.specs import SandboxOptions
from pumice.model.problem import Option, Problem
from pumice.store.options import Isolation, Network
from pumice.store.run_errors import NoNamespacesError, Unsupported

Warn = Callable[[str], None]


async def _nothing_to_close() -> None:
    return


_NO_ROUTE = OutboundRoute(_nothing_to_close)
_DEFAULTS = SandboxOptions()
_ON_LINUX = sys.platform == "linux"


def is_root(id_map: Path = Path("/proc/self/uid_map")) -> bool:
    """Return whether this process is root of the machine, or of a container that has no users of its own."""
    try:
        inside, outside, _ = id_map.read_text().split()[:3]
    except OSError:
        inside = outside = "0"
    return os.geteuid() == 0 and inside == outside == "0"


async def open_sandbox(
    name: str, scratch: Path, isolation: Isolation, warn: Warn, options: SandboxOptions = _DEFAULTS
) -> SandboxPort:
    """Raises RefusedError with the commands that grant what is missing, for root NoNamespacesError."""
    try:
        if isolation == Isolation.PROCESS:
            return await _start_processes(name, scratch, warn)
        try:
            return await _open_namespaces(name, scratch, warn, options)
        except ExhaustedError:
            raise
        except SandboxError as error:
            missing = (await asyncio.to_thread(check_kernel)).missing
            lines = [f"this machine does not allow the namespaces that pods need: {error}"]
            lines += [f"  {line}" for problem in missing for line in _lines(problem)]
            if isolation == Isolation.NAMESPACES:
                raise Unsupported("\n".join(lines)) from error
            if is_root():
                lines.append("  plain processes of root are not isolated from this machine; to run them all the same:")
                refused = NoNamespacesError("\n".join(lines))
                refused.remedy = Option("isolation", str(Isolation.PROCESS))
                raise refused from error
        lines.append("  the pods run as plain processes (--isolation process), not isolated from this machine")
        warn("\n".join(lines))
        return await _start_processes(name, scratch, warn)
    except ExhaustedError as error:
        raise Unsupported(f"{name}: cannot be started: {error}") from error


async def _start_processes(name: str, scratch: Path, warn: Warn) -> SandboxPort:
    from pumice.engines.local.plain_processes.process_sandbox import ProcessSandbox  # noqa: PLC0415 - few machines need it

    return await ProcessSandbox.start(name, scratch, warn=warn)


async def _open_namespaces(name: str, scratch: Path, warn: Warn, options: SandboxOptions) -> SandboxPort:
    if not _ON_LINUX:
        raise SandboxError("this is not Linux")
    try:
        sandbox = await Sandbox.start(name, scratch, options)
    except ExhaustedError:
        raise
    except SandboxError:
        if (await asyncio.to_thread(check_kernel)).missing:
            raise
        # The kernel allows it, so a process of the sandbox was killed while it started.
        sandbox = await Sandbox.start(name, scratch, options)
    if not sandbox.own_proc:
        warn("\n  ".join(_lines(covered_proc())))
    if sandbox.unmapped:
        warn(f"root in a pod is root of this machine, though without its capabilities: {sandbox.unmapped}")
    return sandbox


def _lines(problem: Problem) -> Iterator[str]:
    yield str(problem)
    if problem.hint:
        yield f"hint: {problem.hint}"


@asynccontextmanager
async def outbound_route(
    sandbox: SandboxPort, network: Network, names: Iterable[str], warn: Warn, lost: Warn
) -> AsyncIterator[OutboundRoute]:
    """Connect pods to what this machine reaches. `names` are those of the pods, which need no route.

    `warn` is called with what the route cannot do, `lost` when it breaks down.
    """
    if not sandbox.own_network and network == Network.JOB:
        warn("--network job has no effect: plain processes use the network of this machine")
    if not sandbox.own_network or network == Network.JOB:
        yield _NO_ROUTE
        return
    if network == Network.ALL:
        route = await open_outbound(sandbox, names, permits=lambda address: not is_loopback(address))
    else:
        route = await open_outbound(sandbox, names, refused=refused_networks())
    if route.note:
        warn(route.note)
    watching = asyncio.create_task(_watch(route, lost))
    try:
        yield route
    finally:
        watching.cancel()
        await route.close()


async def _watch(route: OutboundRoute, lost: Warn) -> None:
    if route.ended is not None:
        await route.ended()
        lost("the outbound network is down: from now on pods reach only each other")

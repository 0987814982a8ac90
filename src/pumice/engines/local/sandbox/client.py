"""The sandbox of one job, as the engine uses it: asynchronous calls that job-init executes.

sandbox = await Sandbox.start("job", scratch)
await sandbox.create_pod("job-worker-0", "10.77.0.10", "job-worker-0")
await sandbox.start_container(spec, stdout, stderr)
ended = await sandbox.ended(spec.id)
await sandbox.close()
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pumice.engines.local.rpc.async_wire import AsyncWire
from pumice.engines.local.rpc.wire import Message, Wire, close_all
from pumice.engines.local.sandbox import protocol, scratch
from pumice.engines.local.sandbox.entered import (
    CollectedOutput,
    Entered,
    Program,
    received_terminal,
    stream_pipes,
    terminal_channel,
)
from pumice.engines.local.sandbox.init import seccomp
from pumice.engines.local.sandbox.python_start import loader_environment, python_start
from pumice.engines.local.sandbox.sandbox_errors import NO_PROCESS, ExhaustedError, SandboxError, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, SandboxOptions
from pumice.engines.local.sandbox.tree_stream import Copy

_DEFAULTS = SandboxOptions()
_GATEWAY = "10.77.0.1"
_SIGNAL_ATTEMPTS = 100
_SIGNAL_RETRY = 0.01
_OUTPUT_GRACE = 0.1


@dataclass(frozen=True, slots=True)
class Ended:
    """How a container ended: its exit code (128 + n after signal n), and whether it ran out of memory."""

    code: int
    signal: int
    oom: bool


class Sandbox:
    """Created by `start`; all its processes end with `close`, or with this process."""

    only_user = "without root all containers run as one user, who is root inside"
    own_network = True

    def __init__(
        self, channel: socket.socket, tunnels: socket.socket, process: subprocess.Popen[bytes], errors: int
    ) -> None:
        self._process = process
        self._errors = errors
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._ends: dict[str, asyncio.Future[Ended]] = {}
        self._up: asyncio.Future[Message] = self._loop.create_future()
        self._pid: asyncio.Future[int] = self._loop.create_future()
        self._closed: str = ""
        self._contents: dict[bytes, int] = {}  # of files, that job-init has
        self._tunnels = Wire(tunnels, protocol.FORMAT)
        self.on_lost: Callable[[str], None] = lambda _reason: None
        self._job_init = AsyncWire(Wire(channel, protocol.FORMAT), self._lose, self._handle)

    @classmethod
    async def start(cls, name: str, parent: Path, options: SandboxOptions = _DEFAULTS) -> Self:
        """Scratch directories go to `parent`. Raises SandboxError if the kernel refuses; see `kernel_support`."""
        if not seccomp.is_known(machine := os.uname().machine):
            raise SandboxError(f"there is no system call filter for this machine ({machine})")
        directory, lock = await asyncio.to_thread(scratch.claim, parent, name)
        ours, theirs = socket.socketpair()
        our_tunnels, their_tunnels = socket.socketpair()
        errors = os.memfd_create("job-init", os.MFD_CLOEXEC)
        config = {
            "channel": theirs.fileno(),
            "lock": lock,
            "engine": os.getpid(),
            "name": directory.name,
            "directory": str(directory),
            "gateway": _GATEWAY,
            "shared": list(options.shared),
            "nested": options.nested,
        }
        try:
            process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program; it starts within a millisecond
                python_start("sandbox.init.read_only_start", json.dumps(config), str(their_tunnels.fileno())),
                pass_fds=(theirs.fileno(), their_tunnels.fileno(), lock),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd="/",
                env={"PATH": os.defpath, **loader_environment(os.environ)},
                # Ctrl-C at the terminal is for the engine only, which ends the job in order.
                start_new_session=True,
            )
        except BlockingIOError as error:
            ours.close()
            our_tunnels.close()
            os.close(errors)
            scratch.remove(directory)
            raise ExhaustedError(NO_PROCESS) from error
        finally:
            theirs.close()
            their_tunnels.close()
            os.close(lock)
        sandbox = cls(ours, our_tunnels, process, errors)
        try:
            await asyncio.gather(sandbox._up, sandbox._pid)
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    @property
    def pid(self) -> int:
        """The pid of job-init in the host's namespace; the tunnel programs join its namespaces by it."""
        return self._pid.result()

    @property
    def all_users(self) -> bool:
        """Whether containers can run as any user; otherwise all run as one user, who is root inside."""
        return bool(self._up.result()["all_users"])

    @property
    def unmapped(self) -> str:
        """Why root of a container is root of this machine; empty if it is not."""
        return str(self._up.result()["unmapped"])

    @property
    def own_proc(self) -> bool:
        """Whether pods have a /proc of their own; otherwise they see all processes of this machine."""
        return bool(self._up.result()["own_proc"])

    @property
    def limits(self) -> frozenset[str]:
        """Those of memory, cpu and pids that the kernel enforces; elsewhere job-init polls the memory."""
        return frozenset(self._up.result()["limits"])

    async def create_pod(self, pod: str, address: str, hostname: str) -> None:
        await self._job_init.call("create_pod", pod=pod, address=address, hostname=hostname)

    async def remove_pod(self, pod: str) -> None:
        """Kill what still runs in the pod, and remove it."""
        await self._job_init.call("remove_pod", pod=pod)

    async def start_container(self, spec: ContainerSpec, stdout: int, stderr: int) -> None:
        """Returns when the command runs; raises StartError if it cannot run."""
        previous = self._ends.get(spec.id)
        if previous is not None and not previous.done():
            raise ValueError(f"{spec.id}: already running")
        if spec.root.upper is not None:
            # job-init may not be able to.
            os.makedirs(os.path.dirname(spec.root.upper), 0o700, exist_ok=True)
        self._ends[spec.id] = self._loop.create_future()
        try:
            # The caller may close its own before they are sent.
            copies = os.dup(stdout), os.dup(stderr)
            await self._job_init.exchange("start", copies, spec=protocol.encode_spec(spec, self._contents))
        except StartError:
            del self._ends[spec.id]
            raise

    async def signal(self, container: str, number: int) -> None:
        """Send a signal to the first process; SIGKILL ends the whole container. No effect after its end.

        SIGTERM also ends the whole container if the first process has no handler. That cannot be seen while the
        process starts a child, so job-init is asked again.
        """
        end = self._ends.get(container)
        for left in reversed(range(_SIGNAL_ATTEMPTS)):
            if end is None or end.done():
                return
            try:
                if await self._job_init.call("signal", container=container, number=int(number), now=left == 0):
                    return
            except StartError:
                return
            await asyncio.sleep(_SIGNAL_RETRY)

    async def ended(self, container: str) -> Ended:
        return await asyncio.shield(self._ends[container])

    async def exec(
        self,
        container: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        timeout: float | None = None,  # noqa: ASYNC109 - the command must be killed when the time is up
    ) -> tuple[int, bytes]:
        """Run a command in a container; returns exit code and output. Raises TimeoutError or StartError."""
        execution = f"exec-{next(self._numbers)}"
        reader, writer = os.pipe()
        os.fchmod(writer, 0o666)  # as in LogPump.open
        try:
            transport, output = await self._loop.connect_read_pipe(
                CollectedOutput, os.fdopen(reader, "rb", buffering=0)
            )
        except BaseException:
            os.close(writer)
            raise
        try:
            async with asyncio.timeout(timeout):
                code, _ = await self._job_init.exchange(
                    "exec",
                    (writer,),
                    container=container,
                    execution=execution,
                    argv=list(argv),
                    env=dict(env),
                )
            # A process in the background may keep the pipe open.
            await asyncio.wait([output.ended], timeout=_OUTPUT_GRACE)
            return int(code), bytes(output.data)
        except (TimeoutError, asyncio.CancelledError):
            if not self._closed:
                await asyncio.shield(self._job_init.call("cancel", execution=execution))
            raise
        finally:
            transport.close()

    async def enter(self, container: str, command: Program | Copy, size: tuple[int, int] | None = None) -> Entered:
        name = f"exec-{next(self._numbers)}"
        channel: socket.socket | None = None
        if size is None:
            ours, theirs = stream_pipes()
        else:
            channel, end = terminal_channel()
            ours, theirs = [], [end]

        async def cancel() -> None:
            if not self._closed:
                await self._job_init.call("cancel", execution=name)

        async def code() -> int:
            if isinstance(command, Copy):
                details: dict[str, Any] = {"copy": command}
            else:
                details = {"argv": list(command.argv), "env": dict(command.env), "size": size}
            ended = await self._job_init.exchange("exec", theirs, container=container, execution=name, **details)
            return int(ended[0])

        ended = asyncio.create_task(code())
        if channel is not None:
            ours = [await received_terminal(channel, ended)]
        return Entered(ours, ended, cancel)

    async def usage(self) -> Mapping[str, tuple[float, int]]:
        usage = await self._job_init.call("usage")
        return {name: (float(cpu), int(memory)) for name, (cpu, memory) in usage.items()}

    async def connect(self, pod: str, port: int) -> socket.socket:
        """Open a non-blocking TCP connection from inside the job's network."""
        address, descriptors = await self._job_init.exchange("socket", (), pod=pod)
        connection = socket.socket(fileno=descriptors[0])
        connection.setblocking(False)
        try:
            await self._loop.sock_connect(connection, (address, port))
        except BaseException:
            connection.close()
            raise
        return connection

    async def listen(self, address: str, port: int) -> socket.socket:
        """Open a non-blocking listener in the job's network, at the gateway's address."""
        _, descriptors = await self._job_init.exchange("listen", (), address=address, port=port)
        listener = socket.socket(fileno=descriptors[0])
        listener.setblocking(False)
        return listener

    def start_tunnel(self, config: Message, streams: Sequence[int]) -> None:
        """Start a tunnel in a process of its own, with these standard streams; see `net.tunnel`. Raises OSError."""
        self._tunnels.send(config, [os.dup(each) for each in streams])

    async def close(self) -> None:
        """Returns when every process of the job has ended."""
        self._disconnect("the sandbox is closed")
        self._tunnels.close()
        if self._process.returncode is None:
            await _process_end(self._process)
        if self._errors >= 0:
            os.close(self._errors)
            self._errors = -1

    def _handle(self, message: Message, descriptors: list[int]) -> None:
        close_all(descriptors)  # of an answer that nobody awaits any more
        if "ended" in message:
            end = self._ends[message["ended"]]
            if not end.done():
                end.set_result(Ended(message["code"], message["signal"], message["oom"]))
        elif "up" in message:
            self._up.set_result(message["up"])
        elif "pid" in message:
            self._pid.set_result(message["pid"])
        elif "refused" in message:
            self._disconnect(message["refused"])
        elif "exhausted" in message:
            self._disconnect(message["exhausted"], ExhaustedError)

    def _lose(self) -> SandboxError:
        reason = f"job-init has ended{self._last_error()}"
        self.on_lost(reason)
        self._disconnect(reason)
        return SandboxError(reason)

    def _disconnect(self, reason: str, kind: type[SandboxError] = SandboxError) -> None:
        if self._closed:
            return
        self._closed = reason
        self._job_init.abort(kind(reason))
        waiting: list[asyncio.Future[Any]] = [self._up, self._pid, *self._ends.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(kind(reason))
                # Mark it as retrieved, or asyncio warns about futures that nothing awaits.
                future.exception()

    def _last_error(self) -> str:
        size = os.fstat(self._errors).st_size
        text = os.pread(self._errors, 4096, max(0, size - 4096)).decode(errors="replace").strip()
        return f": {text.splitlines()[-1]}" if text else ""


async def _process_end(process: subprocess.Popen[bytes]) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    pidfd = os.pidfd_open(process.pid)
    try:
        loop.add_reader(pidfd, over.set)
        await over.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
    process.wait()

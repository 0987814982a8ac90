"""The sandbox for machines that refuse namespaces (`--isolation process`): pods are plain processes.

It has the methods of `sandbox.client.Sandbox`. Pods reach each other over loopback, are not isolated, have no limits,
and run as the user who runs the job.
"""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct

from pumice.engines.local.network.addresses import POD_INTERFACE, interface_env, loopback_interface
from pumice.engines.local.plain_processes.files import PROGRAMS, TERMINATION_LOG, VARIABLE, ContainerFiles
from pumice.engines.local.plain_processes.loopback_names import Translation
from pumice.engines.local.plain_processes.reaper import AVAILABLE, Reaper, descendants, kill_all, kill_group
from pumice.engines.local.plain_processes.ssh import configure_ssh, keys_of
from pumice.engines.local.rpc.wire import Message, close_all
from pumice.engines.local.sandbox import scratch
from pumice.engines.local.sandbox.client import Ended
from pumice.engines.local.sandbox.entered import Entered, Program, copied_here, set_size, stream_pipes
from pumice.engines.local.sandbox.init.exec_command import explain, find
from pumice.engines.local.sandbox.init.usage import SharedMemory, cpu_seconds
from pumice.engines.local.sandbox.sandbox_errors import (
    GONE,
    IMAGE,
    LIMITS,
    NO_PROCESS,
    WORKING_DIRECTORY,
    ExhaustedError,
    SandboxError,
    StartError,
)
from pumice.engines.local.sandbox.specs import ContainerSpec
from pumice.engines.local.sandbox.tree_stream import Copy
from pumice.runtime.once import Once

Warn = Callable[[str], None]
Streams = tuple[int, int, int]  # standard input, output and error


class _Running(Struct):
    process: asyncio.subprocess.Process
    files: ContainerFiles
    env: dict[str, str]
    cwd: str
    end: asyncio.Task[Ended]


class ProcessSandbox:
    """Created by `start`."""

    all_users = False
    only_user = "plain processes run as the user who runs the job"
    own_network = False
    limits: frozenset[str] = frozenset()

    def __init__(self, directory: Path, lock: int, warn: Warn) -> None:
        self._directory = directory
        self._warn = warn
        self._warnings = Once()
        self._reaper = Reaper(lock)
        self._translation = Translation()
        self._addresses: dict[str, str] = {}
        self._containers: dict[str, _Running] = {}
        self._entered: set[asyncio.Task[int]] = set()
        self._memory = SharedMemory()
        self._closed = False
        self.on_lost: Callable[[str], None] = lambda _reason: None  # the pods are processes of this one

    @classmethod
    async def start(cls, name: str, parent: Path, *, warn: Warn) -> Self:
        directory, lock = await asyncio.to_thread(scratch.claim, parent, name)
        try:
            return cls(directory, lock, warn)
        except ExhaustedError:
            scratch.remove(directory)
            raise
        finally:
            os.close(lock)

    @property
    def pid(self) -> int:
        return self._reaper.pid

    async def create_pod(self, pod: str, address: str, hostname: str) -> None:
        self._addresses[pod] = address
        self._translation.learn(f"{address} {hostname}")

    async def remove_pod(self, pod: str) -> None:
        containers = [running for name, running in self._containers.items() if name.rpartition("/")[0] == pod]
        await self._end(containers)
        self._addresses.pop(pod, None)

    async def start_container(self, spec: ContainerSpec, stdout: int, stderr: int) -> None:
        if self._closed:
            raise SandboxError("the sandbox is closed")
        if spec.pod not in self._addresses:
            raise StartError(GONE, f"{spec.pod}: no such pod")
        if spec.root.image is not None:
            raise StartError(IMAGE, "an image needs namespaces; with --isolation process the host serves as image")
        for file in spec.files:
            if file.path == "/etc/hosts":
                self._translation.learn(file.data.decode(errors="replace"))
        files, env = await asyncio.to_thread(self._prepare, spec)
        for mount in spec.mounts:
            # Every container has a termination log, whether it uses it or not.
            if mount.target in files.targets and mount.target != TERMINATION_LOG:
                self._warn_once(
                    f"{mount.target} is at ${VARIABLE}{mount.target} without namespaces; "
                    "paths in commands and variables are rewritten"
                )
        if spec.memory is not None:
            self._warn_once("limits.memory is not enforced without namespaces")
        if spec.root.read_only:
            self._warn_once("readOnlyRootFilesystem has no effect without namespaces")
        argv = [files.rewrite_paths(self._translation.text(word)) for word in spec.argv]
        cwd = files.host_path(spec.cwd)
        process = await self._spawn(argv, env, cwd, (subprocess.DEVNULL, stdout, stderr), spec.cpus)
        end = asyncio.create_task(self._watch(process, env))
        self._containers[spec.id] = _Running(process, files, env, cwd, end)

    def _prepare(self, spec: ContainerSpec) -> tuple[ContainerFiles, dict[str, str]]:
        """Create the files of a container, in the directory for its writable layer if that is kept."""
        root = spec.root.upper or str(self._directory / spec.id.replace("/", "."))

        def translate(text: str) -> str:
            # A file that contains only the pod's own name is an identity, not an address.
            return text if text.strip() == spec.pod else self._translation.text(text)

        files = ContainerFiles(Path(root), translate)
        files.populate(spec)
        env = self._env(self._translation.env(spec.env, spec.pod), files)
        if keys_of(spec):
            # Open MPI otherwise tries every network of the machine.
            mpi = ("OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl_tcp_if_include")
            env = {**dict.fromkeys(mpi, loopback_interface()), **env}
            configure_ssh(files, spec, self._translation, self._addresses[spec.pod], env)
        return files, env

    async def signal(self, container: str, number: int) -> None:
        running = self._containers.get(container)
        if running is None or running.end.done():
            return
        if number == signal.SIGKILL:
            kill_group(running.process.pid)
        else:
            running.process.send_signal(number)

    async def ended(self, container: str) -> Ended:
        return await asyncio.shield(self._containers[container].end)

    async def exec(
        self,
        container: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        timeout: float | None = None,  # noqa: ASYNC109 - the command must be killed when the time is up
    ) -> tuple[int, bytes]:
        streams = (subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT)
        process = await self._spawn_in(self._running(container), argv, env, streams)
        try:
            async with asyncio.timeout(timeout):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                kill_group(process.pid)
                await process.wait()
            self._reaper.remove(process.pid)
        return _ended(await process.wait()).code, output

    async def enter(self, container: str, command: Program | Copy, size: tuple[int, int] | None = None) -> Entered:
        running = self._running(container)
        if isinstance(command, Copy):
            return copied_here(command._replace(path=running.files.host_path(command.path)))
        if size is None:
            ours, theirs = stream_pipes()
        else:
            other_end, terminal = os.openpty()
            set_size(terminal, size)
            ours, theirs = [other_end], [terminal] * 3
        try:
            stdin, stdout, stderr = theirs
            process = await self._spawn_in(running, command.argv, command.env, (stdin, stdout, stderr))
        except BaseException:
            close_all(ours)
            raise
        finally:
            close_all(set(theirs))

        async def cancel() -> None:
            if process.returncode is None:
                kill_group(process.pid)

        async def code() -> int:
            """The command ends with its container, as in a pid namespace."""
            end = asyncio.create_task(process.wait())
            await asyncio.wait((end, running.end), return_when=asyncio.FIRST_COMPLETED)
            await cancel()
            ended = _ended(await end).code
            self._reaper.remove(process.pid)
            return ended

        entered = asyncio.create_task(code())
        self._entered.add(entered)
        entered.add_done_callback(self._entered.discard)
        return Entered(ours, entered, cancel)

    def _running(self, container: str) -> _Running:
        running = self._containers.get(container)
        if running is None or running.end.done():
            raise StartError(GONE, f"{container}: does not run")
        return running

    async def _spawn_in(
        self, running: _Running, argv: Sequence[str], env: Mapping[str, str], streams: Streams
    ) -> asyncio.subprocess.Process:
        words = [running.files.rewrite_paths(self._translation.text(word)) for word in argv]
        translated = self._env(env, running.files)
        variables = {**running.env, **{name: translated[name] for name in env}}
        return await self._spawn(words, variables, running.cwd, streams)

    async def usage(self) -> Mapping[str, tuple[float, int]]:
        running = {name: each.process.pid for name, each in self._containers.items() if not each.end.done()}
        return await asyncio.to_thread(self._usage, running)

    def _usage(self, running: Mapping[str, int]) -> dict[str, tuple[float, int]]:
        """The process of a container is its shim, a copy of this one: its memory does not count, its children do."""
        if not AVAILABLE:
            return {}
        below = descendants(running.values())
        memory = self._memory.read({name: below[root] for name, root in running.items()})
        return {name: (sum(map(cpu_seconds, (root, *below[root]))), memory[name]) for name, root in running.items()}

    async def connect(self, pod: str, port: int) -> socket.socket:
        if pod not in self._addresses:
            raise StartError(GONE, f"{pod}: no such pod")
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            address = self._addresses[pod]
            there = (self._translation.loopback(address), self._translation.known_port(address, port))
            await asyncio.get_running_loop().sock_connect(connection, there)
        except BaseException:
            connection.close()
            raise
        return connection

    async def listen(self, address: str, port: int) -> socket.socket:
        raise SandboxError(f"{address}:{port}: plain processes have no network of the job to listen in")

    def start_tunnel(self, config: Message, streams: Sequence[int]) -> None:  # noqa: ARG002 - the port has them
        raise SandboxError("plain processes have no network of the job to connect")

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._end(list(self._containers.values()))
        await asyncio.gather(*self._entered)
        self._reaper.close()
        await asyncio.to_thread(shutil.rmtree, self._directory, True)

    async def _end(self, containers: list[_Running]) -> None:
        for running in containers:
            if not running.end.done():
                kill_group(running.process.pid)
        await asyncio.gather(*(running.end for running in containers))

    async def _watch(self, process: asyncio.subprocess.Process, env: Mapping[str, str]) -> Ended:
        """Kill what the first process of a container leaves behind, as the end of a pid namespace does.

        Where there is a shim, it has done so, and the number of the process may belong to another by now.
        """
        code = await process.wait()
        await asyncio.to_thread(kill_all, process.pid, _mark(env))
        self._reaper.remove(process.pid)
        return _ended(code)

    async def _spawn(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, streams: Streams, cpus: Sequence[int] = ()
    ) -> asyncio.subprocess.Process:
        # The container may have removed its working directory.
        directory = cwd if await asyncio.to_thread(Path(cwd).is_dir) else env[VARIABLE]
        name = str(Path(directory, argv[0])) if "/" in argv[0] else argv[0]
        command = find(name, env.get("PATH", os.defpath))
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                executable=command,
                env=dict(env),
                cwd=directory,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                start_new_session=True,
                # Makes system calls only, and takes no lock that another thread may hold.
                preexec_fn=functools.partial(self._reaper.add_self, _mark(env), cpus),
            )
        except BlockingIOError as error:
            raise StartError(LIMITS, NO_PROCESS) from error
        except OSError as error:
            if error.filename == directory:
                raise StartError(WORKING_DIRECTORY, str(error)) from error
            raise explain(command, error) from error
        return process

    def _env(self, env: Mapping[str, str], files: ContainerFiles) -> dict[str, str]:
        translated = {name: files.rewrite_paths(value) for name, value in env.items()}
        for name, value in interface_env(loopback_interface()).items():
            if translated.get(name, POD_INTERFACE) == POD_INTERFACE:
                translated[name] = value
        if not os.access(translated.get("HOME", ""), os.W_OK):
            translated["HOME"] = str(files.root)
        path = f"{files.root}{PROGRAMS}:{translated.get('PATH', os.defpath)}"
        return {**translated, "PATH": path, VARIABLE: str(files.root)}

    def _warn_once(self, warning: str) -> None:
        if self._warnings.first(warning):
            self._warn(warning)


def _mark(env: Mapping[str, str]) -> str:
    return f"{VARIABLE}={env[VARIABLE]}"


def _ended(code: int) -> Ended:
    return Ended(128 - code, -code, oom=False) if code < 0 else Ended(code, 0, oom=False)

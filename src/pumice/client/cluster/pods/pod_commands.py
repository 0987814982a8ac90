"""Commands in the containers of a Job's pods."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from pumice.client.backend import Exec, KillPod, RunRef
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_facts import ClusterPod, read_current, read_pod
from pumice.client.cluster.pods.pod_streams import PodStreams, Stream, connection_lost, read_end, size_message
from pumice.client.loop_thread import private_loop
from pumice.client.pod_access import NotStartedError
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.pod_socket import PodSocket
from pumice.engines.kubernetes.api.resources import PODS
from pumice.model.problem import Command
from pumice.model.slot import slots
from pumice.model.text import some
from pumice.store.run_errors import ConnectionFailed, Denied, NoSuchPod, RunError, Unsupported, WrongState

_CONTAINERS: Final = ("containers", "initContainers")
_SIGKILL: Final = 9
_NO_RIGHT: Final = "ask an administrator for a Role with get and create of pods/{}"


class Target(Struct, frozen=True):
    """A container that runs."""

    connection: Connection
    run: RunRef
    pod: str  # TASK-INDEX
    full_name: str
    container: str

    def __str__(self) -> str:
        return f"{self.run}/{self.pod}"

    def path(self, subresource: str) -> str:
        return PODS.path(self.run.namespace, self.full_name, subresource)

    async def open(self, argv: Sequence[str], *, terminal: bool = False, stdin: bool = True) -> PodSocket:
        """Start a command. A terminal has one stream for all its output. Raises RunError."""
        streams = {"stdin": stdin, "stdout": True, "stderr": not terminal, "tty": terminal}
        params = [*(("command", each) for each in argv), ("container", self.container)]
        params += [(name, "true") for name, is_wanted in streams.items() if is_wanted]
        try:
            return await PodSocket.open(self.connection.access, self.path("exec"), params)
        except ApiError as error:
            raise self.explained(error, "exec") from error

    def explained(self, error: ApiError, subresource: str) -> RunError:
        if error.is_forbidden:
            return Denied(f"{self.connection.name}: {error}", _NO_RIGHT.format(subresource))
        if error.not_found:
            return WrongState(f"{self}: it is gone", "a pod that replaces it has the same name")
        if error.status in (400, 500, 502, 503) and error.message:
            # The kubelet answered, or it could not be reached.
            return ConnectionFailed(f"{self}: {error}")
        return self.connection.explained(error)


async def find_target(connection: Connection, run: RunRef, pod: str, container: str = "") -> Target:
    """Return a container of a pod that runs. Raises NoSuchPod, WrongState, Denied."""
    found, names, init_names = await _find_pod(connection, run, pod)
    known = [*names, *init_names]
    name = container or names[0]
    if name not in known:
        raise NoSuchPod(f"{run}/{pod} has no container {name}", f"it has {some(known)}")
    seen = found.observed
    if any(each.name == name and each.is_running for each in found.containers):
        return Target(connection, run, pod, found.name, name)
    what = f"{run}/{seen.short_name}: container {name} does not run"
    if seen.is_finished:
        message = f"{what}: the pod is {seen.phase}"
        raise WrongState(message, (Command("logs", str(run), seen.short_name), " has what it printed"))
    why = "" if seen.waiting is None else seen.waiting.reason
    raise WrongState(f"{what}: the pod is {seen.phase}{f', {why}' if why else ''}", (Command("why", str(run)),))


async def _find_pod(connection: Connection, run: RunRef, pod: str) -> tuple[ClusterPod, list[str], list[str]]:
    """Return a pod with the names of its containers and of its init containers.

    Raises NoSuchPod; WrongState if the Job does not have it now.
    """
    raw = await connection.get(PODS, run.namespace, f"{run.name}-{pod}")
    if raw is not None and (found := read_pod(raw, run.uid)) is not None:
        spec = msgspec.json.decode(raw)["spec"]
        names, init_names = ([str(each["name"]) for each in spec.get(kind) or ()] for kind in _CONTAINERS)
        return found, names, init_names
    with connection.explaining():
        job = await read_current(connection, run)
    known = [each.short_name for each in slots(job)]
    if pod not in known:
        raise NoSuchPod(f"{run}/{pod}: no such pod", f"it has {some(known)}")
    message = f"{run}/{pod}: there is no such pod now: the Job is {job.status.state.phase or 'new'}"
    raise WrongState(message, (Command("why", str(run)),))


async def check_right(connection: Connection, namespace: str, subresource: str) -> None:
    """Raises Denied if this user may not use a subresource of pods."""
    try:
        allowed = await connection.may("create", PODS, namespace, subresource)
    except ApiError as error:
        if error.is_forbidden:
            return
        raise connection.explained(error) from error
    if not allowed:
        message = f"{connection.name}: you may not create pods/{subresource} in {namespace}"
        raise Denied(message, _NO_RIGHT.format(subresource))


async def enter(connection: Connection, run: RunRef, command: Exec) -> PodStreams:
    """Run a command with streams, or on a terminal. Raises RunError."""
    target = await find_target(connection, run, command.pod, command.container)
    on_terminal = command.size is not None

    async def start() -> PodStreams:
        opened = await target.open(command.argv, terminal=on_terminal)
        if command.size is not None:
            await opened.send(Stream.SIZE, size_message(command.size))
        return PodStreams(opened, str(target), asyncio.get_running_loop(), on_terminal=on_terminal)

    loop = private_loop().loop
    if loop is asyncio.get_running_loop():
        return await start()
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(start(), loop))


async def run_command(connection: Connection, run: RunRef, command: Exec) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end; return its code, and its output and errors as they came. Raises RunError."""
    target = await find_target(connection, run, command.pod, command.container)
    try:
        async with asyncio.timeout(command.timeout):
            code, output = await output_of(target, command.argv)
    except TimeoutError as error:
        raise WrongState(f"{target}: the command has not ended within {command.timeout:g} s") from error
    return subprocess.CompletedProcess(list(command.argv), code, output)


async def output_of(target: Target, argv: Sequence[str]) -> tuple[int, bytes]:
    """Raises RunError: NotStartedError if the command is not in the container."""
    opened = await target.open(argv, stdin=False)
    output, end = bytearray(), None
    try:
        while (found := await opened.receive()) is not None:
            stream, data = found
            if stream == Stream.STATUS:
                end = read_end(data) or end
            elif stream in (Stream.OUTPUT, Stream.ERROR):
                output += data
    finally:
        await opened.close()
    if end is None:
        raise connection_lost(str(target))
    return end.code(str(target)), bytes(output)


async def kill(connection: Connection, run: RunRef, change: KillPod) -> tuple[str, ...]:
    """Send a signal to the first process of each running container; an empty result if none runs. Raises RunError."""
    if change.signal == _SIGKILL:
        message = f"{run}/{change.pod}: a container's first process cannot be killed from inside"
        raise Unsupported(message, f"kubectl -n {run.namespace} delete pod {run.name}-{change.pod} --grace-period=0")
    try:
        found, names, _ = await _find_pod(connection, run, change.pod)
    except WrongState:
        return ()
    running = [each.name for each in found.containers if each.is_running and each.name in names]
    for name in running:
        target = Target(connection, run, change.pod, found.name, name)
        await _send_signal(target, change.signal)
    return (change.pod,) if running else ()


async def _send_signal(target: Target, number: int) -> None:
    script = f"import os; os.kill(1, {number})"
    for argv in (["sh", "-c", f"kill -{number} 1"], ["kill", f"-{number}", "1"], ["python3", "-c", script]):
        try:
            code, output = await output_of(target, argv)
        except NotStartedError:
            continue
        if code:
            said = output.decode("utf-8", "replace").strip() or f"kill ended with {code}"
            raise ConnectionFailed(f"{target}: {said}")
        return
    raise Unsupported(f"{target}: the image has no sh, kill or python3 that could send the signal")

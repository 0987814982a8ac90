"""The loop of job-init: serves requests of the engine and reports containers that end.

It watches the engine by a pidfd. An open channel does not prove that the engine lives, because a forked copy may hold
it; and PR_SET_PDEATHSIG fires when the thread that forked ends, not the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Any

from pumice.engines.local.rpc.wire import Message, Wire, close_all
from pumice.engines.local.sandbox import kernel_files, protocol
from pumice.engines.local.sandbox.init.container_table import Container, ContainerTable, Process
from pumice.engines.local.sandbox.init.usage import UsageReader

_MAX_REPORT = 65536


class Server:
    def __init__(self, channel: socket.socket, watched: tuple[int, int], containers: ContainerTable) -> None:
        self._engine = Wire(channel, protocol.FORMAT)
        self._watched = watched
        self._containers = containers
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._executions: dict[str, Process] = {}
        self._removals: dict[str, list[int]] = {}  # requests that wait for the containers of a pod to end
        self._contents: dict[int, bytes] = {}  # of files, that the engine does not send again
        self._usage = UsageReader(containers.processes)
        self._watch(channel.fileno(), self._request)
        for descriptor in (*watched, containers.launcher.descriptor):
            self._watch(descriptor, self._gone)

    def serve(self) -> None:
        try:
            while True:
                for descriptor, _ in self._poll.poll(self._containers.watchdog.pause()):
                    # An earlier handler of this round may have closed the descriptor.
                    handler = self._handlers.get(descriptor)
                    if handler is not None:
                        handler()
                self._containers.enforce_memory_limits()
        except (BrokenPipeError, ConnectionResetError):
            # The engine has ended, and so does the job.
            return

    def _gone(self) -> None:
        raise ConnectionResetError

    def _watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.EPOLLIN)

    def _forget(self, descriptor: int) -> None:
        del self._handlers[descriptor]
        self._poll.unregister(descriptor)
        os.close(descriptor)

    def _send(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        """Wait for room in the channel, but not if the engine is dead."""
        self._engine.put(message, descriptors)
        while not self._engine.flush():
            room = select.poll()
            room.register(self._engine.socket, select.POLLOUT)
            for descriptor in self._watched:
                room.register(descriptor, select.POLLIN)
            if any(descriptor in self._watched for descriptor, _ in room.poll()):
                raise ConnectionResetError

    def _answer(self, number: int, result: Any = None, descriptors: tuple[int, ...] = ()) -> None:
        self._send({"id": number, "result": result}, descriptors)

    def _request(self) -> None:
        if not self._engine.read():
            raise ConnectionResetError
        while (found := self._engine.take()) is not None:
            message, descriptors = found
            number = message["id"]
            try:
                getattr(self, f"_do_{message['do']}")(number, message, descriptors)
            except ConnectionError:
                raise
            except Exception as error:  # noqa: BLE001 - one bad request must not end the whole job
                self._send({"id": number, "error": protocol.encode_error(error)})
            finally:
                close_all(descriptors)

    def _do_create_pod(self, number: int, message: Message, _: list[int]) -> None:
        self._containers.create_pod(message["pod"], message["address"], message["hostname"])
        self._answer(number)

    def _do_remove_pod(self, number: int, message: Message, _: list[int]) -> None:
        pod = message["pod"]
        left = self._containers.of_pod(pod)
        if left:
            self._removals.setdefault(pod, []).append(number)
            for container in left:
                container.kill()
        else:
            self._containers.remove_pod(pod)
            self._answer(number)

    def _do_start(self, number: int, message: Message, descriptors: list[int]) -> None:
        spec = protocol.decode_spec(message["spec"], self._contents)
        stdout, stderr = descriptors
        container = self._containers.start(spec, stdout, stderr)
        process = container.process
        if process.errors is not None:
            self._watch(process.errors, lambda: self._started(number, container))
        self._watch(process.pidfd, lambda: self._container_ended(number, container))
        if container.oom_event is not None:
            self._watch(container.oom_event, lambda: self._out_of_memory(container))

    def _do_signal(self, number: int, message: Message, _: list[int]) -> None:
        sent = self._containers.container(message["container"]).send(message["number"], now=message["now"])
        self._answer(number, sent)

    def _do_exec(self, number: int, message: Message, descriptors: list[int]) -> None:
        name = message["execution"]
        what = "exec" if message.get("copy") is None else "copy"
        command: Message = {key: message[key] for key in ("argv", "env", "copy", "size") if key in message}
        process = self._containers.exec(message["container"], name, {**command, "what": what}, descriptors)
        self._executions[name] = process
        self._watch(process.pidfd, lambda: self._execution_ended(number, process))

    def _do_cancel(self, number: int, message: Message, _: list[int]) -> None:
        process = self._executions.get(message["execution"])
        if process is not None:
            process.send(signal.SIGKILL)
            # And its children: it leads a session, in which a shell makes process groups.
            for pid in {process.pid, *_session(process.pid)}:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
        self._answer(number)

    def _do_usage(self, number: int, _message: Message, _: list[int]) -> None:
        running = self._containers.running
        self._answer(number, self._usage.read({name: running[name].measured for name in running}))

    def _do_socket(self, number: int, message: Message, _: list[int]) -> None:
        made, address = self._containers.socket(message["pod"])
        self._answer(number, address, (made.detach(),))

    def _do_listen(self, number: int, message: Message, _: list[int]) -> None:
        """A socket stays in the network namespace in which it was created, also in another process."""
        listener = socket.create_server((message["address"], message["port"]))
        self._answer(number, None, (listener.detach(),))

    def _started(self, number: int, container: Container) -> None:
        """The error pipe was closed, by exec or by the end of the process; it is empty if the command runs."""
        process = container.process
        if process.errors is None:
            return
        report = os.read(process.errors, _MAX_REPORT)
        self._forget(process.errors)
        process.errors = None
        if report:
            process.failed = True
            self._send({"id": number, "error": json.loads(report)})
        else:
            self._containers.started(container)
            self._answer(number)

    def _out_of_memory(self, container: Container) -> None:
        """The kernel kills one process of the group; end the whole container, as Kubernetes does."""
        if container.oom_event is not None:
            self._forget(container.oom_event)
            container.oom_event = None
        if container.group.out_of_memory() or container.process.errors is None:
            container.oom_killed = True
            container.kill()

    def _container_ended(self, number: int, container: Container) -> None:
        self._started(number, container)
        process = container.process
        code, killer = _wait(process.pid)
        if killer == signal.SIGKILL and container.killed_instead_of:
            killer = container.killed_instead_of
            code = 128 + killer
        self._forget(process.pidfd)
        if container.oom_event is not None:
            self._forget(container.oom_event)
        out_of_memory = self._containers.ended(container)
        if not process.failed:
            oom = out_of_memory and code != 0
            self._send({"ended": process.name, "code": code, "signal": killer, "oom": oom})
        pod = container.spec.pod
        if pod in self._removals and not self._containers.of_pod(pod):
            self._containers.remove_pod(pod)
            for request in self._removals.pop(pod):
                self._answer(request)

    def _execution_ended(self, number: int, process: Process) -> None:
        code, _ = _wait(process.pid)
        report = b""
        if process.errors is not None:
            report = os.read(process.errors, _MAX_REPORT)
            os.close(process.errors)
            process.errors = None
        self._forget(process.pidfd)
        del self._executions[process.name]
        if report:
            self._send({"id": number, "error": json.loads(report)})
        else:
            self._answer(number, code)


def _wait(pid: int) -> tuple[int, int]:
    """The exit code, 128 + n after signal n, and the signal or 0."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return (128 - code, -code) if code < 0 else (code, 0)


def _session(leader: int) -> set[int]:
    """The process groups of a session; none where /proc is that of an outer namespace, with other numbers."""
    found = set()
    for name in os.listdir("/proc") if os.readlink("/proc/self") == str(os.getpid()) else []:
        if name.isdigit():
            with contextlib.suppress(OSError):
                # The name in parentheses may contain anything. After it: state, parent, process group, session.
                words = kernel_files.read(f"/proc/{name}/stat").rpartition(")")[2].split()
                if int(words[3]) == leader:
                    found.add(int(words[2]))
    return found

"""The loop of job-init: requests of the engine come in, answers and the ends of containers go out.

It watches the engine by pidfd. The engine's end of the channel is no proof of life: a forked copy may hold it. Nor is
the signal that a parent's death can send: it comes when the thread ends that did the fork.
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

from pumice.engines.local.sandbox import protocol
from pumice.engines.local.sandbox.init.container_table import Container, Containers, Process
from pumice.engines.local.sandbox.sandbox_errors import INTERNAL, StartError

_LONGEST_REPORT = 65536


class GoneError(Exception):
    """There is nobody left to serve."""


class Server:
    def __init__(self, channel: socket.socket, watched: tuple[int, int], containers: Containers) -> None:
        self._channel = channel
        self._watched = watched
        self._containers = containers
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._executions: dict[str, Process] = {}
        self._waiting: dict[str, list[int]] = {}
        self._watch(channel.fileno(), self._request)
        for descriptor in watched:
            self._watch(descriptor, self._gone)

    def serve(self) -> None:
        try:
            while True:
                for descriptor, _ in self._poll.poll(self._containers.watchdog.pause()):
                    # One that an earlier handler of this round has closed has nothing to say any more.
                    handler = self._handlers.get(descriptor)
                    if handler is not None:
                        handler()
                self._containers.over_memory()
        except (GoneError, BrokenPipeError, ConnectionResetError):
            return

    def _gone(self) -> None:
        raise GoneError

    def _watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.EPOLLIN)

    def _forget(self, descriptor: int) -> None:
        del self._handlers[descriptor]
        self._poll.unregister(descriptor)
        os.close(descriptor)

    def _send(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """Waits for a busy engine, but not for a dead one."""
        room = select.poll()
        room.register(self._channel, select.POLLOUT)
        for descriptor in self._watched:
            room.register(descriptor, select.POLLIN)
        if any(descriptor in self._watched for descriptor, _ in room.poll()):
            raise GoneError
        protocol.send(self._channel, message, descriptors)

    def _request(self) -> None:
        received = protocol.receive(self._channel)
        if received is None:
            raise GoneError
        message, descriptors = received
        number = message["id"]
        try:
            getattr(self, f"_do_{message['do']}")(number, message, descriptors)
        except StartError as error:
            self._send({"id": number, "error": [error.kind, error.message]})
        except Exception as error:  # noqa: BLE001 - one bad request must not end the whole job
            self._send({"id": number, "error": [INTERNAL, f"{type(error).__name__}: {error}"]})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _do_create_pod(self, number: int, message: dict[str, Any], _: list[int]) -> None:
        self._containers.create_pod(message["pod"], message["address"], message["hostname"])
        self._send({"id": number})

    def _do_remove_pod(self, number: int, message: dict[str, Any], _: list[int]) -> None:
        pod = message["pod"]
        left = self._containers.of_pod(pod)
        if left:
            self._waiting.setdefault(pod, []).append(number)
            for container in left:
                container.kill()
        else:
            self._containers.remove_pod(pod)
            self._send({"id": number})

    def _do_start(self, number: int, message: dict[str, Any], descriptors: list[int]) -> None:
        spec = protocol.decode_spec(message["spec"])
        stdout, stderr = descriptors
        process = self._containers.start(spec, stdout, stderr)
        container = self._containers.running[spec.id]
        if process.errors is not None:
            self._watch(process.errors, lambda: self._started(number, container))
        self._watch(process.pidfd, lambda: self._container_ended(number, container))
        if container.alarm is not None:
            self._watch(container.alarm, lambda: self._out_of_memory(container))

    def _do_signal(self, number: int, message: dict[str, Any], _: list[int]) -> None:
        sent = self._containers.container(message["container"]).send(message["number"], now=message["now"])
        self._send({"id": number, "sent": sent})

    def _do_exec(self, number: int, message: dict[str, Any], descriptors: list[int]) -> None:
        name = message["execution"]
        (output,) = descriptors
        process = self._containers.execute(message["container"], name, message["argv"], message["env"], output)
        self._executions[name] = process
        self._watch(process.pidfd, lambda: self._execution_ended(number, process))

    def _do_cancel(self, number: int, message: dict[str, Any], _: list[int]) -> None:
        process = self._executions.get(message["execution"])
        if process is not None:
            process.send(signal.SIGKILL)
            # Its own children, too: it leads a session, and so a group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        self._send({"id": number})

    def _do_socket(self, number: int, message: dict[str, Any], _: list[int]) -> None:
        made, address = self._containers.socket(message["pod"])
        with made:
            self._send({"id": number, "address": address}, (made.fileno(),))

    def _do_listen(self, number: int, message: dict[str, Any], _: list[int]) -> None:
        """A socket belongs to the network in which it was made, whoever holds it later."""
        with socket.create_server((message["address"], message["port"])) as listener:
            self._send({"id": number}, (listener.fileno(),))

    def _started(self, number: int, container: Container) -> None:
        """The pipe for errors was closed by exec, or by the end of the process: what is in it tells."""
        process = container.process
        if process.errors is None:
            return
        report = os.read(process.errors, _LONGEST_REPORT)
        self._forget(process.errors)
        process.errors = None
        if report:
            process.failed = True
            self._send({"id": number, "error": json.loads(report)})
        else:
            self._containers.started(container)
            self._send({"id": number})

    def _out_of_memory(self, container: Container) -> None:
        """The kernel kills one process of the group. What is left would limp; on a cluster all of it goes."""
        if container.alarm is not None:
            self._forget(container.alarm)
            container.alarm = None
        if container.group.out_of_memory() or container.process.errors is None:
            container.killed_for_memory = True
            container.kill()

    def _container_ended(self, number: int, container: Container) -> None:
        self._started(number, container)
        process = container.process
        code, killer = _wait(process.pid)
        if killer == signal.SIGKILL and container.ended_for:
            code, killer = 128 + container.ended_for, container.ended_for
        self._forget(process.pidfd)
        if container.alarm is not None:
            self._forget(container.alarm)
        out_of_memory = self._containers.ended(container)
        if not process.failed:
            oom = out_of_memory and code != 0
            self._send({"ended": process.name, "code": code, "signal": killer, "oom": oom})
        pod = container.birth.spec.pod
        if pod in self._waiting and not self._containers.of_pod(pod):
            self._containers.remove_pod(pod)
            for waiting in self._waiting.pop(pod):
                self._send({"id": waiting})

    def _execution_ended(self, number: int, process: Process) -> None:
        code, _ = _wait(process.pid)
        report = _read_and_close(process)
        self._forget(process.pidfd)
        del self._executions[process.name]
        if report:
            self._send({"id": number, "error": json.loads(report)})
        else:
            self._send({"id": number, "code": code})


def _read_and_close(process: Process) -> bytes:
    if process.errors is None:
        return b""
    report = os.read(process.errors, _LONGEST_REPORT)
    os.close(process.errors)
    process.errors = None
    return report


def _wait(pid: int) -> tuple[int, int]:
    """Exit code (128 + signal if there was one) and signal."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return (128 - code, -code) if code < 0 else (code, 0)

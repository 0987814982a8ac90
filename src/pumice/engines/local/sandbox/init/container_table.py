"""What job-init keeps: pods with their namespaces, containers with their first process, and how each of them ends."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.init import child, memory_watchdog
from pumice.engines.local.sandbox.init.cgroups import Cgroups, Group
from pumice.engines.local.sandbox.init.child import Birth, Limits, Streams
from pumice.engines.local.sandbox.init.pid1_signals import Hearing, hearing
from pumice.engines.local.sandbox.net.job_network import PodNetwork, Switch
from pumice.engines.local.sandbox.rootfs import container_root
from pumice.engines.local.sandbox.rootfs.job_filesystem import Ground
from pumice.engines.local.sandbox.rootfs.memory_volumes import MemoryVolumes
from pumice.engines.local.sandbox.sandbox_errors import GONE, LIMITS, NO_PROCESS, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec

# What the kernel means by its errors where a process or a namespace is one too many.
_EXHAUSTED = {
    errno.EAGAIN: NO_PROCESS,
    errno.ENOSPC: "no further namespace is allowed: see sysctl user.max_pid_namespaces",
}


@dataclass(slots=True)
class Process:
    """A child of job-init: the first process of a container, or one that was executed in it later."""

    name: str
    pid: int
    pidfd: int
    errors: int | None  # until it is known whether the command runs
    failed: bool = False

    def send(self, number: int) -> None:
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return


@dataclass(slots=True)
class Container:
    birth: Birth
    process: Process
    group: Group
    directory: str
    alarm: int | None
    namespace: int = 0
    killed_for_memory: bool = False
    ended_for: int = 0  # a signal that it could not hear

    @property
    def shares_pids(self) -> bool:
        return self.birth.spec.share_pid_with is not None

    def send(self, number: int, *, now: bool) -> bool:
        """False if it is better sent a little later, unless it has to be now.

        SIGTERM and its like end who has no handler for them, as they would outside of a container.
        """
        heard = hearing(self.process.pidfd, number)
        if heard is Hearing.BUSY and not now:
            return False
        if heard is Hearing.NONE:
            self.ended_for = number
        if number == signal.SIGKILL or heard is Hearing.NONE:
            self.kill()
        else:
            self.process.send(number)
        return True

    def kill(self) -> None:
        """All of it: with the first process of its pid namespace, or one by one where the namespace is another's."""
        self.process.send(signal.SIGKILL)
        self.kill_what_is_left()

    def kill_what_is_left(self) -> None:
        if self.shares_pids and self.namespace:
            for pid in memory_watchdog.processes({self.namespace}).get(self.namespace, []):
                _kill(pid)


class Containers:
    def __init__(self, switch: Switch, ground: Ground, groups: Cgroups, limits: Limits) -> None:
        self._switch = switch
        self._ground = ground
        self._groups = groups
        self._memory = MemoryVolumes(ground.files)
        self._limits = limits
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._started = 0
        self._pods: dict[str, PodNetwork] = {}
        self.running: dict[str, Container] = {}
        self.watchdog = memory_watchdog.Watchdog()

    def create_pod(self, pod: str, address: str, hostname: str) -> None:
        if pod in self._pods:
            raise ValueError(f"{pod}: there is such a pod already")
        self._pods[pod] = self._switch.add(address, hostname)

    def remove_pod(self, pod: str) -> None:
        """Its containers are gone by now."""
        network = self._pods.pop(pod, None)
        self._memory.remove(pod)
        if network is not None:
            self._switch.remove(network)

    def of_pod(self, pod: str) -> list[Container]:
        return [container for container in self.running.values() if container.birth.spec.pod == pod]

    def socket(self, pod: str) -> tuple[socket.socket, str]:
        """A socket of the job's network, not connected yet, and the address of the pod."""
        if pod not in self._pods:
            raise StartError(GONE, f"{pod}: no such pod")
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        return made, self._pods[pod].address

    def start(self, spec: ContainerSpec, stdout: int, stderr: int) -> Process:
        if spec.pod not in self._pods:
            raise StartError(GONE, f"{spec.pod}: no such pod")
        if spec.id in self.running:
            raise ValueError(f"{spec.id}: there is such a container already")
        pids = None if spec.share_pid_with is None else self.container(spec.share_pid_with).process.pidfd
        group = self._groups.group(spec)
        self._started += 1
        directory = f"{self._ground.files}/{self._started}"
        try:
            return self._start(spec, (stdout, stderr), pids, group, directory)
        except BaseException:
            group.remove()
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _start(
        self, spec: ContainerSpec, streams: tuple[int, int], pids: int | None, group: Group, directory: str
    ) -> Process:
        files = _write_files(directory, spec)
        if spec.root.image is not None:
            self._ground.skeleton_of(spec.root.image)
        self._memory.provide(spec)
        birth = Birth(spec, self._ground, self._pods[spec.pod].namespaces, files, group.directories, self._limits)
        process = self._fork(spec.id, pids, lambda errors: child.become_container(birth, Streams(*streams, errors)))
        self.running[spec.id] = Container(birth, process, group, directory, group.alarm())
        return process

    def started(self, container: Container) -> None:
        """It runs the command now, in its own mount namespace, by which its processes are known."""
        container.namespace = memory_watchdog.mount_namespace(container.process.pid)
        memory = container.birth.spec.memory
        if memory is not None and not container.group.limits_memory and container.namespace:
            self.watchdog.watch(container.namespace, memory)

    def execute(self, container: str, name: str, argv: list[str], env: dict[str, str], output: int) -> Process:
        target = self.container(container)
        pidfd = target.process.pidfd

        def become(errors: int) -> None:
            child.become_execution(target.birth, Streams(output, output, errors), pidfd, argv, env)

        return self._fork(name, pidfd, become)

    def container(self, name: str) -> Container:
        if name not in self.running:
            raise StartError(GONE, f"{name}: no such container runs")
        return self.running[name]

    def over_memory(self) -> None:
        over = set(self.watchdog.look())
        for container in self.running.values():
            if container.namespace in over:
                container.killed_for_memory = True
                container.kill()

    def ended(self, container: Container) -> bool:
        """Clear away after its first process; whether it ran out of memory."""
        container.kill_what_is_left()
        out_of_memory = container.killed_for_memory or container.group.out_of_memory()
        container.group.remove()
        self.watchdog.forget(container.namespace)
        shutil.rmtree(container.directory, ignore_errors=True)
        upper = container.birth.spec.root.upper
        if upper is not None:
            shutil.rmtree(container_root.work_of(upper), ignore_errors=True)
        self.running.pop(container.process.name, None)
        return out_of_memory

    def _fork(self, name: str, pids: int | None, become: Callable[[int], None]) -> Process:
        """A child in a pid namespace of its own, or in another's. Where children go is a property of the parent."""
        errors_read, errors_write = os.pipe()
        try:
            if pids is None:
                syscalls.unshare(syscalls.NEWPID)
            else:
                syscalls.setns(pids, syscalls.NEWPID)
            pid = os.fork()
            if pid == 0:
                become(errors_write)
        except OSError as error:
            os.close(errors_read)
            if pids is not None and error.errno in (errno.ENOMEM, errno.ESRCH):
                raise StartError(GONE, f"{name}: the container has ended") from error
            if error.errno in _EXHAUSTED:
                raise StartError(LIMITS, _EXHAUSTED[error.errno]) from error
            raise
        finally:
            os.close(errors_write)
            syscalls.setns(self._own_pids, syscalls.NEWPID)
        os.set_blocking(errors_read, False)
        return Process(name, pid, os.pidfd_open(pid), errors_read)


def _write_files(directory: str, spec: ContainerSpec) -> list[str]:
    os.mkdir(directory)
    paths = []
    for number, file in enumerate(spec.files):
        path = f"{directory}/{number}"
        with open(path, "wb") as writer:
            writer.write(file.data)
        os.chmod(path, file.mode)
        paths.append(path)
    return paths


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return

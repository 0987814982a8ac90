"""The pods of job-init with their namespaces, and the containers with their first process and their end."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import signal
import socket
from collections.abc import Mapping, Sequence

from pumice.engines.local.rpc.wire import Message, close_all
from pumice.engines.local.sandbox import kernel_files, protocol
from pumice.engines.local.sandbox.init.cgroups import Cgroups, Group, GroupLimits
from pumice.engines.local.sandbox.init.host_helper import HostClient
from pumice.engines.local.sandbox.init.launcher import Launcher
from pumice.engines.local.sandbox.init.pid1_signals import Delivery, delivery
from pumice.engines.local.sandbox.init.privileges import Limits
from pumice.engines.local.sandbox.init.usage import Measured
from pumice.engines.local.sandbox.memory.container_processes import (
    ContainerProcesses,
    Identity,
    identify,
    namespace,
    own_number,
)
from pumice.engines.local.sandbox.memory.memory_watchdog import Watchdog
from pumice.engines.local.sandbox.memory.pod_memory import PodMemory
from pumice.engines.local.sandbox.net.job_network import JobNetwork, PodNetwork
from pumice.engines.local.sandbox.rootfs import container_root
from pumice.engines.local.sandbox.rootfs.job_filesystem import JobFilesystem
from pumice.engines.local.sandbox.rootfs.memory_volumes import MemoryVolumes, volume_path
from pumice.engines.local.sandbox.rootfs.mount_targets import Tree
from pumice.engines.local.sandbox.sandbox_errors import GONE, LIMITS, NO_PROCESS, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, Tmpfs

# The meaning of errors from fork and unshare.
_EXHAUSTED = {
    errno.EAGAIN: NO_PROCESS,
    errno.ENOSPC: "no further namespace is allowed: see sysctl user.max_pid_namespaces",
}


class Process:
    """A child of job-init: the first process of a container, or one started by exec."""

    def __init__(self, name: str, pid: int, errors: int) -> None:
        self.name = name
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.number = kernel_files.pid_in_proc(self.pidfd)
        self.errors: int | None = errors  # the pipe of `child`, until it is known whether the command runs
        self.failed = False

    @property
    def is_copy(self) -> bool:
        """Whether it is still a copy of the launcher: until its command runs, the pipe is open and empty."""
        if self.errors is None:
            return False
        pipe = select.poll()
        pipe.register(self.errors, select.POLLIN)
        return not pipe.poll(0)

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)


class Container:
    """`files` were written for it; `processes` are those of all containers."""

    def __init__(
        self, spec: ContainerSpec, process: Process, group: Group, files: Sequence[str], processes: ContainerProcesses
    ) -> None:
        self.spec = spec
        self.process = process
        self.group = group
        self.files = files
        self.processes = processes
        # Before the command runs, which may be a program that the user may not read.
        self.pids = namespace(process.number, "pid")
        self.oom_event = group.oom_event()
        self.identity: Identity | None = None  # as soon as the command runs
        self.mounts = -1  # the descriptor of its mount namespace, if only that distinguishes it
        self.memory = -1  # that of its tmpfs
        self.oom_killed = False
        self.killed_instead_of = 0  # the signal that the kernel would have discarded

    def send(self, number: int, *, now: bool) -> bool:
        """False if the signal is blocked for a moment and should be sent a little later, unless `now`.

        SIGTERM and similar signals end a process without a handler, as they would outside of a container.
        """
        outcome = delivery(self.process.pidfd, number)
        if outcome is Delivery.BLOCKED and not now:
            return False
        if outcome is Delivery.LOST:
            self.killed_instead_of = number
        if number == signal.SIGKILL or outcome is Delivery.LOST:
            self.kill()
        else:
            self.process.send(number)
        return True

    @property
    def measured(self) -> Measured:
        return Measured(self.identity, tuple(self.group.directories))

    def kill(self) -> None:
        self.process.send(signal.SIGKILL)
        self.kill_remaining()

    def kill_remaining(self) -> None:
        """Kill what the kernel does not: in a shared pid namespace, the others survive the first process."""
        if self.spec.share_pid_with is not None and self.identity is not None:
            for pid in self.processes.find().own.get(self.identity, []):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(own_number(pid), signal.SIGKILL)


class ContainerTable:
    def __init__(self, network: JobNetwork, job: JobFilesystem, groups: Cgroups | HostClient, limits: Limits) -> None:
        self._network = network
        self._job = job
        self._groups = groups
        self._memory = MemoryVolumes(job.files)
        self.launcher = Launcher(job, limits)
        self._started = 0
        self._pods: dict[str, PodNetwork] = {}
        self.running: dict[str, Container] = {}
        self._forked: list[Process] = []  # whose command may not run yet
        self.processes = ContainerProcesses(self._copies)
        self.watchdog = Watchdog(self.processes, lambda pod: PodMemory(network.inside, self._pods[pod].entries))

    def create_pod(self, pod: str, address: str, hostname: str) -> None:
        if pod in self._pods:
            raise ValueError(f"{pod}: the pod exists already")
        self._pods[pod] = self._network.add_pod(address, hostname)

    def remove_pod(self, pod: str) -> None:
        """Call it when the containers of the pod have ended."""
        network = self._pods.pop(pod, None)
        self._memory.remove(pod)
        if network is not None:
            self._network.remove_pod(network)

    def of_pod(self, pod: str) -> list[Container]:
        return [container for container in self.running.values() if container.spec.pod == pod]

    def socket(self, pod: str) -> tuple[socket.socket, str]:
        """An unconnected socket in the job's network, and the address of the pod."""
        address = self._pod(pod).address
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC), address

    def start(self, spec: ContainerSpec, stdout: int, stderr: int) -> Container:
        pod = self._pod(spec.pod)
        if spec.id in self.running:
            raise ValueError(f"{spec.id}: the container exists already")
        pids = [] if spec.share_pid_with is None else [self.container(spec.share_pid_with).process.pidfd]
        limits, sources = GroupLimits.of(spec), container_root.sources_of(spec)
        group: Group
        trees: list[Tree] = []  # without a helper the container opens them
        if isinstance(self._groups, HostClient):
            group, trees = self._groups.group(limits, sources)
        else:
            group = self._groups.group(limits)
        opened = [tree for tree in trees if not isinstance(tree, OSError)]
        self._started += 1
        files: list[str] = []
        memory: int | None = None
        try:
            view = container_root.view_host(spec, self._job) if spec.root.image is None else None
            layered = frozenset(view.layered if view is not None else ())
            mounted = spec._replace(
                files=tuple(file for file in spec.files if file.path not in layered),
                hidden_files=tuple(path for path in spec.hidden_files if path not in layered),
            )
            for file in mounted.files:
                files.append(f"{self._job.files}/{self._started}-{len(files)}")
                with open(files[-1], "wb") as writer:
                    writer.write(file.data)
                os.chmod(files[-1], file.mode)
            memory = container_root.make_memory(spec)
            message: Message = {
                "what": "container",
                "files": files,
                "lower": [] if spec.root.image is None else self._job.lower_of(spec.root.image),
                "upper": self._job.upper_of(spec.root.upper),
                "view": view,
                "trees": [tree.errno or 0 if isinstance(tree, OSError) else 0 for tree in trees],
            }
            self._memory.mount(spec)
            descriptors = {"pids": pids, "namespaces": pod.namespaces, "streams": (stdout, stderr), "memory": [memory]}
            descriptors |= {"groups": (members := group.open_members()), "trees": [*opened]}
            opened += members
            process = self._launch(spec.id, mounted, group, message, descriptors)
            container = self.running[spec.id] = Container(spec, process, group, files, self.processes)
            container.memory = memory
        except BaseException:
            if memory is not None:
                os.close(memory)
            group.remove()
            _remove(files)
            raise
        finally:
            close_all(opened)
        return container

    def started(self, container: Container) -> None:
        """The command runs, in its own namespaces, which identify the processes of the container."""
        spec = container.spec
        joined = spec.share_pid_with is not None
        if joined:
            # As long as it is open, no other namespace gets its inode.
            with contextlib.suppress(OSError):
                path = f"/proc/{container.process.number}/ns/mnt"
                container.mounts = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        identity = container.identity = identify(spec.pod, container.process.number, container.pids, joined=joined)
        if identity is None:
            return
        self.processes.add(identity)
        if spec.memory is not None and not container.group.limits_memory:
            volumes = [volume_path(self._job.files, spec.pod, each) for each in spec.mounts if isinstance(each, Tmpfs)]
            self.watchdog.watch(identity, spec.memory, (container.memory, *volumes))

    def exec(self, container: str, name: str, command: Message, streams: Sequence[int]) -> Process:
        """`command` has `argv` and `env`, or `copy`, and the `size` of a terminal if it gets one."""
        target = self.container(container)
        members = target.group.open_members()
        try:
            descriptors = {"pids": [target.process.pidfd], "streams": streams, "groups": members}
            return self._launch(name, target.spec, target.group, command, descriptors)
        finally:
            close_all(members)

    def container(self, name: str) -> Container:
        if name not in self.running:
            raise StartError(GONE, f"{name}: no such container is running")
        return self.running[name]

    def enforce_memory_limits(self) -> None:
        over = set(self.watchdog.poll())
        for container in self.running.values():
            if container.identity in over:
                container.oom_killed = True
                container.kill()

    def ended(self, container: Container) -> bool:
        """Clean up after its first process has ended; True if the container ran out of memory."""
        container.kill_remaining()
        out_of_memory = container.oom_killed or container.group.out_of_memory()
        container.group.remove()
        if container.identity is not None:
            self.watchdog.forget(container.identity)
            self.processes.remove(container.identity)
        for descriptor in (container.memory, container.mounts):
            if descriptor >= 0:
                os.close(descriptor)
        _remove(container.files)
        upper = self._job.upper_of(container.spec.root.upper)
        if upper is not None:
            shutil.rmtree(container_root.work_of(upper), ignore_errors=True)
        self.running.pop(container.process.name, None)
        return out_of_memory

    def _pod(self, name: str) -> PodNetwork:
        if name not in self._pods:
            raise StartError(GONE, f"{name}: no such pod")
        return self._pods[name]

    def _launch(
        self, name: str, spec: ContainerSpec, group: Group, message: Message, descriptors: Mapping[str, Sequence[int]]
    ) -> Process:
        errors_read, errors_write = os.pipe()
        # The data of its files is in files already.
        plain = protocol.encode_spec(spec._replace(files=tuple(file._replace(data=b"") for file in spec.files)))
        processes = None if group.limits_processes else spec.all_processes
        message = {"size": [], **message, "spec": plain, "processes": processes}
        try:
            pid = self.launcher.launch(message, {**descriptors, "errors": [errors_write]})
        except OSError as error:
            os.close(errors_read)
            if descriptors["pids"] and error.errno in (errno.ENOMEM, errno.ESRCH):
                raise StartError(GONE, f"{name}: the container has ended") from error
            if error.errno in _EXHAUSTED:
                raise StartError(LIMITS, _EXHAUSTED[error.errno]) from error
            raise
        finally:
            os.close(errors_write)
        os.set_blocking(errors_read, False)
        process = Process(name, pid, errors_read)
        self._forked.append(process)
        return process

    def _copies(self) -> set[int]:
        """Return the processes whose memory is that of the launcher."""
        self._forked = [process for process in self._forked if process.is_copy]
        return {process.number for process in self._forked}


def _remove(files: Sequence[str]) -> None:
    for file in files:
        # One that could not be written.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file)

"""The two processes above all containers: the supervisor, and job-init, which is pid 1 of the job.

The client starts them as `python -I -S`: a process that changes namespaces must have a single thread, and every fork
copies the parent's memory map.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import socket
import sys
from typing import Any, NamedTuple, NoReturn

from pumice.engines.local.rpc.wire import Wire
from pumice.engines.local.sandbox import kernel_files, protocol, scratch, syscalls
from pumice.engines.local.sandbox.init import cgroups, exec_command, host_helper, idmap, read_only_start, seccomp
from pumice.engines.local.sandbox.init.container_table import ContainerTable
from pumice.engines.local.sandbox.init.privileges import Limits
from pumice.engines.local.sandbox.init.server import Server
from pumice.engines.local.sandbox.net.job_network import JobNetwork
from pumice.engines.local.sandbox.rootfs.job_filesystem import prepare
from pumice.engines.local.sandbox.sandbox_errors import NO_PROCESS

_INOTIFY_INSTANCES = 64
_ANY_DIRECTORY = ("/mnt", "/srv", "/media", "/tmp")  # noqa: S108 - a mount point, in a namespace of its own


class Users(NamedTuple):
    """The users that a job has: all or one; if all, mapped to unused ids, or why not."""

    all: bool
    unmapped: str = ""
    mapped: bool = False


def main() -> NoReturn:
    """The supervisor: outside of the job's pid namespace, so that it survives the job and can clean up.

    After `read_only_start` it is in its user namespace already; the arguments then say which users that has.
    """
    config: dict[str, Any] = json.loads(sys.argv[1])
    entered = sys.argv[3:]
    channel = socket.socket(fileno=config["channel"])
    engine = os.pidfd_open(config["engine"])
    if os.getppid() != config["engine"]:
        # The engine died before it could be watched, and its pid may have been reused.
        sys.exit(1)
    for descriptor in (config["channel"], config["lock"]):
        os.set_inheritable(descriptor, False)
    exec_command.default_signals()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    groups = cgroups.Cgroups(config["name"], cgroups.available(config["engine"]))
    config["limits"] = groups.controllers
    # Read now: the user that this process becomes may have no access to the sources.
    config["calls"] = seccomp.read_calls(os.uname().machine)
    with contextlib.suppress(OSError):
        # Kernels without keyrings, and containers that forbid the call, have no keys to leak.
        syscalls.leave_session_keyring()
    watched = engine, os.pidfd_open(os.getpid())
    try:
        if entered:
            users = Users(*json.loads(entered[0]))
            read_only_start.check()
        else:
            namespace, unmapped = _mapped_namespace(config)
            if namespace is not None:
                _supervise(config, channel, watched, groups, namespace)
            users = Users(idmap.enter_user_namespace(), unmapped)
            if read_only_start.can_change_interpreter():
                for descriptor in (config["channel"], config["lock"]):
                    os.set_inheritable(descriptor, True)
                read_only_start.restart(json.dumps(users))
        syscalls.unshare(syscalls.NEWPID)
        child = os.fork()
    except OSError as error:
        refuse(channel, error, "namespaces are refused: ")
        _clean_up(config, groups)
    if child == 0:
        _job_init(config, channel, watched, groups, users)
    os.close(engine)
    Wire(channel, protocol.FORMAT).send({"pid": child})
    channel.close()
    os.waitpid(child, 0)
    _clean_up(config, groups)


def _mapped_namespace(config: dict[str, Any]) -> tuple[int | None, str]:
    """Return a user namespace of ids that no user of this machine has; else None, and why there is none."""
    if os.geteuid() != 0:
        return None, ""
    namespace = idmap.mapped_namespace()
    if namespace is None:
        return None, "it has no unused ids that root may map"
    syscalls.unshare(syscalls.NEWNS)
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    reason = host_helper.unmappable(["/usr", config["directory"], *config["shared"]], namespace)
    return (None, reason) if reason else (namespace, "")


def _supervise(
    config: dict[str, Any],
    channel: socket.socket,
    watched: tuple[int, int],
    groups: cgroups.Cgroups,
    namespace: int,
) -> NoReturn:
    """Start job-init with ids that no user of this machine has, and be its root there until it ends."""
    ours, theirs = socket.socketpair()
    pid_read, pid_write = os.pipe()
    # job-init's parent only makes its namespaces.
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    parent = os.fork()
    if parent == 0:
        code = 1
        try:
            ours.close()
            idmap.join(namespace)
            os.close(namespace)
            syscalls.unshare(syscalls.NEWPID)
            child = os.fork()
            if child == 0:
                _job_init(config, channel, watched, host_helper.HostClient(theirs), Users(all=True, mapped=True))
            os.write(pid_write, str(child).encode())
            code = 0
        except OSError as error:
            refuse(channel, error, "namespaces are refused: ")
        finally:
            os._exit(code)
    os.close(watched[0])
    theirs.close()
    os.close(pid_write)
    os.waitpid(parent, 0)
    child = int(os.read(pid_read, 32) or 0)
    if child:
        Wire(channel, protocol.FORMAT).send({"pid": child})
        channel.close()
        host_helper.HostHelper(ours, namespace, groups).serve()
        os.waitpid(child, 0)
    _clean_up(config, groups)


def refuse(channel: socket.socket, error: OSError, context: str = "") -> None:
    if error.errno == errno.EAGAIN:
        Wire(channel, protocol.FORMAT).send({"exhausted": NO_PROCESS})
    else:
        Wire(channel, protocol.FORMAT).send({"refused": f"{context}{error.strerror or error}"})


def _clean_up(config: dict[str, Any], groups: cgroups.Cgroups) -> NoReturn:
    """Every process of the job has ended: job-init's exit status arrives only after the last of them."""
    groups.remove_all()
    scratch.remove(config["directory"])
    # Without freeing each object.
    os._exit(0)


def _job_init(
    config: dict[str, Any],
    channel: socket.socket,
    watched: tuple[int, int],
    groups: cgroups.Cgroups | host_helper.HostClient,
    users: Users,
) -> NoReturn:
    code = 1
    try:
        try:
            containers = _prepare(config, groups, users)
        except OSError as error:
            refuse(channel, error)
        else:
            # In the /proc of an outer namespace this process has another pid.
            own_proc = os.readlink("/proc/self") == str(os.getpid())
            facts = {"all_users": users.all, "unmapped": users.unmapped, "own_proc": own_proc}
            facts |= {"limits": sorted(config["limits"])}
            Wire(channel, protocol.FORMAT).send({"up": facts})
            Server(channel, watched, containers).serve()
            code = 0
    except BaseException:  # noqa: BLE001 - a forked process must not return; the client reads the last line
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _prepare(config: dict[str, Any], groups: cgroups.Cgroups | host_helper.HostClient, users: Users) -> ContainerTable:
    syscalls.unshare(syscalls.NEWNS | syscalls.NEWNET | syscalls.NEWIPC | syscalls.NEWUTS)
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    with contextlib.suppress(PermissionError):
        # Refused inside of a container that covers parts of /proc; the outer /proc must do.
        syscalls.mount("proc", "/proc", "proc")
    nested = config["nested"]
    if not nested:
        with contextlib.suppress(OSError):
            # In this user namespace and all below it. In a container whose /proc is read-only the filter must do.
            kernel_files.write("/proc/sys/user/max_user_namespaces", "0")
    with contextlib.suppress(OSError):
        # The kernel counts them for the user outside as well, who has 128 by default and needs some himself.
        kernel_files.write("/proc/sys/user/max_inotify_instances", str(_INOTIFY_INSTANCES))
    # A mapped root cannot enter root's directories; any other will do, since only job-init sees the mount.
    directory = config["directory"] if not users.mapped else next(filter(os.path.isdir, _ANY_DIRECTORY))
    syscalls.mount("tmpfs", directory, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    trees = groups.trees if isinstance(groups, host_helper.HostClient) else None
    job = prepare(directory, all_users=users.all, trees=trees)
    # Every pod takes a few descriptors here, so raise job-init's soft limit; containers get the old one back.
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files[1], open_files[1]))
    last = int(kernel_files.read("/proc/sys/kernel/cap_last_cap"))
    filters = {}
    for confined in (True, False):
        options = seccomp.Options(confined=confined, single_user=not users.all, nested=nested)
        filters[confined] = seccomp.pack(seccomp.program(os.uname().machine, config["calls"], options))
    limits = Limits(open_files, last, filters, mapped=users.mapped, nested=nested)
    return ContainerTable(JobNetwork(config["gateway"]), job, groups, limits)

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
import traceback
from pathlib import Path
from typing import Any, NoReturn

from pumice.engines.local.sandbox import kernel_files, protocol, scratch, syscalls
from pumice.engines.local.sandbox.init import cgroups, exec_command, idmap
from pumice.engines.local.sandbox.init.container_table import ContainerTable
from pumice.engines.local.sandbox.init.privileges import Limits
from pumice.engines.local.sandbox.init.server import Server
from pumice.engines.local.sandbox.net.job_network import JobNetwork
from pumice.engines.local.sandbox.rootfs.job_filesystem import prepare
from pumice.engines.local.sandbox.sandbox_errors import NO_PROCESS


def main() -> NoReturn:
    """The supervisor: outside of the job's pid namespace, so that it survives the job and can clean up."""
    config: dict[str, Any] = json.loads(sys.argv[1])
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
    with contextlib.suppress(OSError):
        # Kernels without keyrings, and containers that forbid the call, have no keys to leak.
        syscalls.leave_session_keyring()
    supervisor = os.pidfd_open(os.getpid())
    try:
        all_users = idmap.enter_user_namespace()
        syscalls.unshare(syscalls.NEWPID)
        child = os.fork()
    except OSError as error:
        refuse(channel, error, "namespaces are refused: ")
        _clean_up(config, groups)
    if child == 0:
        _job_init(config, channel, (engine, supervisor), groups, all_users=all_users)
    os.close(engine)
    protocol.send(channel, {"pid": child})
    channel.close()
    os.waitpid(child, 0)
    _clean_up(config, groups)


def refuse(channel: socket.socket, error: OSError, context: str = "") -> None:
    if error.errno == errno.EAGAIN:
        protocol.send(channel, {"exhausted": NO_PROCESS})
    else:
        protocol.send(channel, {"refused": f"{context}{error.strerror or error}"})


def _clean_up(config: dict[str, Any], groups: cgroups.Cgroups) -> NoReturn:
    """Every process of the job has ended: job-init's exit status arrives only after the last of them."""
    groups.remove_all()
    scratch.remove(Path(config["directory"]))
    sys.exit(0)


def _job_init(
    config: dict[str, Any],
    channel: socket.socket,
    watched: tuple[int, int],
    groups: cgroups.Cgroups,
    *,
    all_users: bool,
) -> NoReturn:
    code = 1
    try:
        try:
            containers = _prepare(config, groups, all_users=all_users)
        except OSError as error:
            refuse(channel, error)
        else:
            # In the /proc of an outer namespace this process has another pid.
            own_proc = os.readlink("/proc/self") == str(os.getpid())
            facts = {"all_users": all_users, "limits": groups.controllers, "own_proc": own_proc}
            protocol.send(channel, {"up": facts})
            Server(channel, watched, containers).serve()
            code = 0
    except BaseException:  # noqa: BLE001 - a forked process must not return; the client reads the last line
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _prepare(config: dict[str, Any], groups: cgroups.Cgroups, *, all_users: bool) -> ContainerTable:
    syscalls.unshare(syscalls.NEWNS | syscalls.NEWNET | syscalls.NEWIPC | syscalls.NEWUTS)
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    with contextlib.suppress(PermissionError):
        # Refused inside of a container that covers parts of /proc; the outer /proc must do.
        syscalls.mount("proc", "/proc", "proc")
    directory = config["directory"]
    syscalls.mount("tmpfs", directory, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    job = prepare(directory, all_users=all_users)
    # Every pod takes a few descriptors here, so raise job-init's soft limit; containers get the old one back.
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files[1], open_files[1]))
    limits = Limits(open_files, int(kernel_files.read("/proc/sys/kernel/cap_last_cap")))
    return ContainerTable(JobNetwork(config["gateway"]), job, groups, limits)

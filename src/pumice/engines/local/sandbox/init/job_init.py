"""The two processes above all containers: the keeper, and job-init, which is pid 1 of the job.

Started by the client as `python -I -S`, because a process that changes namespaces must have one thread only, and
because what it has in memory is what each fork has to copy.
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

from pumice.engines.local.sandbox import protocol, scratch, syscalls
from pumice.engines.local.sandbox.init import cgroups, idmap
from pumice.engines.local.sandbox.init.child import Limits
from pumice.engines.local.sandbox.init.container_table import Containers
from pumice.engines.local.sandbox.init.server import Server
from pumice.engines.local.sandbox.net.job_network import Switch
from pumice.engines.local.sandbox.rootfs.job_filesystem import prepare
from pumice.engines.local.sandbox.sandbox_errors import NO_PROCESS


def main() -> NoReturn:
    """The keeper: outside of the job's pid namespace, so that it outlives all of it and can clear away."""
    config: dict[str, Any] = json.loads(sys.argv[1])
    channel = socket.socket(fileno=config["channel"])
    engine = os.pidfd_open(config["engine"])
    if os.getppid() != config["engine"]:
        # The engine died before it could be watched, and its number may be somebody else's by now.
        sys.exit(1)
    for descriptor in (config["channel"], config["lock"]):
        os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    groups = cgroups.Cgroups(config["name"], cgroups.available(config["engine"]))
    with contextlib.suppress(OSError):
        # A kernel without keys has none to give away, and so has a container that forbids the call.
        syscalls.leave_session_keyring()
    keeper = os.pidfd_open(os.getpid())
    try:
        all_users = idmap.enter_user_namespace()
        syscalls.unshare(syscalls.NEWPID)
        child = os.fork()
    except OSError as error:
        refuse(channel, error, "namespaces are refused: ")
        _clear_away(config, groups)
    if child == 0:
        _job_init(config, channel, (engine, keeper), groups, all_users=all_users)
    os.close(engine)
    protocol.send(channel, {"pid": child})
    channel.close()
    os.waitpid(child, 0)
    _clear_away(config, groups)


def refuse(channel: socket.socket, error: OSError, where: str = "") -> None:
    if error.errno == errno.EAGAIN:
        protocol.send(channel, {"exhausted": NO_PROCESS})
    else:
        protocol.send(channel, {"refused": f"{where}{error.strerror or error}"})


def _clear_away(config: dict[str, Any], groups: cgroups.Cgroups) -> NoReturn:
    """Everything of the job is dead: a pid namespace ends only after the last process in it."""
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
            # In another's /proc we have another number.
            own_proc = os.readlink("/proc/self") == str(os.getpid())
            facts = {"all_users": all_users, "limits": groups.controllers, "own_proc": own_proc}
            protocol.send(channel, {"up": facts})
            Server(channel, watched, containers).serve()
            code = 0
    except BaseException:  # noqa: BLE001 - a forked process must not return; the client reads these last words
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _prepare(config: dict[str, Any], groups: cgroups.Cgroups, *, all_users: bool) -> Containers:
    syscalls.unshare(syscalls.NEWNS | syscalls.NEWNET | syscalls.NEWIPC | syscalls.NEWUTS)
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    with contextlib.suppress(PermissionError):
        # Inside of a container whose /proc is partly covered a new one is refused; the old one must do.
        syscalls.mount("proc", "/proc", "proc")
    place = config["directory"]
    syscalls.mount("tmpfs", place, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    ground = prepare(place, all_users=all_users)
    return Containers(Switch(config["gateway"]), ground, groups, _limits())


def _limits() -> Limits:
    """Every pod costs a few descriptors here. The soft limit is raised for job-init alone, the hard one never."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    with open("/proc/sys/kernel/cap_last_cap") as file:
        return Limits(before, int(file.read()))

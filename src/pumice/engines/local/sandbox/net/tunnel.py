"""Leads a job's network out by a program made for that (pasta, slirp4netns); runs as a process of its own.

The program must be outside of the job's network, to reach what the machine reaches, and yet end with the job. So it is
started in a pid namespace whose first process ends with the engine or with job-init; then the kernel kills the program,
whoever else has died. Not in the job's own: the kernel takes a second or two to remove the program's interface, for
which the end of the job would have to wait.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.init import privileges
from pumice.engines.local.sandbox.net import nat
from pumice.engines.local.sandbox.net.netlink import Netlink

INTERFACE = "tap0"
READY = "ready"
_SECONDS = 8.0
_PAUSE = 0.01
_DEFAULT_ROUTE = "00000000"


def main() -> None:
    """One argument: the pid of job-init, the program's command and the leading bytes of the pods' addresses, as JSON.

    Prints READY when packets get through, or why they do not. Ends when its standard input does.
    """
    config: dict[str, Any] = json.loads(sys.argv[1])
    init = os.pidfd_open(config["pid"])
    network = os.open(f"/proc/{config['pid']}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    syscalls.setns(init, syscalls.NEWUSER)
    syscalls.unshare(syscalls.NEWPID)
    first = _fork(lambda: _lead_out(config, init, network))
    # Without waiting for what the kernel does at the end of the other.
    _first(0, init, os.pidfd_open(first))


def _lead_out(config: dict[str, Any], init: int, network: int) -> None:
    """As the first process of its pid namespace: with it, everything in there ends."""
    pods = bytes(config["pods"])
    ends = (0, init, os.pidfd_open(_fork(lambda: _become(config["command"], network))))
    readiness = os.pidfd_open(_fork(lambda: _set_up(network, pods)))
    # Without a way through, the program is of no use.
    if _first(*ends, readiness) == readiness and _went_well(readiness):
        _first(*ends)


def _fork(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001 - a forked process must not return
        _say(str(error))
    finally:
        os._exit(code)


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _become(command: list[str], network: int) -> NoReturn:
    """Its output is ours, for who wants to know why it ended."""
    os.set_inheritable(network, True)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    # pasta gives up where SIGPIPE is ignored, as Python has it.
    privileges.default_signals()
    words = [word.replace("NETWORK", f"/proc/self/fd/{network}") for word in command]
    os.execv(words[0], words)  # noqa: S606 - a program of the machine, with our own arguments


def _set_up(network: int, pods: bytes) -> None:
    """Wait for the interface that the program makes, and let all pods share its address."""
    syscalls.setns(network, syscalls.NEWNET)
    end = time.monotonic() + _SECONDS
    while not _has_default_route():
        if time.monotonic() > end:
            raise TimeoutError(f"{INTERFACE}: no default route after {_SECONDS:.0f} s")
        time.sleep(_PAUSE)
    index = socket.if_nametoindex(INTERFACE)
    Netlink().forward(index)
    nat.masquerade(index, pods)
    _say(READY)


def _has_default_route() -> bool:
    rows = (line.split() for line in Path("/proc/self/net/route").read_text().splitlines()[1:])
    return any(row[0] == INTERFACE and row[1] == _DEFAULT_ROUTE for row in rows)


def _first(*descriptors: int) -> int:
    """Wait for one of them to have something to tell: the end of a pipe, or of a process."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
    ready = {descriptor for descriptor, _ in poll.poll()}
    return next(descriptor for descriptor in descriptors if descriptor in ready)


def _went_well(process: int) -> bool:
    done = os.waitid(os.P_PIDFD, process, os.WEXITED)
    return done is not None and done.si_status == 0

"""Leads a job's network out by a program made for that (pasta, slirp4netns); runs as a process of its own.

The program must be outside of the job's network, to reach what the machine reaches, and yet end with the job. So it is
started in the job's user and pid namespaces only: when job-init goes, the kernel kills it, whoever else has died.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pumice.engines.local.sandbox import nat, privileges, syscalls
from pumice.engines.local.sandbox.netlink import Netlink

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
    syscalls.setns(init, syscalls.NEWUSER | syscalls.NEWPID)
    program = _fork(lambda: _become(config["command"], network))
    ended = os.pidfd_open(program)
    pods = bytes(config["pods"])
    readiness = os.pidfd_open(_fork(lambda: _set_up(network, pods)))
    try:
        _wait(ended, readiness)
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(ended, signal.SIGKILL)


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


def _wait(ended: int, readiness: int) -> None:
    """Until the engine has had enough, or the program has. Without a way through, the program is of no use."""
    poll = select.poll()
    for descriptor in (0, ended, readiness):
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor != readiness:
                return
            poll.unregister(readiness)
            done = os.waitid(os.P_PIDFD, readiness, os.WEXITED)
            if done is None or done.si_status:
                return

"""Connects a job's network to the outside by pasta or slirp4netns; runs as a process of its own.

job-init's supervisor, before it changes anything of itself, forks a process that waits until the engine asks for a
tunnel: another Python would take ten times as long to start.

The program runs in the host's network but must end with the job. It therefore runs in a pid namespace whose first
process ends with the engine or with job-init; then the kernel kills the program. The job's own pid namespace would do,
but the kernel takes a second or two to remove the program's interface, and the end of the job would wait for that.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import time
from collections.abc import Callable
from typing import NoReturn

from pumice.engines.local.rpc.wire import Message, Wire, close_all
from pumice.engines.local.sandbox import kernel_files, protocol, syscalls
from pumice.engines.local.sandbox.init import exec_command, idmap
from pumice.engines.local.sandbox.net import nat
from pumice.engines.local.sandbox.net.netlink import Netlink

INTERFACE = "tap0"
READY = "ready"
_SECONDS = 8.0
_PAUSE = 0.01
_DEFAULT_ROUTE = "00000000"

_TUN = "/dev/net/tun"


def serve(channel: socket.socket) -> NoReturn:
    """Fork a process for each tunnel that the engine asks for, until the engine closes the connection or ends.

    A request is job-init's pid, the command, the leading bytes of the pods' addresses, and `refused`, with descriptors
    for the standard streams.
    """
    exec_command.close_others([channel.fileno()])
    wire = Wire(channel, protocol.FORMAT)
    while (found := wire.receive()) is not None:
        config, streams = found
        if os.fork() == 0:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            exec_command.close_others([])
            _open_tunnel(config)
        close_all(streams)
    os._exit(0)


def _open_tunnel(config: Message) -> NoReturn:
    """Print READY when the network is up, or the reason why it is not. End at the end of standard input."""
    init = os.pidfd_open(config["pid"])
    network = os.open(f"/proc/{config['pid']}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if os.geteuid() == 0:
        _offer_tun()
        idmap.join(init)
    else:
        syscalls.setns(init, syscalls.NEWUSER)
    syscalls.unshare(syscalls.NEWPID)
    first = _fork(lambda: _run_tunnel(config, init, network))
    # Do not wait for the kernel to tear down the tunnel's interface.
    _wait_for_any(0, init, os.pidfd_open(first))
    # Without freeing each object.
    os._exit(0)


def _offer_tun() -> None:
    """On some machines only root may use the device, and root of the job is another user."""
    if not os.path.exists(_TUN) or os.stat(_TUN).st_mode & stat.S_IWOTH:
        return
    syscalls.unshare(syscalls.NEWNS)
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    device = os.stat(_TUN).st_rdev
    syscalls.mount("tmpfs", os.path.dirname(_TUN), "tmpfs", syscalls.MS_NOSUID, "mode=755")
    os.mknod(_TUN, stat.S_IFCHR, device)
    os.chmod(_TUN, 0o666)  # noqa: S103 - only this process and its children see it


def _run_tunnel(config: Message, init: int, network: int) -> None:
    """Runs as pid 1 of its pid namespace, so the kernel kills the tunnel program with it."""
    pods = bytes(config["pods"])
    ends = (0, init, os.pidfd_open(_fork(lambda: _become(config["command"], network))))
    readiness = os.pidfd_open(_fork(lambda: _set_up(network, pods, config["refused"])))
    if _wait_for_any(*ends, readiness) == readiness:
        done = os.waitid(os.P_PIDFD, readiness, os.WEXITED)
        if done is not None and done.si_status == 0:
            _wait_for_any(*ends)


def _fork(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001 - a forked process must not return
        _print(str(error))
    finally:
        os._exit(code)


def _print(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _become(command: list[str], network: int) -> NoReturn:
    """Become the tunnel program; its output goes to stderr, where the caller reads why it failed."""
    os.set_inheritable(network, True)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    # pasta refuses to run while SIGPIPE is ignored, as it is in Python.
    exec_command.default_signals()
    words = [word.replace("NETWORK", f"/proc/self/fd/{network}") for word in command]
    os.execv(words[0], words)  # noqa: S606 - a program of the machine, with our own arguments


def _set_up(network: int, pods: bytes, refused: list[str]) -> None:
    """Wait for the tunnel's interface, then let all pods share its address, but not for the refused networks.

    The program itself is in the host's network: it still asks a DNS server that has a refused address.
    """
    syscalls.setns(network, syscalls.NEWNET)
    end = time.monotonic() + _SECONDS
    while not _has_default_route():
        if time.monotonic() > end:
            raise TimeoutError(f"{INTERFACE}: no default route after {_SECONDS:.0f} s")
        time.sleep(_PAUSE)
    index = socket.if_nametoindex(INTERFACE)
    netlink = Netlink()
    for address, _, length in (each.partition("/") for each in refused):
        netlink.unreachable(address, int(length))
    netlink.forward(index)
    nat.masquerade(index, pods)
    _print(READY)


def _has_default_route() -> bool:
    rows = (line.split() for line in kernel_files.read_lines("/proc/self/net/route")[1:])
    return any(row[0] == INTERFACE and row[1] == _DEFAULT_ROUTE for row in rows)


def _wait_for_any(*descriptors: int) -> int:
    """Wait for the end of a pipe or of a process (pidfd)."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
    ready = {descriptor for descriptor, _ in poll.poll()}
    return next(descriptor for descriptor in descriptors if descriptor in ready)

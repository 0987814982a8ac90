"""The network of a job: job-init's namespace routes between veth pairs, one pair for each pod.

Routes instead of a bridge: a bridge resolves addresses by ARP, and about 32 pods that all talk to each other overflow
the kernel's only neighbour table. Routes with permanent neighbours need no ARP.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence

from pumice.engines.local.sandbox import kernel_files, syscalls
from pumice.engines.local.sandbox.net.netlink import Netlink

_LOOPBACK = 1
_GATEWAY_MAC = b"\x02\x50\x00\x00\x00\x01"
_SHARED = (("net", syscalls.NEWNET), ("uts", syscalls.NEWUTS), ("ipc", syscalls.NEWIPC))
# The kernel assigns small numbers itself, and the two ends of a pair must differ.
_FIRST_INDEX = 1000


def enter(namespaces: Sequence[int]) -> None:
    for descriptor, (_, flag) in zip(namespaces, _SHARED, strict=True):
        syscalls.setns(descriptor, flag)


def _own_namespaces() -> tuple[int, ...]:
    return tuple(os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind, _ in _SHARED)


def _mac(address: str) -> bytes:
    return b"\x02\x50" + socket.inet_aton(address)


def _set(path: str, value: str) -> None:
    """Set a kernel parameter. The default is good enough where the kernel lacks it or /proc is read-only."""
    with contextlib.suppress(OSError):
        kernel_files.write(path, value)


def _all_groups() -> str:
    """The groups of this user namespace from 0 on, as far as the kernel accepts them for a range: first and last."""
    extents = (map(int, line.split()) for line in kernel_files.read_lines("/proc/self/gid_map"))
    count = next((count for first, _, count in extents if first == 0), 1)
    return f"0 {min(count, 1 << 31) - 1}"


class PodNetwork:
    """The namespaces that the containers of a pod share (network, host name, IPC), kept alive by descriptors."""

    def __init__(self, address: str, index: int) -> None:
        self.address = address
        self.index = index
        self.namespaces: tuple[int, ...] = ()

    @property
    def entries(self) -> list[tuple[int, int]]:
        """The descriptor of each namespace, with the flag for setns()."""
        return [(descriptor, flag) for descriptor, (_, flag) in zip(self.namespaces, _SHARED, strict=True)]

    def close(self) -> None:
        for descriptor in self.namespaces:
            os.close(descriptor)
        self.namespaces = ()


class JobNetwork:
    """Create it in the network namespace of job-init."""

    def __init__(self, gateway: str) -> None:
        self._gateway = gateway
        self._netlink = Netlink()
        self._home = _own_namespaces()
        self._all_groups = _all_groups()
        self._last_index = _FIRST_INDEX
        self._netlink.link_up(_LOOPBACK)
        self._netlink.address(_LOOPBACK, gateway, 32)
        # Each IPv6 link-local address would take an entry of the kernel's neighbour table.
        _set("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")

    def add_pod(self, address: str, hostname: str) -> PodNetwork:
        self._last_index += 1
        pod = PodNetwork(address, self._last_index)
        try:
            syscalls.unshare(syscalls.NEWNET | syscalls.NEWUTS | syscalls.NEWIPC)
            pod.namespaces = _own_namespaces()
            self._connect(pod)
            socket.sethostname(hostname)
        except BaseException:
            pod.close()
            raise
        finally:
            enter(self._home)
        return pod

    @contextlib.contextmanager
    def inside(self, namespaces: Sequence[tuple[int, int]]) -> Iterator[None]:
        """Enter namespaces, given by descriptors and their flags, and return to those of the job."""
        try:
            for descriptor, flags in namespaces:
                syscalls.setns(descriptor, flags)
            yield
        finally:
            enter(self._home)

    def _connect(self, pod: PodNetwork) -> None:
        """Called in the pod's new namespace; `self._netlink` still acts on the job's."""
        _set("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")
        _set("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
        # Who may send echo requests by sockets that `ping` opens without CAP_NET_RAW.
        _set("/proc/sys/net/ipv4/ping_group_range", self._all_groups)
        peer = ("eth0", pod.namespaces[0], _mac(pod.address))
        self._netlink.veth(f"v{pod.index}", pod.index, _GATEWAY_MAC, peer)
        self._netlink.forward(pod.index)
        self._netlink.host_route(pod.index, pod.address)
        self._netlink.permanent_neighbour(pod.index, pod.address, _mac(pod.address))
        inside = Netlink()
        try:
            eth0 = socket.if_nametoindex("eth0")
            inside.link_up(_LOOPBACK)
            inside.address(eth0, pod.address, 32)
            inside.link_up(eth0)
            inside.default_route(eth0, self._gateway)
            inside.permanent_neighbour(eth0, self._gateway, _GATEWAY_MAC)
        finally:
            inside.close()

    def remove_pod(self, pod: PodNetwork) -> None:
        """Free the address at once and leave the interfaces to the kernel, which removes them with the namespace.

        Removing an interface on request takes 30 ms each, an RCU grace period; the kernel batches namespaces.
        """
        self._netlink.remove_host_route(pod.index, pod.address)
        pod.close()

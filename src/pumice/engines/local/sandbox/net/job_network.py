"""The network of a job: its own namespace routes between pairs of interfaces, one pair for each pod.

Routed, not bridged: a bridge asks for every address by ARP, and the kernel's one table of neighbours overflows from
about 32 pods that all talk to each other. Routes with permanent neighbours need no ARP at all.
"""

from __future__ import annotations

import os
import socket

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.net.netlink import Netlink

_LOOPBACK = 1
_GATEWAY_MAC = b"\x02\x50\x00\x00\x00\x01"
_SHARED = (("net", syscalls.NEWNET), ("uts", syscalls.NEWUTS), ("ipc", syscalls.NEWIPC))
# Below are numbers that the kernel gives by itself; the ends of one pair must differ.
_FIRST_INDEX = 1000


def _mac(address: str) -> bytes:
    return b"\x02\x50" + socket.inet_aton(address)


def _own_namespaces() -> tuple[int, ...]:
    return tuple(os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind, _ in _SHARED)


def enter(namespaces: tuple[int, ...]) -> None:
    for descriptor, (_, flag) in zip(namespaces, _SHARED, strict=True):
        syscalls.setns(descriptor, flag)


def write(path: str, value: str) -> None:
    with open(path, "w") as file:
        file.write(value)


def _write_if_there(path: str, value: str) -> None:
    """Settings of a kernel that may lack the feature, or of a /proc that is read-only: their defaults do as well."""
    try:
        write(path, value)
    except OSError:
        return


class PodNetwork:
    """What the containers of a pod share: network, host name and IPC, kept open by these descriptors."""

    def __init__(self, address: str, index: int) -> None:
        self.address = address
        self.index = index
        self.namespaces: tuple[int, ...] = ()

    def close(self) -> None:
        for descriptor in self.namespaces:
            os.close(descriptor)
        self.namespaces = ()


class Switch:
    """The network namespace of job-init, in which it must be made."""

    def __init__(self, gateway: str) -> None:
        self._gateway = gateway
        self._netlink = Netlink()
        self._home = _own_namespaces()
        self._last_index = _FIRST_INDEX
        self._netlink.link_up(_LOOPBACK)
        self._netlink.address(_LOOPBACK, gateway, 32)
        # IPv6 would give every interface a link-local address, and each of those fills the kernel's one table.
        _write_if_there("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")

    def add(self, address: str, hostname: str) -> PodNetwork:
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

    def _connect(self, pod: PodNetwork) -> None:
        """Called inside the pod's new namespace; the switch's end is made through the socket opened outside."""
        _write_if_there("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")
        _write_if_there("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
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

    def remove(self, pod: PodNetwork) -> None:
        """Its interfaces go with its namespace, in the kernel's own time; the address may be wanted again at once.

        To remove an interface takes the kernel 30 ms, because it waits for whoever may still look at it. It does so
        for many namespaces together if that is left to it, and for each alone if it is asked.
        """
        self._netlink.remove_host_route(pod.index, pod.address)
        pod.close()

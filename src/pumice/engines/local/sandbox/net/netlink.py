"""The part of rtnetlink that creates, configures and removes a routed pair of interfaces."""

from __future__ import annotations

import os
import socket
import struct

_NEWLINK, _SETLINK, _NEWADDR, _NEWROUTE, _DELROUTE, _NEWNEIGH = 16, 19, 20, 24, 25, 28
_REQUEST, _ACK, _EXCLUSIVE, _CREATE = 1, 4, 0x200, 0x400
_ERROR = 2

_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 1, 3, 18, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFLA_AF_SPEC, _INET_CONF, _CONF_FORWARDING = 26, 1, 1
_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS, _IFA_F_NOPREFIXROUTE = 1, 2, 8, 0x200
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTNH_ONLINK, _MAIN_TABLE, _STATIC, _UNICAST = 1, 4, 5, 4, 254, 4, 1
_UNREACHABLE = 7
_NDA_DST, _NDA_LLADDR, _PERMANENT = 1, 2, 0x80
_IFF_UP = 1


def attribute(kind: int, value: bytes | str | int, byte_order: str = "=") -> bytes:
    if isinstance(value, str):
        value = value.encode() + b"\0"
    elif isinstance(value, int):
        value = struct.pack(f"{byte_order}I", value & 0xFFFFFFFF)
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + b"\0" * (-length % 4)


def _interface(index: int = 0, flags: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


def _host_route(index: int, destination: str) -> bytes:
    link_scope = 253
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, 32, 0, 0, _MAIN_TABLE, _STATIC, link_scope, _UNICAST, 0)
    return body + attribute(_RTA_DST, socket.inet_aton(destination)) + attribute(_RTA_OIF, index)


class Netlink:
    """A socket that acts on the network namespace it was opened in, even after its owner enters another."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def _request(self, kind: int, body: bytes, flags: int = 0) -> None:
        self._sequence += 1
        flags |= _REQUEST | _ACK
        self._socket.send(struct.pack("=IHHII", 16 + len(body), kind, flags, self._sequence, 0) + body)
        while True:
            answer = self._socket.recv(65536)
            _, answer_kind, _, sequence, _ = struct.unpack_from("=IHHII", answer)
            if answer_kind == _ERROR and sequence == self._sequence:
                (number,) = struct.unpack_from("=i", answer, 16)
                if number:
                    raise OSError(-number, f"netlink request {kind}: {os.strerror(-number)}")
                return

    def link_up(self, index: int) -> None:
        self._request(_NEWLINK, _interface(index, _IFF_UP))

    def forward(self, index: int) -> None:
        """Enable IP forwarding on an interface; unlike the sysctl, this works where /proc/sys is read-only."""
        setting = attribute(_INET_CONF, attribute(_CONF_FORWARDING, 1))
        self._request(_SETLINK, _interface(index) + attribute(_IFLA_AF_SPEC, attribute(socket.AF_INET, setting)))

    def veth(self, name: str, index: int, mac: bytes, peer: tuple[str, int, bytes]) -> None:
        """Create a veth pair: this end up, with a given index; the peer (name, namespace, mac) down.

        If both ends have the same index, the kernel reports the link state up to a second late. The peer is down
        because the kernel refuses to bring it up before both ends exist.
        """
        peer_name, namespace, peer_mac = peer
        described = _interface() + attribute(_IFLA_IFNAME, peer_name) + attribute(_IFLA_NET_NS_FD, namespace)
        described += attribute(_IFLA_ADDRESS, peer_mac)
        data = attribute(_INFO_DATA, attribute(_VETH_PEER, described))
        info = attribute(_IFLA_LINKINFO, attribute(_INFO_KIND, "veth") + data)
        body = _interface(index, _IFF_UP) + attribute(_IFLA_IFNAME, name) + info + attribute(_IFLA_ADDRESS, mac)
        self._request(_NEWLINK, body, _CREATE | _EXCLUSIVE)

    def address(self, index: int, address: str, prefix: int) -> None:
        packed = socket.inet_aton(address)
        body = struct.pack("=BBBBI", socket.AF_INET, prefix, 0, 0, index)
        body += attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)
        body += attribute(_IFA_FLAGS, _IFA_F_NOPREFIXROUTE)
        self._request(_NEWADDR, body, _CREATE | _EXCLUSIVE)

    def host_route(self, index: int, destination: str) -> None:
        self._request(_NEWROUTE, _host_route(index, destination), _CREATE | _EXCLUSIVE)

    def remove_host_route(self, index: int, destination: str) -> None:
        self._request(_DELROUTE, _host_route(index, destination))

    def unreachable(self, destination: str, length: int) -> None:
        """Refuse to forward to a network; who tries gets an error at once."""
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, length, 0, 0, _MAIN_TABLE, _STATIC, 0, _UNREACHABLE, 0)
        self._request(_NEWROUTE, body + attribute(_RTA_DST, socket.inet_aton(destination)), _CREATE)

    def default_route(self, index: int, gateway: str) -> None:
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, _MAIN_TABLE, _STATIC, 0, _UNICAST, _RTNH_ONLINK)
        body += attribute(_RTA_GATEWAY, socket.inet_aton(gateway)) + attribute(_RTA_OIF, index)
        self._request(_NEWROUTE, body, _CREATE | _EXCLUSIVE)

    def permanent_neighbour(self, index: int, address: str, mac: bytes) -> None:
        """Permanent entries do not count against the neighbour table that the whole kernel shares (1024 entries)."""
        body = struct.pack("=BxxxiHBB", socket.AF_INET, index, _PERMANENT, 0, 0)
        body += attribute(_NDA_DST, socket.inet_aton(address)) + attribute(_NDA_LLADDR, mac)
        self._request(_NEWNEIGH, body, _CREATE)

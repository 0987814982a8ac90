"""Source NAT by nftables over netlink: packets that leave by one interface get that interface's address.

The tunnel programs (pasta, slirp4netns) know one address only, not those of the pods behind it. The rule is part of
the job's network namespace and ends with it. The `nft` program is not needed.
"""

from __future__ import annotations

import functools
import os
import socket
import struct

from pumice.engines.local.sandbox.net import netlink

_NETLINK_NETFILTER = 12
_BATCH_BEGIN, _BATCH_END, _NFTABLES = 0x10, 0x11, 10
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = 0, 3, 6
_REQUEST, _ACK, _CREATE, _APPEND, _ERROR, _NESTED = 1, 4, 0x400, 0x800, 2, 0x8000
_IPV4 = 2
_PREROUTING, _POSTROUTING = 0, 4
_BEFORE_TRACKING, _SOURCE_NAT = -300, 100
_OUT_INTERFACE, _NETWORK_HEADER, _REGISTER = 5, 1, 1
_SOURCE_AT, _DESTINATION_AT = 12, 16
_TABLE = "pumice"
# Numbers are in network byte order, unlike in rtnetlink.
_attribute = functools.partial(netlink.attribute, byte_order="!")


def _nest(kind: int, *values: bytes) -> bytes:
    return _attribute(kind | _NESTED, b"".join(values))


def _expression(name: str, *data: bytes) -> bytes:
    return _nest(1, _attribute(1, name), _nest(2, *data))


def _equals(value: bytes) -> bytes:
    return _expression("cmp", _attribute(1, _REGISTER), _attribute(2, 0), _nest(3, _attribute(1, value)))


def _is_in(network: bytes, offset: int) -> bytes:
    """Match packets whose address at this offset of the IP header begins with these bytes."""
    field = (_attribute(2, _NETWORK_HEADER), _attribute(3, offset), _attribute(4, len(network)))
    return _expression("payload", _attribute(1, _REGISTER), *field) + _equals(network)


def _chain(name: str, kind: str, hook: int, priority: int) -> bytes:
    base = _nest(4, _attribute(1, hook), _attribute(2, priority))
    return _attribute(1, _TABLE) + _attribute(3, name) + base + _attribute(7, kind)


def _rule(chain: str, *expressions: bytes) -> bytes:
    return _attribute(1, _TABLE) + _attribute(2, chain) + _nest(4, *expressions)


def masquerade(interface: int, pods: bytes) -> None:
    """Masquerade in the caller's network namespace. `pods` are the leading bytes of the pods' addresses.

    Connections between pods bypass connection tracking, which would only slow them down.
    """
    leaves = _expression("meta", _attribute(1, _REGISTER), _attribute(2, _OUT_INTERFACE))
    leaves += _equals(struct.pack("=I", interface))
    _commit(
        (_NEW_TABLE, _CREATE, _attribute(1, _TABLE)),
        (_NEW_CHAIN, _CREATE, _chain("within", "filter", _PREROUTING, _BEFORE_TRACKING)),
        (_NEW_CHAIN, _CREATE, _chain("out", "nat", _POSTROUTING, _SOURCE_NAT)),
        (
            _NEW_RULE,
            _CREATE | _APPEND,
            _rule("within", _is_in(pods, _SOURCE_AT), _is_in(pods, _DESTINATION_AT), _expression("notrack")),
        ),
        (_NEW_RULE, _CREATE | _APPEND, _rule("out", leaves, _expression("masq"))),
    )


def _message(kind: int, flags: int, sequence: int, body: bytes, resource: int = 0) -> bytes:
    family = _IPV4 if kind >= _NFTABLES << 8 else 0
    body = struct.pack("!BBH", family, 0, resource) + body
    return struct.pack("=IHHII", 16 + len(body), kind, flags | _REQUEST, sequence, 0) + body


def _commit(*changes: tuple[int, int, bytes]) -> None:
    """Apply all changes or none; raises OSError with the kernel's answer."""
    batch = [_message(_BATCH_BEGIN, 0, 0, b"", _NFTABLES)]
    for sequence, (kind, flags, body) in enumerate(changes, 1):
        batch.append(_message(_NFTABLES << 8 | kind, flags | _ACK, sequence, body))
    batch.append(_message(_BATCH_END, 0, len(changes) + 1, b"", _NFTABLES))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER) as channel:
        channel.bind((0, 0))
        channel.settimeout(5)
        channel.send(b"".join(batch))
        answered = 0
        while answered < len(changes):
            answered += _read_answers(channel.recv(65536))


def _read_answers(data: bytes) -> int:
    """The number of changes that these answers acknowledge."""
    answered = 0
    while data:
        length, kind = struct.unpack_from("=IH", data)
        if kind == _ERROR:
            (number,) = struct.unpack_from("=i", data, 16)
            if number:
                raise OSError(-number, f"nftables: {os.strerror(-number)}")
            answered += 1
        data = data[(length + 3) & ~3 :]
    return answered

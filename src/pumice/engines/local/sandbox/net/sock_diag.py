"""The memory of all sockets in a network namespace: data that was sent and not yet read, and rings of packets.

/proc/net/protocols counts the sockets of each protocol; netlink lists them with their memory. A Unix socket that was
closed is counted, but not listed, as long as somebody may read what it sent.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import defaultdict
from collections.abc import Iterator
from socket import AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX
from typing import NamedTuple

from pumice.engines.local.sandbox import kernel_files
from pumice.engines.local.sandbox.net.netlink import attribute

NO_DESCRIPTOR = 0  # instead of an inode: connections that nobody has accepted, sockets that were closed

_SOCK_DIAG, _BY_FAMILY = 4, 20
_DUMP, _ERROR, _DONE = 0x301, 2, 3
_TCP, _UDP, _SCTP, _UDPLITE, _RAW, _MPTCP = 6, 17, 132, 136, 255, 262
_WHOLE_PROTOCOL = 3  # the attribute for a number above 255
_SKMEMINFO = 7
# TIME_WAIT, SYN_RECV and NEW_SYN_RECV are no whole sockets and have no buffers.
_STATES = 0xFFFFFFFF & ~(1 << 6 | 1 << 3 | 1 << 12)
_BUFFERS = struct.Struct("=8I")  # received, its limit, sent, its limit, reserved, queued, options, backlog
_RING = struct.Struct("=II")  # the size and the number of blocks
_DEFAULT_BUFFER = 212992
_CHUNK = 1 << 17


class _Listing(NamedTuple):
    """How sockets are listed: the request, where an answer has the inode, and which attributes follow its header."""

    request: bytes
    inode: int
    header: int
    buffers: int
    unread: int = -1
    rings: tuple[int, ...] = ()


def _inet(family: int, protocol: int) -> _Listing:
    request = struct.pack("=BBBxI48x", family, protocol & 0xFF, 1 << (_SKMEMINFO - 1), _STATES)
    if protocol == _MPTCP:
        request += attribute(_WHOLE_PROTOCOL, protocol)
    return _Listing(request, 68, 72, _SKMEMINFO)


_UNIX = _Listing(struct.pack("=BxxxIIIII", AF_UNIX, 0xFFFFFFFF, 0, 0x30, 0, 0), 4, 16, 5, unread=4)
_LISTINGS = {
    "UNIX": _UNIX,
    "UNIX-STREAM": _UNIX,
    "TCP": _inet(AF_INET, _TCP),
    "TCPv6": _inet(AF_INET6, _TCP),
    "UDP": _inet(AF_INET, _UDP),
    "UDPv6": _inet(AF_INET6, _UDP),
    "UDP-Lite": _inet(AF_INET, _UDPLITE),
    "UDPLITEv6": _inet(AF_INET6, _UDPLITE),
    "RAW": _inet(AF_INET, _RAW),
    "RAWv6": _inet(AF_INET6, _RAW),
    "MPTCP": _inet(AF_INET, _MPTCP),
    "MPTCPv6": _inet(AF_INET6, _MPTCP),
    "SCTP": _inet(AF_INET, _SCTP),
    "SCTPv6": _inet(AF_INET6, _SCTP),
    "NETLINK": _Listing(struct.pack("=BBxxIIII", AF_NETLINK, 0xFF, 0, 1, 0, 0), 16, 28, 0),
    "PACKET": _Listing(struct.pack("=BxxxIIII", AF_PACKET, 0, 0x14, 0, 0), 4, 16, 6, rings=(2, 3)),
}


class _Socket(NamedTuple):
    inode: int
    size: int
    unread: int  # sent by others, who pay for it


class SockDiag:
    """Reads the network namespace in which it was created, also after its process has left that."""

    def __init__(self) -> None:
        self._buffer = _DEFAULT_BUFFER
        with contextlib.suppress(OSError):
            # Old kernels show it outside of namespaces only.
            self._buffer = int(kernel_files.read("/proc/sys/net/core/wmem_default"))
        self._protocols = open("/proc/self/net/protocols", "rb", buffering=0)  # noqa: SIM115 - until `close`
        try:
            self._socket = socket.socket(AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG)
        except OSError:
            self._protocols.close()
            raise

    def close(self) -> None:
        self._protocols.close()
        self._socket.close()

    def read(self) -> dict[int, int]:
        """Return bytes by the inode of a socket, or by NO_DESCRIPTOR."""
        counts = self._counts()
        sizes: dict[int, int] = defaultdict(int)
        unlisted = sum(count for name, count in counts.items() if name not in _LISTINGS)
        sizes[NO_DESCRIPTOR] = unlisted * 2 * self._buffer
        for listing in {_LISTINGS[name] for name in counts if name in _LISTINGS}:
            found = list(self._list(listing))
            for each in found:
                sizes[each.inode] += each.size
            if listing is _UNIX:
                sizes[NO_DESCRIPTOR] += self._closed(found, min(_unix(counts), _unix(self._counts())))
        return sizes

    def _closed(self, listed: list[_Socket], number: int) -> int:
        """Return what Unix sockets that were closed have sent and nobody has read: as much as the default allows.

        Those whose buffer was enlarged sent more; it shows in the number of bytes that there are to read.
        """
        unread = sum(each.unread - each.size for each in listed)
        return max(0, unread, (number - len(listed)) * self._buffer)

    def _counts(self) -> dict[str, int]:
        """Return the number of sockets of each protocol that has any."""
        lines = kernel_files.read_again(self._protocols.fileno()).splitlines()[1:]
        counted = ((words[0].decode(), int(words[2])) for words in map(bytes.split, lines))
        return {name: count for name, count in counted if count > 0}

    def _list(self, listing: _Listing) -> Iterator[_Socket]:
        self._socket.send(struct.pack("=IHHII", 16 + len(listing.request), _BY_FAMILY, _DUMP, 0, 0) + listing.request)
        while True:
            answer = self._socket.recv(_CHUNK)
            start = 0
            while start < len(answer):
                length, kind = struct.unpack_from("=IH", answer, start)
                if kind in (_ERROR, _DONE):
                    # An error if this kernel does not list these sockets.
                    return
                yield _parse(listing, answer[start + 16 : start + length])
                start += (length + 3) & ~3


def _unix(counts: dict[str, int]) -> int:
    return counts.get("UNIX", 0) + counts.get("UNIX-STREAM", 0)


def _parse(listing: _Listing, message: bytes) -> _Socket:
    (inode,) = struct.unpack_from("=I", message, listing.inode)
    size, unread, start = 0, 0, listing.header
    while start + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, start)
        if kind == listing.buffers:
            received, _, sent, _, _, queued, options, backlog = _BUFFERS.unpack_from(message, start + 4)
            # TCP counts what it sends twice: in the queue, and on its way.
            size += received + max(sent, queued) + options + backlog
        elif kind == listing.unread:
            (unread,) = struct.unpack_from("=I", message, start + 4)
        elif kind in listing.rings:
            block, number = _RING.unpack_from(message, start + 4)
            size += block * number
        start += max(4, (length + 3) & ~3)
    return _Socket(inode, size, unread)

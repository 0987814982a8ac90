"""The DNS server of the cluster: headless Services by their EndpointSlices, ready endpoints only, as CoreDNS does."""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from collections.abc import Mapping

from tests.cluster.api import Object, path_of
from tests.cluster.async_api import AsyncApi
from tests.cluster.background_thread import BackgroundThread
from tests.cluster.cluster import USERS, Cluster

DOMAIN = "cluster.local"
_HEADER = struct.Struct("!6H")
_ADDRESS = 1  # the type of a question for IPv4 addresses
_NO_SUCH_NAME = 3


class Dns(BackgroundThread):
    def __init__(self, cluster: Cluster, address: str) -> None:
        super().__init__()
        self.names: dict[str, list[str]] = {}
        self._address = address
        self._api = AsyncApi(cluster.server, USERS["admin"][0], cluster.tls)
        self._slices: dict[str, Object] = {}

    async def main(self) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Server(self), local_addr=(self._address, 53))
        try:
            async with self._api:
                self.mark_ready()
                async for kind, found in self._api.follow(path_of("EndpointSlice")):
                    if kind == "DELETED":
                        self._slices.pop(found["metadata"]["uid"], None)
                    else:
                        self._slices[found["metadata"]["uid"]] = found
                    self.names = addresses(self._slices)
        finally:
            transport.close()


def addresses(slices: Mapping[str, Object]) -> dict[str, list[str]]:
    """Return the addresses of each name, such as HOST.SERVICE.NAMESPACE.svc.cluster.local."""
    found: dict[str, list[str]] = {}
    for each in slices.values():
        service = each["metadata"].get("labels", {}).get("kubernetes.io/service-name")
        zone = f"{service}.{each['metadata']['namespace']}.svc.{DOMAIN}"
        for endpoint in each.get("endpoints") or []:
            if endpoint["conditions"].get("ready"):
                names = [zone, *([f"{endpoint['hostname']}.{zone}"] if endpoint.get("hostname") else [])]
                for name in names:
                    found.setdefault(name, []).extend(endpoint["addresses"])
    return found


def answer(query: bytes, names: Mapping[str, list[str]]) -> bytes:
    """Answer a question for an IPv4 address; other questions about a known name have an empty answer."""
    number, flags, *_ = _HEADER.unpack_from(query)
    labels, offset = [], _HEADER.size
    while length := query[offset]:
        labels.append(query[offset + 1 : offset + 1 + length].decode("ascii", errors="replace"))
        offset += 1 + length
    question = query[_HEADER.size : offset + 5]
    kind = struct.unpack_from("!H", query, offset + 1)[0]
    known = names.get(".".join(labels).lower())
    listed = (known or []) if kind == _ADDRESS else []
    code = 0 if known is not None else _NO_SUCH_NAME
    # A response with authority, which allows recursion if the question did; the name is a pointer to the question.
    header = _HEADER.pack(number, 0x8480 | (flags & 0x0100) | code, 1, len(listed), 0, 0)
    records = [struct.pack("!3HIH", 0xC00C, _ADDRESS, 1, 1, 4) + ipaddress.ip_address(each).packed for each in listed]
    return header + question + b"".join(records)


class _Server(asyncio.DatagramProtocol):
    def __init__(self, dns: Dns) -> None:
        self._dns = dns
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]  # asyncio declares the base class
        self._transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        assert self._transport is not None
        self._transport.sendto(answer(data, self._dns.names), address)

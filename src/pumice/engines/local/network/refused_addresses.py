"""Addresses outside of the job that pods do not reach unless the user says `--network all`.

Link-local and metadata addresses give the credentials of a cloud machine to every caller; services on the machine's
own addresses often trust all who reach them.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LINK_LOCAL: Final = "169.254.0.0/16"
# The metadata services of Alibaba, Azure and Oracle; those of AWS and Google are link-local, or IPv6.
_METADATA: Final = ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32")
_NETWORKS: Final = tuple(
    map(ipaddress.ip_network, (_LINK_LOCAL, *_METADATA, "fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"))
)
# A gateway to IPv4 (RFC 6052): the last 32 bits are an IPv4 address.
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_LOCAL_ROUTE: Final = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")
_ROUTES: Final = Path("/proc/self/net/fib_trie")
_IPV6: Final = Path("/proc/self/net/if_inet6")


def own_addresses(routes: Path = _ROUTES, ipv6: Path = _IPV6) -> set[Address]:
    """Return the addresses of this machine's interfaces, in this network namespace."""
    found: set[Address] = set()
    if routes.exists():
        found |= set(map(ipaddress.ip_address, _LOCAL_ROUTE.findall(routes.read_text())))
    if ipv6.exists():
        found |= {ipaddress.IPv6Address(int(line.split()[0], 16)) for line in ipv6.read_text().splitlines()}
    return found


def refused_networks() -> list[str]:
    """Return the IPv4 networks that the tunnel programs must not reach. Loopback they do not reach anyway."""
    own = sorted(str(each) for each in own_addresses() if each.version == ipaddress.IPv4Address(0).version)
    return [_LINK_LOCAL, *_METADATA, *(f"{each}/32" for each in own if not each.startswith("127."))]


def is_loopback(address: str) -> bool:
    ip = _plain(address)
    return ip.is_loopback or ip.is_unspecified


def is_refused(address: str) -> bool:
    """Return whether an address is link-local, of a metadata service, or this machine's."""
    ip = _plain(address)
    return is_loopback(address) or any(ip in network for network in _NETWORKS) or ip in own_addresses()


def _plain(address: str) -> Address:
    """Return the IPv4 address that an IPv6 address may stand for."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    embedded = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
    return ip.ipv4_mapped or embedded or ip

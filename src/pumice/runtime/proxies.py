"""The proxy for a server, from the usual environment variables.

`NO_PROXY` may contain networks (`10.0.0.0/8`), as it often does on the nodes of a cluster. Loopback addresses are never
reached through a proxy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(server: str, environment: Mapping[str, str]) -> str | None:
    """Return the proxy, or None for a direct connection. Only servers with TLS are reached through a proxy."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    proxy = _setting(environment, "https_proxy")
    if not proxy or parts.scheme != "https" or is_loopback(host):
        return None
    excluded = filter(None, (entry.strip().lower() for entry in _setting(environment, "no_proxy").split(",")))
    if any(_covers(entry, host.lower(), parts.port) for entry in excluded):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _setting(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.upper()) or ""


def _covers(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except (ValueError, TypeError):
        pass  # The host or the entry is a name, or they differ in their address family.
    name, _, wanted = entry.rpartition(":")
    if name and wanted.isdigit() and int(wanted) != port:
        return False
    name = (name if name and wanted.isdigit() else entry).removeprefix("*").removeprefix(".")
    return host == name or host.endswith("." + name)

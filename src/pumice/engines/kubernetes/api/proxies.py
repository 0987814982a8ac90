"""Which proxy leads to the API server, by the settings in the environment that other programs obey, too.

It is settled once for the one server that a client talks to. `NO_PROXY` may hold networks (`10.0.0.0/8`), as it often
does on the nodes of a cluster; loopback is never reached through a proxy, whatever the settings say.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(server: str, environment: Mapping[str, str]) -> str | None:
    """The proxy, or None for the straight way. A server without TLS is near, and never reached through a proxy."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    proxy = _setting(environment, "https_proxy")
    if (
        not proxy
        or parts.scheme != "https"
        or is_loopback(host)
        or _excepted(host, parts.port, _setting(environment, "no_proxy"))
    ):
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


def _excepted(host: str, port: int | None, no_proxy: str) -> bool:
    return any(_covers(entry.strip().lower(), host.lower(), port) for entry in no_proxy.split(",") if entry.strip())


def _covers(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except (ValueError, TypeError):
        pass  # The host or the entry is a name, or they are of different families.
    name, _, wanted = entry.rpartition(":")
    if name and wanted.isdigit() and int(wanted) != port:
        return False
    name = (name if name and wanted.isdigit() else entry).removeprefix("*").removeprefix(".")
    return host == name or host.endswith("." + name)

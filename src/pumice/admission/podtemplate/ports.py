"""Ports of containers: numbers, names, protocols, and conflicts on the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pumice.admission.podtemplate.checks import one_of, port_number, spelled, unique
from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import Finding, Path
from pumice.model.syntax import port_name_error

PROTOCOLS: Final = ("TCP", "UDP", "SCTP")


def check_ports(container: View) -> Iterator[Finding]:
    names: dict[str, Path] = {}
    for port in container.children("ports"):
        yield from spelled(port, "name", port_name_error)
        yield from unique(names, port.text("name"), port.at / "name", "the name of a port")
        if port.get("containerPort") in (None, 0):
            yield port.missing("containerPort")
        else:
            yield from port_number(port, "containerPort")
        if port.number("hostPort"):
            yield from port_number(port, "hostPort")
        yield from one_of(port, "protocol", PROTOCOLS)


def check_host_network(containers: Iterable[View]) -> Iterator[Finding]:
    """Check that host port and container port are equal on the node's network."""
    for container in containers:
        for port in container.children("ports"):
            outside, inside = port.number("hostPort"), port.number("containerPort")
            if outside and inside and outside != inside:
                yield port.error("hostPort", f"must be {inside}, as containerPort, because hostNetwork is true")


def check_host_ports(containers: Iterable[View], *, host_network: bool) -> Iterator[Finding]:
    """Report containers that run at the same time and use the same port of the node."""
    seen: dict[tuple[str, str, int], Path] = {}
    for container in containers:
        for port in container.children("ports"):
            # On the node's network, every port is a port of the node.
            taken = port.number("hostPort") or (port.number("containerPort") if host_network else 0)
            if not taken:
                continue
            node_port = (port.text("protocol") or "TCP", port.text("hostIP"), taken)
            if node_port in seen:
                yield port.error("hostPort", f"port {taken} of the node is already used at {seen[node_port]}")
            seen.setdefault(node_port, port.at)

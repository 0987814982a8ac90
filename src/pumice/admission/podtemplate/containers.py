"""Containers and init containers of a pod, and their ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pumice.admission.podtemplate.checks import (
    one_of,
    port_number,
    required,
    required_one_of,
    required_spelled,
    spelled,
    unique,
)
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.env import check_env
from pumice.admission.podtemplate.mounts import check_mounts
from pumice.admission.podtemplate.probes import PROBES, check_lifecycle, check_probes
from pumice.admission.podtemplate.resources import check_resources
from pumice.admission.podtemplate.security import check_container_security
from pumice.model.findings import Finding, Path
from pumice.model.syntax import dns_label_error, port_name_error

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_MOST_RULES: Final = 20
_MOST_EXIT_CODES: Final = 255


def check_containers(spec: View, volumes: Mapping[str, str]) -> Iterator[Finding]:
    """Check the containers of a pod, whose `volumes` map names to types."""
    containers, init_containers = spec.children("containers"), spec.children("initContainers")
    if not spec.size("containers"):
        yield spec.missing("containers", "must have at least one container")
    names: dict[str, Path] = {}
    for container in containers:
        yield from _check_container(container, spec, volumes, names)
        yield from check_lifecycle(container, spec)
        yield from check_probes(container)
        yield from _check_restart(container)
    for container in init_containers:
        yield from _check_container(container, spec, volumes, names)
        yield from _check_init(container, spec)
        yield from _check_restart(container)
    host_network = spec.flag("hostNetwork")
    yield from _check_host_ports(containers, host_network=host_network)
    # Init containers run one after another, so only ports of the same one can conflict.
    for container in init_containers:
        yield from _check_host_ports([container], host_network=host_network)
    if host_network:
        yield from _check_host_network(containers)


def _check_container(
    container: View, spec: View, volumes: Mapping[str, str], names: dict[str, Path]
) -> Iterator[Finding]:
    """Check what containers and init containers have in common."""
    yield from required_spelled(container, "name", dns_label_error)
    yield from unique(names, container.text("name"), container.at / "name", "the name of a container")
    yield from required(container, "image")
    image = container.text("image")
    if image != image.strip():
        yield container.error("image", "must not begin or end with white space")
    yield from one_of(container, "imagePullPolicy", ("Always", "IfNotPresent", "Never"))
    yield from one_of(container, "terminationMessagePolicy", ("File", "FallbackToLogsOnError"))
    yield from _check_ports(container)
    yield from check_env(container, volumes)
    yield from check_mounts(container, volumes)
    claims = {claim.text("name") for claim in spec.children("resourceClaims")} - {""}
    yield from check_resources(container.part("resources"), claims)
    yield from _check_resize(container, spec)
    yield from check_container_security(container, shares_users=not spec.denies("hostUsers"))
    if spec.denies("hostUsers") and container.size("volumeDevices"):
        yield container.missing("volumeDevices", "cannot be used when hostUsers is false")


def _check_resize(container: View, spec: View) -> Iterator[Finding]:
    names: dict[str, Path] = {}
    for policy in container.children("resizePolicy"):
        yield from required_one_of(policy, "resourceName", ("cpu", "memory"))
        yield from unique(names, policy.text("resourceName"), policy.at / "resourceName", "this resource")
        yield from required_one_of(policy, "restartPolicy", ("NotRequired", "RestartContainer"))
        if spec.text("restartPolicy") == "Never" and policy.text("restartPolicy") == "RestartContainer":
            yield policy.error("restartPolicy", "must be NotRequired, because the pod's restartPolicy is Never")


def _check_init(container: View, spec: View) -> Iterator[Finding]:
    """Check an init container: it ends before the next one starts, unless it is a sidecar (restartPolicy Always)."""
    if container.text("restartPolicy") == "Always":
        yield from check_lifecycle(container, spec)
        yield from check_probes(container)
        return
    for key in ("lifecycle", *PROBES):
        if container.has(key):
            hint = "set restartPolicy: Always to make it a sidecar"
            yield container.missing(key, "is only for containers that keep running, not for init containers", hint)
    for policy in container.children("resizePolicy"):
        if policy.text("restartPolicy") == "RestartContainer":
            yield policy.error("restartPolicy", "must be NotRequired for an init container")


def _check_restart(container: View) -> Iterator[Finding]:
    """Check a container's own restart policy and its rules for exit codes."""
    yield from one_of(container, "restartPolicy", RESTART_POLICIES, blank_is_unset=False)
    rules = container.children("restartPolicyRules")
    if rules and not container.has("restartPolicy"):
        yield container.missing("restartPolicy", "is required with restartPolicyRules")
    if container.size("restartPolicyRules") > _MOST_RULES:
        yield container.missing("restartPolicyRules", f"must be at most {_MOST_RULES} rules")
    for rule in rules:
        yield from required_one_of(rule, "action", ("Restart", "RestartAllContainers"))
        if not rule.has("exitCodes"):
            yield rule.missing("exitCodes")
        if codes := rule.child("exitCodes"):
            yield from required_one_of(codes, "operator", ("In", "NotIn"))
            if codes.size("values") > _MOST_EXIT_CODES:
                yield codes.missing("values", f"must be at most {_MOST_EXIT_CODES} exit codes")


def _check_ports(container: View) -> Iterator[Finding]:
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
        yield from one_of(port, "protocol", ("TCP", "UDP", "SCTP"))


def _check_host_network(containers: Iterable[View]) -> Iterator[Finding]:
    """Check that host port and container port are equal on the node's network."""
    for container in containers:
        for port in container.children("ports"):
            outside, inside = port.number("hostPort"), port.number("containerPort")
            if outside and inside and outside != inside:
                yield port.error("hostPort", f"must be {inside}, as containerPort, because hostNetwork is true")


def _check_host_ports(containers: Iterable[View], *, host_network: bool) -> Iterator[Finding]:
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

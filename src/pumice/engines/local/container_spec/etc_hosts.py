"""/etc/hosts and /etc/resolv.conf of pods: how the names of the job's pods and Services resolve.

A pod's own name resolves to its own address, never to a loopback one: Gloo listens on the address of the host name. The
longest name comes first, because a reverse lookup returns it, as on a cluster. The line with the IPv6 form of an
address keeps reverse lookups from failing; it has one name only, so that no name has two addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from pumice.engines.local.sandbox.specs import File
from pumice.model.job import Manifest
from pumice.model.naming import LABEL_LIMIT

DOMAIN: Final = "svc.cluster.local"
# The kernel's limit.
_LONGEST_HOSTNAME: Final = 64
_LOCAL: Final = """\
127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
fe00::0 ip6-localnet
ff02::1 ip6-allnodes
ff02::2 ip6-allrouters
"""


class NamedPod(Struct, frozen=True):
    """A pod as other pods look it up."""

    ip: str
    hostname: str
    subdomain: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def pod_hostname(manifest: Manifest) -> str:
    """Return what `hostname` prints in the pod."""
    spec = manifest.get("spec") or {}
    if spec.get("hostnameOverride"):
        return str(spec["hostnameOverride"])
    short = truncated(str(spec.get("hostname") or manifest["metadata"]["name"]))
    if not (spec.get("setHostnameAsFQDN") and spec.get("subdomain")):
        return short
    long = f"{short}.{spec['subdomain']}.{manifest['metadata'].get('namespace') or 'default'}.{DOMAIN}"
    return long if len(long) <= _LONGEST_HOSTNAME else short


def names_by_address(
    pods: Sequence[NamedPod], services: Iterable[Manifest], namespace: str
) -> dict[str, dict[str, None]]:
    """Map each pod's address to the names that lead to it, its own before those of Services."""
    names: dict[str, dict[str, None]] = {}
    for pod in pods:
        long = reversed(_qualified(f"{pod.hostname}.{pod.subdomain}", namespace)) if pod.subdomain else ()
        names.setdefault(pod.ip, {}).update(dict.fromkeys([*long, pod.hostname]))
    for service in services:
        spelled = _qualified(service["metadata"]["name"], namespace)
        selector = (service.get("spec") or {}).get("selector") or {}
        for pod in pods:
            if selector and all(pod.labels.get(key) == value for key, value in selector.items()):
                # After the pod's own names, so that a reverse lookup returns the pod.
                names[pod.ip].update(dict.fromkeys(reversed(spelled)))
    return names


def hosts_text(names: Mapping[str, Iterable[str]]) -> str:
    """What all pods of the job have in common; each adds its own `alias_lines`."""
    lines = [f"{ip} {' '.join(of)}\n::ffff:{ip} {next(iter(of))}\n" for ip, of in names.items()]
    return _LOCAL + "".join(lines)


def alias_lines(manifest: Manifest) -> str:
    """Return the lines of the pod's `hostAliases`."""
    aliases = (manifest.get("spec") or {}).get("hostAliases") or []
    lines = [f"{alias['ip']} {' '.join(alias.get('hostnames') or [])}\n" for alias in aliases]
    return "\n# hostAliases of the pod\n" + "".join(lines) if lines else ""


def resolv_conf(manifest: Manifest, nameservers: Sequence[str]) -> str:
    """`nameservers` are those that the pod can reach. Without any, unknown names fail at once."""
    spec = manifest.get("spec") or {}
    config: Mapping[str, Any] = spec.get("dnsConfig") or {}
    # A server that cannot be reached would cost five seconds for each unknown name.
    own = [str(server) for server in config.get("nameservers") or []] if nameservers else []
    servers = own if spec.get("dnsPolicy") == "None" else [*nameservers, *own]
    lines = [f"nameserver {server}\n" for server in dict.fromkeys(servers)]
    if searches := config.get("searches"):
        lines.append(f"search {' '.join(map(str, searches))}\n")
    if options := config.get("options"):
        pairs = [(str(option.get("name")), option.get("value")) for option in options]
        words = (name if value is None else f"{name}:{value}" for name, value in pairs)
        lines.append(f"options {' '.join(words)}\n")
    return "".join(lines)


def name_files(hosts: bytes, manifest: Manifest, nameservers: Sequence[str]) -> tuple[File, ...]:
    """Return the files that make names resolve in a pod, /etc/hosts first."""
    return (
        File("/etc/hosts", hosts + alias_lines(manifest).encode(), shared=True),
        File("/etc/hostname", f"{pod_hostname(manifest)}\n".encode()),
        File("/etc/resolv.conf", resolv_conf(manifest, nameservers).encode(), shared=True),
        # Makes glibc return all addresses of a name, like a headless Service.
        File("/etc/host.conf", b"multi on\n", shared=True),
    )


def truncated(hostname: str) -> str:
    """Truncate like Kubernetes, which also strips characters that a host name cannot end with."""
    return hostname[:LABEL_LIMIT].rstrip("-.")


def _qualified(name: str, namespace: str) -> list[str]:
    """Return the spellings of a name within the namespace, from short to long."""
    return [name, f"{name}.{namespace}", f"{name}.{namespace}.svc", f"{name}.{namespace}.{DOMAIN}"]

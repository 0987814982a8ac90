"""What a container sees in /etc: how names resolve, and the accounts of the users that containers run as.

A pod's own name resolves to its own address, never to a loopback one: Gloo listens on the address of the host name. The
longest name comes first, because a reverse lookup returns it, as on a cluster. The line with the IPv6 form of an
address keeps reverse lookups from failing; it has one name only, so that no name has two addresses.

The host's own account files are no use in a pod: an ordinary user can read neither host keys nor passwords, and in a
user namespace with a single id every account that a daemon switches to must have that id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from pumice.engines.local.images.confined_directory import read_inside
from pumice.engines.local.images.store import Image
from pumice.engines.local.sandbox.sandbox_errors import USER, StartError
from pumice.engines.local.sandbox.specs import File
from pumice.engines.local.volumes.volume_plan import fs_group
from pumice.model.job import Manifest
from pumice.model.naming import LABEL_LIMIT
from pumice.model.objects import KeyPair

HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key"
_HOST_KEYS: Final = "/etc/ssh/ssh_host_"
_DAEMON: Final = "sshd:x:{uid}:{gid}:sshd:/run/sshd:/usr/sbin/nologin"
_ACCOUNT_FIELDS: Final = 7
_GROUP_FIELDS: Final = 4
# `*` is no valid password, but the account is not locked, so sshd accepts keys.
_SHADOW: Final = "{name}:*:19000:0:99999:7:::\n"
_ROOT: Final = (None, 0)
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


def user_and_group(manifest: Manifest, container: Manifest, image: Image | None) -> tuple[int | None, int | None]:
    """Return the ids from the manifest, else from the image; None means root. Raises StartError for unknown names."""
    user, group = (_security_field(manifest, container, name) for name in ("runAsUser", "runAsGroup"))
    if user is None and image is not None and image.config.user:
        named, _, named_group = image.config.user.partition(":")
        found = find_user(read_inside(image.root, "etc/passwd"), named)
        if found is None:
            raise StartError(USER, f"its image runs as {named}, who is not in its /etc/passwd: set runAsUser")
        user = found[0]
        if group is None:
            named_id = find_group(read_inside(image.root, "etc/group"), named_group) if named_group else None
            group = found[1] if named_id is None else named_id
    return user, group


def home_of(user: int | None, image: Image | None) -> str:
    """Return the home directory as a container runtime sets it; homes of the host are not visible."""
    if user in _ROOT:
        return "/root"
    found = None if image is None else find_user(read_inside(image.root, "etc/passwd"), str(user))
    return "/" if found is None else found[2]


def supplemental_groups(manifest: Manifest) -> tuple[int, ...]:
    """Return the pod's extra groups with its fsGroup, which owns its volumes."""
    given = (manifest["spec"].get("securityContext") or {}).get("supplementalGroups") or ()
    own = fs_group(manifest)
    return tuple(dict.fromkeys([*map(int, given), *([] if own is None else [own])]))


def violates_run_as_non_root(manifest: Manifest, container: Manifest, user: int | None) -> bool:
    return user in _ROOT and bool(_security_field(manifest, container, "runAsNonRoot"))


def host_key_files(key: KeyPair, hidden: Iterable[str] = ()) -> tuple[File, ...]:
    """Return the key of sshd, also in place of hidden keys of this machine: sshd warns of a key that it cannot use."""
    others = sorted(path for path in hidden if path.startswith(_HOST_KEYS) and path != HOST_KEY)
    parts = ((".pub", key.public, 0o644), ("", key.private, 0o600))
    return tuple(
        File(path + ending, text.encode(), mode, shared=True)
        for path in (HOST_KEY, *others)
        for ending, text, mode in parts
    )


def account_files(passwd: str, group: str, *, single_id: bool) -> tuple[File, ...]:
    """Return the accounts of an image or host with those that daemons need; a single id also serves sshd.

    /etc/shadow has no passwords: the host's cannot be read.
    """
    accounts, groups = _rows(passwd, _ACCOUNT_FIELDS), _rows(group, _GROUP_FIELDS)
    for line in ("root:x:0:0:root:/root:/bin/sh", "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"):
        accounts.setdefault(line.partition(":")[0], line.split(":"))
    for line in ("root:x:0:", "nogroup:x:65534:"):
        groups.setdefault(line.partition(":")[0], line.split(":"))
    if single_id:
        accounts["sshd"] = _DAEMON.format(uid=0, gid=0).split(":")
        groups["sshd"] = ["sshd", "x", "0", ""]
    else:
        accounts.setdefault("sshd", _DAEMON.format(uid=100, gid=65534).split(":"))
    shadow = "".join(_SHADOW.format(name=name) for name in accounts)
    return (
        File("/etc/passwd", _encoded(accounts), shared=True),
        File("/etc/group", _encoded(groups), shared=True),
        File("/etc/shadow", shadow.encode("utf-8", "surrogateescape"), 0o600, shared=True),
    )


def find_user(passwd: str, wanted: str) -> tuple[int, int, str] | None:
    """Return id, group and home of an account by name or id; None if a name is unknown.

    An id without an account gets group 0 and home /, as in container runtimes.
    """
    for row in _rows(passwd, _ACCOUNT_FIELDS).values():
        if wanted in {row[0], row[2]} and row[2].isdigit() and row[3].isdigit():
            return int(row[2]), int(row[3]), row[5] or "/"
    return (int(wanted), 0, "/") if wanted.isdigit() else None


def find_group(group: str, wanted: str) -> int | None:
    for row in _rows(group, _GROUP_FIELDS).values():
        if row[0] == wanted and row[2].isdigit():
            return int(row[2])
    return int(wanted) if wanted.isdigit() else None


def _security_field(manifest: Manifest, container: Manifest, field: str) -> int | None:
    """Return a field of the container's securityContext, else of the pod's."""
    contexts = (container.get("securityContext") or {}, manifest["spec"].get("securityContext") or {})
    return next((context[field] for context in contexts if context.get(field) is not None), None)


def _rows(text: str, fields: int) -> dict[str, list[str]]:
    """Return the well-formed lines by name; the first line of a name wins, as in glibc."""
    rows: dict[str, list[str]] = {}
    for line in text.splitlines():
        row = line.split(":")
        if len(row) == fields and row[0] and row[0][0] not in "#+-":
            rows.setdefault(row[0], row)
    return rows


def _encoded(rows: dict[str, list[str]]) -> bytes:
    return "".join(":".join(row) + "\n" for row in rows.values()).encode("utf-8", "surrogateescape")

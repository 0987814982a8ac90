"""Finds the API server and the credentials: in a kubeconfig, or in the service account of the pod this runs in.

The search order is the file named by the user, `$KUBECONFIG` (several files, merged), `~/.kube/config`, the service
account. Mistakes are reported before anything is contacted.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from pumice.engines.kubernetes.api.errors import AccessError
from pumice.engines.kubernetes.auth.credentials import Credentials, TokenFile
from pumice.engines.kubernetes.auth.kubeconfig import Cluster, Context, Kubeconfig, User, read_kubeconfig
from pumice.engines.kubernetes.auth.tls import CertificateError, tls_context
from pumice.engines.kubernetes.auth.user_credentials import Entry, credentials_of, exec_cluster_info, read_pem
from pumice.model.suggestions import did_you_mean
from pumice.runtime.proxies import proxy_for

__all__ = ["Access", "AccessError", "find_access"]

NO_CLUSTER: Final = (
    "no cluster to connect to: no kubeconfig is given, KUBECONFIG names none, there is no ~/.kube/config, and this is "
    "not a pod of a cluster"
)
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NO_ACCOUNT: Final = "the pod has no service account; set automountServiceAccountToken: true, or name a kubeconfig"
_NO_PROXY: Final = "must be an address such as http://proxy:3128; other kinds of proxies are not supported"
_T = TypeVar("_T")


class Access(Struct, frozen=True):
    server: str
    namespace: str
    tls: ssl.SSLContext | None
    credentials: Credentials
    description: str  # the name of the context, or "in-cluster", for messages
    server_name: str | None = None  # the name in the server's certificate, where it differs from the address
    proxy: str | None = None


class NoClusterError(AccessError):
    """There is no kubeconfig, and this is not a pod of a cluster."""


def find_access(kubeconfig: str | None, context: str | None = None) -> Access:
    config = find_kubeconfig(kubeconfig)
    if config is not None:
        return _from_kubeconfig(config, context)
    if context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster_access()
    raise NoClusterError(f"{NO_CLUSTER}; name a file with --kubeconfig")


def in_cluster_access() -> Access:
    """Return the access of the service account of the pod in which this runs. Raises AccessError."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT") or "443"
    if not host:
        raise AccessError("in-cluster: this is not a pod of a cluster; name a context of the kubeconfig")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    try:
        authority = (SERVICE_ACCOUNT / "ca.crt").read_bytes()
        has_token = (SERVICE_ACCOUNT / "token").is_file()
    except OSError as error:
        raise AccessError(f"cannot read {SERVICE_ACCOUNT / 'ca.crt'}: {error.strerror}; {_NO_ACCOUNT}") from error
    if not has_token:
        raise AccessError(f"{SERVICE_ACCOUNT / 'token'} does not exist; {_NO_ACCOUNT}")
    try:
        tls = tls_context(authority)
    except CertificateError as error:
        raise AccessError(f"{SERVICE_ACCOUNT / 'ca.crt'} {error}") from error
    try:
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError:
        namespace = ""
    return Access(
        server=server,
        namespace=namespace or "default",
        tls=tls,
        credentials=TokenFile(SERVICE_ACCOUNT / "token"),
        description="in-cluster",
        proxy=_environment_proxy(server),
    )


def find_kubeconfig(kubeconfig: str | None) -> Kubeconfig | None:
    """Return the contexts that a user can name; None if there is no kubeconfig. Raises AccessError."""
    paths = _kubeconfig_paths(kubeconfig)
    return read_kubeconfig(paths) if paths else None


def _kubeconfig_paths(kubeconfig: str | None) -> list[Path]:
    if kubeconfig:
        return [Path(kubeconfig).expanduser()]
    named = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if named:
        return list(dict.fromkeys(named))
    home = os.environ.get("HOME")
    default = Path(home) / ".kube" / "config" if home else None
    # os.access is False in a home without permission: in a pod it often belongs to another user.
    return [default] if default is not None and os.access(default, os.F_OK) else []


def _from_kubeconfig(config: Kubeconfig, name: str | None) -> Access:
    name, context = _context(config, name)
    where = f"the context {name!r} of the kubeconfig {config.description}"
    cluster, cluster_file = _entry(config.clusters, "cluster", context.cluster, where)
    user, user_file = _entry(config.users, "user", context.user, where) if context.user else (User(), cluster_file)
    subject = f"the cluster {context.cluster!r} of {cluster_file}"
    server = _server(cluster, subject)
    tls = _tls(cluster, subject, cluster_file.parent) if server.startswith("https:") else None
    if cluster.proxy_url and not _is_http_proxy(cluster.proxy_url):
        raise AccessError(f"{subject}: proxy-url {_NO_PROXY}")
    entry = Entry(f"the user {context.user!r} of {user_file}", user_file.parent)
    return Access(
        server=server,
        namespace=context.namespace or "default",
        tls=tls,
        credentials=credentials_of(user, entry, tls, lambda: exec_cluster_info(cluster, cluster_file.parent)),
        description=name,
        server_name=cluster.tls_server_name or None,
        proxy=cluster.proxy_url or _environment_proxy(server),
    )


def _context(config: Kubeconfig, name: str | None) -> tuple[str, Context]:
    wanted = name or config.current
    known = ", ".join(sorted(config.contexts)) or "none"
    if not wanted:
        raise AccessError(
            f"the kubeconfig {config.description} has no current-context; choose one with --context, of: {known}"
        )
    if wanted not in config.contexts:
        hint = did_you_mean(wanted, config.contexts)
        raise AccessError(
            f"the kubeconfig {config.description} has no context {wanted!r}; there are: {known}"
            + (f"; {hint}" if hint else "")
        )
    return wanted, config.contexts[wanted]


def _entry(entries: dict[str, tuple[_T, Path]], kind: str, name: str, where: str) -> tuple[_T, Path]:
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise AccessError(f"{where} names the {kind} {name!r}, which does not exist; there are: {known}")
    return entries[name]


def _server(cluster: Cluster, subject: str) -> str:
    url = _parse_url(cluster.server)
    if url is None or url.scheme not in {"http", "https"}:
        # An address that cannot be parsed may contain a password.
        shown = "" if "@" in cluster.server else f" is {cluster.server!r}; it"
        raise AccessError(f"{subject}: server{shown} must be an address such as https://10.0.0.1:6443")
    if url.username or url.password or url.query or url.fragment:
        raise AccessError(f"{subject}: server must be an address without user, query and fragment")
    return cluster.server.rstrip("/")


def _tls(cluster: Cluster, subject: str, directory: Path) -> ssl.SSLContext:
    data, file = cluster.certificate_authority_data, cluster.certificate_authority
    authority = read_pem(data, file, f"{subject}: certificate-authority", directory)
    if authority is not None and cluster.insecure_skip_tls_verify:
        raise AccessError(
            f"{subject}: certificate-authority and insecure-skip-tls-verify contradict each other; keep the authority"
        )
    try:
        return tls_context(authority, verify=not cluster.insecure_skip_tls_verify)
    except CertificateError as error:
        raise AccessError(f"{subject}: certificate-authority {error}") from error


def _environment_proxy(server: str) -> str | None:
    proxy = proxy_for(server, os.environ)
    if proxy is not None and not _is_http_proxy(proxy):
        raise AccessError(f"HTTPS_PROXY {_NO_PROXY}; exclude the server {server} with NO_PROXY")
    return proxy


def _is_http_proxy(url: str) -> bool:
    parts = _parse_url(url)
    return parts is not None and parts.scheme == "http"


def _parse_url(url: str) -> SplitResult | None:
    """Parse an address; None without a host, with an impossible port, or with characters that no URL has."""
    try:
        parts = urlsplit(url)
        is_usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_usable and url.isascii() and url.isprintable() and " " not in url else None

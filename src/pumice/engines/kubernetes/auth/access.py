"""Where the API server is and as whom to ask it: from a kubeconfig, or from what a pod is given by its cluster.

Looked for in this order: the file that was named, `$KUBECONFIG` (several files, merged), `~/.kube/config`, the service
account of the pod that this runs in. Whatever is wrong there is told before anything is contacted.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import SplitResult, urlsplit

from pumice.engines.kubernetes.api.errors import AccessError
from pumice.engines.kubernetes.api.proxies import proxy_for
from pumice.engines.kubernetes.auth.credentials import Credentials, TokenFile
from pumice.engines.kubernetes.auth.kubeconfig import Cluster, Context, Kubeconfig, User, read_kubeconfig
from pumice.engines.kubernetes.auth.tls import CertificateError, tls_context
from pumice.engines.kubernetes.auth.user_credentials import Owner, credentials_of, material, told_to_plugins
from pumice.model.suggestions import did_you_mean

__all__ = ["Access", "AccessError", "find_access"]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NO_ACCOUNT: Final = "the pod has no service account; set automountServiceAccountToken: true, or name a kubeconfig"
_NO_PROXY: Final = "must be an address such as http://proxy:3128; other kinds of proxies are not supported"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Access:
    server: str
    namespace: str
    tls: ssl.SSLContext | None
    credentials: Credentials
    # The name of the context, or "in-cluster", for messages.
    description: str
    # The name that the server's certificate must bear, where it is not the one in the address.
    server_name: str | None = None
    proxy: str | None = None


def find_access(kubeconfig: str | None, context: str | None = None) -> Access:
    return _find(kubeconfig, context, os.environ, SERVICE_ACCOUNT)


def _find(kubeconfig: str | None, context: str | None, environment: Mapping[str, str], account: Path) -> Access:
    paths = _paths(kubeconfig, environment)
    if paths:
        return _by_context(read_kubeconfig(paths), context, environment)
    if context is None and environment.get("KUBERNETES_SERVICE_HOST"):
        return _in_cluster(environment, account)
    raise AccessError(
        "no cluster to talk to: neither --kubeconfig nor KUBECONFIG names a file, there is no ~/.kube/config, and this "
        "is not a pod of a cluster; name a file with --kubeconfig"
    )


def _paths(kubeconfig: str | None, environment: Mapping[str, str]) -> list[Path]:
    if kubeconfig:
        return [Path(kubeconfig).expanduser()]
    named = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    if named:
        return list(dict.fromkeys(named))
    home = environment.get("HOME")
    usual = Path(home) / ".kube" / "config" if home else None
    # os.access, because a home that is closed to us has none for us: in a pod it is often somebody else's.
    return [usual] if usual is not None and os.access(usual, os.F_OK) else []


def _by_context(config: Kubeconfig, name: str | None, environment: Mapping[str, str]) -> Access:
    name, context = _context(config, name)
    where = f"the context {name!r} of the kubeconfig {config.described}"
    cluster, cluster_file = _entry(config.clusters, "cluster", context.cluster, where)
    user, user_file = _entry(config.users, "user", context.user, where) if context.user else (User(), cluster_file)
    subject = f"the cluster {context.cluster!r} of {cluster_file}"
    server = _server(cluster, subject)
    tls = _tls(cluster, subject, cluster_file.parent) if server.startswith("https:") else None
    owner = Owner(f"the user {context.user!r} of {user_file}", user_file.parent)
    return Access(
        server=server,
        namespace=context.namespace or "default",
        tls=tls,
        credentials=credentials_of(user, owner, tls, lambda: told_to_plugins(cluster, cluster_file.parent)),
        description=name,
        server_name=cluster.tls_server_name or None,
        proxy=_proxy(cluster, subject, server, environment),
    )


def _context(config: Kubeconfig, name: str | None) -> tuple[str, Context]:
    wanted = name or config.current
    known = ", ".join(sorted(config.contexts)) or "none"
    if not wanted:
        raise AccessError(
            f"the kubeconfig {config.described} has no current-context; choose one with --context, of: {known}"
        )
    if wanted not in config.contexts:
        hint = did_you_mean(wanted, config.contexts)
        raise AccessError(
            f"the kubeconfig {config.described} has no context {wanted!r}; there are: {known}"
            + (f"; {hint}" if hint else "")
        )
    return wanted, config.contexts[wanted]


def _entry(entries: dict[str, tuple[_T, Path]], kind: str, name: str, where: str) -> tuple[_T, Path]:
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise AccessError(f"{where} names the {kind} {name!r}, which is not there; there are: {known}")
    return entries[name]


def _server(cluster: Cluster, subject: str) -> str:
    parts = _address(cluster.server)
    if parts is None or parts.scheme not in {"http", "https"}:
        # Where an address cannot be taken apart, what may be a password cannot be told from the rest.
        shown = "" if "@" in cluster.server else f" is {cluster.server!r}; it"
        raise AccessError(f"{subject}: server{shown} must be an address such as https://10.0.0.1:6443")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise AccessError(f"{subject}: server must be an address without user, query and fragment")
    return cluster.server.rstrip("/")


def _tls(cluster: Cluster, subject: str, folder: Path) -> ssl.SSLContext:
    authority = material(
        cluster.certificate_authority_data, cluster.certificate_authority, f"{subject}: certificate-authority", folder
    )
    if authority is not None and cluster.insecure_skip_tls_verify:
        raise AccessError(
            f"{subject}: certificate-authority and insecure-skip-tls-verify contradict each other; keep the authority"
        )
    try:
        return tls_context(authority, verify=not cluster.insecure_skip_tls_verify)
    except CertificateError as error:
        raise AccessError(f"{subject}: certificate-authority {error}") from error


def _proxy(cluster: Cluster, subject: str, server: str, environment: Mapping[str, str]) -> str | None:
    if not cluster.proxy_url:
        return _proxy_of(server, environment)
    if not _is_proxy(cluster.proxy_url):
        raise AccessError(f"{subject}: proxy-url {_NO_PROXY}")
    return cluster.proxy_url


def _proxy_of(server: str, environment: Mapping[str, str]) -> str | None:
    proxy = proxy_for(server, environment)
    if proxy is not None and not _is_proxy(proxy):
        raise AccessError(f"HTTPS_PROXY {_NO_PROXY}; the server {server} can be excepted with NO_PROXY")
    return proxy


def _is_proxy(url: str) -> bool:
    parts = _address(url)
    return parts is not None and parts.scheme == "http"


def _address(url: str) -> SplitResult | None:
    """Taken apart; None if it leads nowhere: without a host, with no port that there could be, with a space in it."""
    try:
        parts = urlsplit(url)
        leads_there = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if leads_there and url.isascii() and url.isprintable() and " " not in url else None


def _in_cluster(environment: Mapping[str, str], account: Path) -> Access:
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT") or "443"
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    try:
        authority = (account / "ca.crt").read_bytes()
        token_there = (account / "token").is_file()
    except OSError as error:
        raise AccessError(f"cannot read {account / 'ca.crt'}: {error.strerror}; {_NO_ACCOUNT}") from error
    if not token_there:
        raise AccessError(f"{account / 'token'} is not there; {_NO_ACCOUNT}")
    try:
        tls = tls_context(authority)
    except CertificateError as error:
        raise AccessError(f"{account / 'ca.crt'} {error}") from error
    return Access(
        server=server,
        namespace=_own_namespace(account),
        tls=tls,
        credentials=TokenFile(account / "token"),
        description="in-cluster",
        proxy=_proxy_of(server, environment),
    )


def _own_namespace(account: Path) -> str:
    try:
        return (account / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"

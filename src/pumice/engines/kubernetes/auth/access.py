"""Finds the API server and the credentials: in a kubeconfig, or in the service account of the pod this runs in.

The search order is the file named by the user, `$KUBECONFIG` (several files, merged), `~/.kube/config`, the service
account. Mistakes are reported before anything is contacted.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from pumice.engines.kubernetes.api.errors import AccessError
from pumice.engines.kubernetes.api.http1 import Headers
from pumice.engines.kubernetes.auth.credentials import (
    Credentials,
    RotatingCertificate,
    StaticCredentials,
    TokenFile,
    bearer,
)
from pumice.engines.kubernetes.auth.exec_plugin import VERSIONS, ExecCredentials
from pumice.engines.kubernetes.auth.kubeconfig import Cluster, Context, Exec, Kubeconfig, User, read_kubeconfig
from pumice.engines.kubernetes.auth.tls import CertificateError, load_key_pair, tls_context
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
_INTERACTIVE: Final = ("Never", "IfAvailable", "Always")
# The name of the extension of a cluster that holds the configuration of its exec plugin.
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
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
    if kubeconfig:
        return read_kubeconfig([Path(kubeconfig).expanduser()])
    named = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if named:
        return read_kubeconfig(list(dict.fromkeys(named)))
    home = os.environ.get("HOME")
    default = Path(home) / ".kube" / "config" if home else None
    # os.access is False in a home without permission: in a pod it often belongs to another user.
    return read_kubeconfig([default]) if default is not None and os.access(default, os.F_OK) else None


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
    entry = _Entry(f"the user {context.user!r} of {user_file}", user_file.parent)
    return Access(
        server=server,
        namespace=context.namespace or "default",
        tls=tls,
        credentials=_credentials(user, entry, tls, lambda: _exec_cluster_info(cluster, cluster_file.parent)),
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
    authority = _read_pem(data, file, f"{subject}: certificate-authority", directory)
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


class _Entry(Struct, frozen=True):
    """The entry of a kubeconfig: its description for messages, and the directory for relative paths."""

    description: str
    directory: Path


def _credentials(
    user: User, entry: _Entry, tls: ssl.SSLContext | None, cluster_info: Callable[[], dict[str, Any]]
) -> Credentials:
    if user.username or user.password:
        raise AccessError(
            f"{entry.description}: username and password are not accepted by any supported Kubernetes; "
            "use a token, a client certificate or an exec plugin"
        )
    if user.auth_provider is not None:
        raise AccessError(
            f"{entry.description}: auth-provider {user.auth_provider.name!r} was removed from Kubernetes; "
            "recreate the kubeconfig with your cloud's own program, which adds an exec plugin"
        )
    _load_certificate(user, entry, tls)
    credentials = _token_credentials(user, entry, tls, cluster_info)
    data = user.client_certificate_data or user.client_key_data
    if tls is not None and user.client_certificate and user.client_key and not data:
        certificate, key = entry.directory / user.client_certificate, entry.directory / user.client_key
        return RotatingCertificate(credentials, tls, certificate, key)
    return credentials


def _token_credentials(
    user: User, entry: _Entry, tls: ssl.SSLContext | None, cluster_info: Callable[[], dict[str, Any]]
) -> Credentials:
    extra = _impersonation(user, entry)
    # The order is kubectl's.
    if user.token_file:
        path = entry.directory / user.token_file
        if not path.is_file():
            raise AccessError(f"{entry.description}: tokenFile {path} does not exist")
        return TokenFile(path, extra)
    if user.token:
        return StaticCredentials(bearer(user.token, extra))
    if user.exec is not None:
        plugin = _exec_plugin(user.exec, entry)
        return ExecCredentials(plugin, cluster_info() if plugin.provide_cluster_info else None, tls, extra)
    return StaticCredentials(extra)


def _read_pem(data: str | None, file: str | None, subject: str, directory: Path) -> bytes | None:
    """Return the base64 data of the kubeconfig, or else the content of the file that it names."""
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise AccessError(f"{subject}-data is not base64") from error
    if not file:
        return None
    try:
        return (directory / file).read_bytes()
    except OSError as error:
        raise AccessError(f"{subject}: cannot read {directory / file}: {error.strerror or error}") from error


def _exec_cluster_info(cluster: Cluster, directory: Path) -> dict[str, Any]:
    """Return what an exec plugin receives about the cluster when `provideClusterInfo` is set."""
    authority = _read_pem(
        cluster.certificate_authority_data, cluster.certificate_authority, "certificate-authority", directory
    )
    config = next(
        (item.get("extension") for item in cluster.extensions or () if item.get("name") == _EXEC_EXTENSION), None
    )
    info = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority).decode() if authority else None,
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": config,
    }
    return {name: value for name, value in info.items() if value}


def _load_certificate(user: User, entry: _Entry, tls: ssl.SSLContext | None) -> None:
    certificate = _read_pem(
        user.client_certificate_data,
        user.client_certificate,
        f"{entry.description}: client-certificate",
        entry.directory,
    )
    key = _read_pem(user.client_key_data, user.client_key, f"{entry.description}: client-key", entry.directory)
    if (certificate is None) != (key is None):
        raise AccessError(f"{entry.description}: client-certificate and client-key must be given together")
    if certificate is None or key is None or tls is None:
        return
    try:
        load_key_pair(tls, certificate, key)
    except CertificateError as error:
        raise AccessError(f"{entry.description}: {error}") from error


def _impersonation(user: User, entry: _Entry) -> Headers:
    headers: dict[str, str | tuple[str, ...]] = {}
    if user.impersonate:
        headers["Impersonate-User"] = user.impersonate
    if user.impersonate_uid:
        headers["Impersonate-Uid"] = user.impersonate_uid
    more = user.impersonate_uid or user.impersonate_groups or user.impersonate_extra
    if more and not user.impersonate:
        raise AccessError(f"{entry.description}: as-uid, as-groups and as-user-extra need as, the user to impersonate")
    if user.impersonate_groups:
        headers["Impersonate-Group"] = tuple(user.impersonate_groups)
    for name, values in (user.impersonate_extra or {}).items():
        headers[f"Impersonate-Extra-{quote(name, safe='')}"] = tuple(values)
    return headers


def _exec_plugin(exec_: Exec, entry: _Entry) -> Exec:
    if not exec_.command:
        raise AccessError(f"{entry.description}: exec has no command")
    if exec_.api_version not in VERSIONS:
        raise AccessError(
            f"{entry.description}: exec.apiVersion is {exec_.api_version!r}, accepted are {' and '.join(VERSIONS)}; "
            "recreate the kubeconfig with a current version of your cloud's program"
        )
    interactive = exec_.interactive_mode or "IfAvailable"
    if interactive not in _INTERACTIVE:
        raise AccessError(
            f"{entry.description}: exec.interactiveMode is {interactive!r}, accepted are {', '.join(_INTERACTIVE)}"
        )
    # A bare name is looked up in PATH when it is run; a relative path starts from the kubeconfig's directory.
    command = str(entry.directory / exec_.command) if "/" in exec_.command else exec_.command
    return replace(exec_, command=command, interactive_mode=interactive)

"""Turns the `user` of a kubeconfig into credentials; refuses the kinds that Kubernetes has removed."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
from pumice.engines.kubernetes.auth.kubeconfig import Cluster, Exec, User
from pumice.engines.kubernetes.auth.tls import CertificateError, load_key_pair

_INTERACTIVE = ("Never", "IfAvailable", "Always")
# The name of the extension of a cluster that holds the configuration of its exec plugin.
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class Entry(Struct, frozen=True):
    """The entry of a kubeconfig: its description for messages, and the directory for relative paths."""

    description: str
    directory: Path


def credentials_of(
    user: User, entry: Entry, tls: ssl.SSLContext | None, cluster_info: Callable[[], dict[str, Any]]
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
    user: User, entry: Entry, tls: ssl.SSLContext | None, cluster_info: Callable[[], dict[str, Any]]
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


def read_pem(data: str | None, file: str | None, subject: str, directory: Path) -> bytes | None:
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


def exec_cluster_info(cluster: Cluster, directory: Path) -> dict[str, Any]:
    """Return what an exec plugin receives about the cluster when `provideClusterInfo` is set."""
    authority = read_pem(
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


def _load_certificate(user: User, entry: Entry, tls: ssl.SSLContext | None) -> None:
    certificate = read_pem(
        user.client_certificate_data,
        user.client_certificate,
        f"{entry.description}: client-certificate",
        entry.directory,
    )
    key = read_pem(user.client_key_data, user.client_key, f"{entry.description}: client-key", entry.directory)
    if (certificate is None) != (key is None):
        raise AccessError(f"{entry.description}: client-certificate and client-key must be given together")
    if certificate is None or key is None or tls is None:
        return
    try:
        load_key_pair(tls, certificate, key)
    except CertificateError as error:
        raise AccessError(f"{entry.description}: {error}") from error


def _impersonation(user: User, entry: Entry) -> Headers:
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


def _exec_plugin(exec_: Exec, entry: Entry) -> Exec:
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

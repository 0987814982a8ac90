"""The `user` of a kubeconfig, turned into credentials; what no server accepts any more is refused with what to do."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pumice.engines.kubernetes.api.errors import AccessError
from pumice.engines.kubernetes.auth.credentials import Credentials, Fixed, TokenFile, bearer
from pumice.engines.kubernetes.auth.exec_plugin import VERSIONS, ExecCredentials, Plugin
from pumice.engines.kubernetes.auth.kubeconfig import Cluster, Exec, User
from pumice.engines.kubernetes.auth.rotating_certificate import RotatingCertificate
from pumice.engines.kubernetes.auth.tls import CertificateError, load_key_pair

_INTERACTIVE = ("Never", "IfAvailable", "Always")
# Under this name a cluster's entry may hold what only the plugin understands.
_PLUGIN_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose entry it is, for messages, and the folder from which relative paths count."""

    described: str
    folder: Path


def credentials_of(
    user: User, owner: Owner, tls: ssl.SSLContext | None, cluster: Callable[[], dict[str, Any]]
) -> Credentials:
    _refuse_the_removed(user, owner)
    _show_certificate(user, owner, tls)
    credentials = _headers(user, owner, tls, cluster)
    data = user.client_certificate_data or user.client_key_data
    if tls is not None and user.client_certificate and user.client_key and not data:
        certificate, key = owner.folder / user.client_certificate, owner.folder / user.client_key
        return RotatingCertificate(credentials, tls, certificate, key)
    return credentials


def _headers(
    user: User, owner: Owner, tls: ssl.SSLContext | None, cluster: Callable[[], dict[str, Any]]
) -> Credentials:
    more = _impersonation(user, owner)
    # The order is kubectl's: a token beats everything that would have to be asked for one.
    if user.token_file:
        path = owner.folder / user.token_file
        if not path.is_file():
            raise AccessError(f"{owner.described}: tokenFile {path} is not there")
        return TokenFile(path, more)
    if user.token:
        return Fixed(bearer(user.token, more))
    if user.exec is not None:
        return ExecCredentials(_plugin(user.exec, owner, cluster), tls, more)
    return Fixed(more)


def material(data: str | None, file: str | None, subject: str, folder: Path) -> bytes | None:
    """The bytes that stand in the kubeconfig in base64, or in the file that it names; the former win."""
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise AccessError(f"{subject}-data is not base64") from error
    if not file:
        return None
    try:
        return (folder / file).read_bytes()
    except OSError as error:
        raise AccessError(f"{subject}: cannot read {folder / file}: {error.strerror or error}") from error


def told_to_plugins(cluster: Cluster, folder: Path) -> dict[str, Any]:
    """What a plugin is told about the cluster when `provideClusterInfo` is set."""
    authority = material(
        cluster.certificate_authority_data, cluster.certificate_authority, "certificate-authority", folder
    )
    config = next(
        (item.get("extension") for item in cluster.extensions or () if item.get("name") == _PLUGIN_EXTENSION), None
    )
    told = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority).decode() if authority else None,
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": config,
    }
    return {name: value for name, value in told.items() if value}


def _refuse_the_removed(user: User, owner: Owner) -> None:
    if user.username or user.password:
        raise AccessError(
            f"{owner.described}: username and password are not accepted by any supported Kubernetes; "
            "use a token, a client certificate or an exec plugin"
        )
    if user.auth_provider is not None:
        raise AccessError(
            f"{owner.described}: auth-provider {user.auth_provider.name!r} was removed from Kubernetes; "
            "write the kubeconfig anew with your cloud's own program, which puts an exec plugin there"
        )


def _show_certificate(user: User, owner: Owner, tls: ssl.SSLContext | None) -> None:
    certificate = material(
        user.client_certificate_data, user.client_certificate, f"{owner.described}: client-certificate", owner.folder
    )
    key = material(user.client_key_data, user.client_key, f"{owner.described}: client-key", owner.folder)
    if (certificate is None) != (key is None):
        raise AccessError(f"{owner.described}: client-certificate and client-key must be given together")
    if certificate is None or key is None or tls is None:
        return
    try:
        load_key_pair(tls, certificate, key)
    except CertificateError as error:
        raise AccessError(f"{owner.described}: {error}") from error


def _impersonation(user: User, owner: Owner) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    if user.impersonate:
        headers["Impersonate-User"] = user.impersonate
    if user.impersonate_uid:
        headers["Impersonate-Uid"] = user.impersonate_uid
    if user.impersonate_groups or user.impersonate_extra:
        raise AccessError(
            f"{owner.described}: as-groups and as-user-extra are not supported; "
            "use an account that has the rights itself"
        )
    return headers


def _plugin(told: Exec, owner: Owner, cluster: Callable[[], dict[str, Any]]) -> Plugin:
    if not told.command:
        raise AccessError(f"{owner.described}: exec has no command")
    if told.api_version not in VERSIONS:
        raise AccessError(
            f"{owner.described}: exec.apiVersion is {told.api_version!r}, accepted are {' and '.join(VERSIONS)}; "
            "write the kubeconfig anew with a current version of your cloud's program"
        )
    interactive = told.interactive_mode or "IfAvailable"
    if interactive not in _INTERACTIVE:
        raise AccessError(
            f"{owner.described}: exec.interactiveMode is {interactive!r}, accepted are {', '.join(_INTERACTIVE)}"
        )
    return Plugin(
        command=_command(told.command, owner.folder),
        api_version=told.api_version,
        arguments=tuple(told.args or ()),
        environment={variable.name: variable.value for variable in told.env or ()},
        install_hint=told.install_hint or "",
        interactive=interactive,
        cluster=cluster() if told.provide_cluster_info else None,
    )


def _command(command: str, folder: Path) -> str:
    """A bare name is looked up in PATH when it is run; a relative path counts from the kubeconfig's folder."""
    return str(folder / command) if "/" in command else command

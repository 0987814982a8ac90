"""Credentials from an exec plugin, such as `aws eks get-token`, `gke-gcloud-auth-plugin` or `kubelogin`.

The contract is `client.authentication.k8s.io`: the program reads about the cluster in an environment variable, writes
an ExecCredential to stdout, and runs again when that has expired or the server rejects it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import shutil
import ssl
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from pumice.engines.kubernetes.api.errors import UnreachableError
from pumice.engines.kubernetes.api.http1 import Headers
from pumice.engines.kubernetes.auth.credentials import bearer
from pumice.engines.kubernetes.auth.kubeconfig import Exec
from pumice.engines.kubernetes.auth.tls import CertificateError, load_key_pair

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

# Seconds before its expiry that a token is renewed, so that none expires in transit.
_LEEWAY = 10.0
# For a program that calls a cloud. One that asks the user has no limit: the user ends it.
_TIMEOUT = 60.0
_SHOWN = 500


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: dt.datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


@dataclass(slots=True)
class ExecCredentials:
    plugin: Exec
    cluster: Mapping[str, Any] | None  # what the program is told about it, with provideClusterInfo
    tls: ssl.SSLContext | None
    extra: Headers
    generation: int = 0
    _headers: Headers | None = None
    _expires: float | None = None
    _certificate: tuple[str, str] | None = None
    # Many requests notice at once that the token has expired; the program runs once for all of them.
    _running: asyncio.Task[Headers] | None = None

    def current(self) -> Headers | None:
        if self._expires is not None and _wall_clock() > self._expires - _LEEWAY:
            return None
        return self._headers

    async def renew(self) -> Headers:
        if self._running is None:
            self._running = asyncio.create_task(self._fetch())
            self._running.add_done_callback(self._ended)
        # Shielded: a cancelled caller must not stop the program for the others.
        return await asyncio.shield(self._running)

    def _ended(self, task: asyncio.Task[Headers]) -> None:
        self._running = None
        if not task.cancelled():
            # Retrieve the exception, or asyncio logs it when every caller was cancelled.
            task.exception()

    def refused(self, sent: Headers) -> bool:
        if sent is self._headers:
            self._headers = None
        return True

    async def _fetch(self) -> Headers:
        status = _read_output(self.plugin, await _run(self.plugin, self.cluster))
        certificate, key = status.client_certificate_data, status.client_key_data
        if certificate and key and self.tls is not None and (certificate, key) != self._certificate:
            try:
                load_key_pair(self.tls, certificate.encode(), key.encode())
            except CertificateError as error:
                raise UnreachableError(
                    f"the credential plugin {self.plugin.command!r} returned an unusable certificate: {error}"
                ) from error
            self._certificate = (certificate, key)
            self.generation += 1
        self._expires = status.expiration_timestamp.timestamp() if status.expiration_timestamp else None
        self._headers = bearer(status.token, self.extra) if status.token else dict(self.extra)
        return self._headers


async def _run(plugin: Exec, cluster: Mapping[str, Any] | None) -> bytes:
    program = shutil.which(plugin.command)
    if program is None:
        hint = (plugin.install_hint or "").strip()
        raise UnreachableError(
            f"the credential plugin {plugin.command!r} of the kubeconfig was not found{hint and f'; {hint}'}"
        )
    interactive = _is_interactive(plugin)
    process = await _start(plugin, program, cluster, interactive=interactive)
    try:
        async with asyncio.timeout(None if interactive else _TIMEOUT):
            out, err = await process.communicate()
    except TimeoutError as error:
        raise UnreachableError(f"the credential plugin {plugin.command!r} did not answer in time") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        output = (err or b"")[-_SHOWN:].decode(errors="replace").strip()
        raise UnreachableError(
            f"the credential plugin {plugin.command!r} failed with code {process.returncode}"
            + (f": {output}" if output else "")
        )
    return out


async def _start(
    plugin: Exec, program: str, cluster: Mapping[str, Any] | None, *, interactive: bool
) -> asyncio.subprocess.Process:
    spec = {"interactive": interactive} | ({} if cluster is None else {"cluster": cluster})
    info = msgspec.json.encode({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}).decode()
    try:
        return await asyncio.create_subprocess_exec(
            program,
            *(plugin.args or ()),
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # An interactive program writes its prompts to stderr; of others, stderr explains a failure.
            stderr=None if interactive else asyncio.subprocess.PIPE,
            env={**os.environ, **{one.name: one.value for one in plugin.env or ()}, "KUBERNETES_EXEC_INFO": info},
        )
    except (OSError, ValueError) as error:
        # Built for another machine, without a #! line, or with a NUL in its arguments.
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreachableError(f"the credential plugin {plugin.command!r} cannot be run: {why.lower()}") from error


def _is_interactive(plugin: Exec) -> bool:
    if plugin.interactive_mode == "Never":
        return False
    has_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not has_terminal:
        raise UnreachableError(
            f"the credential plugin {plugin.command!r} needs a terminal (interactiveMode: Always), and there is none; "
            "use a token or a client certificate for unattended programs"
        )
    return has_terminal


def _read_output(plugin: Exec, out: bytes) -> _Status:
    # The output is secret, and never shown.
    subject = f"the credential plugin {plugin.command!r} wrote"
    try:
        credential = msgspec.json.decode(out, type=_ExecCredential)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreachableError(f"{subject} no ExecCredential to stdout: {error}") from error
    if credential.kind != "ExecCredential" or credential.api_version != plugin.api_version:
        raise UnreachableError(
            f"{subject} {credential.kind} of {credential.api_version}; "
            f"the kubeconfig announces ExecCredential of {plugin.api_version}"
        )
    status = credential.status or _Status()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise UnreachableError(f"{subject} only one of clientCertificateData and clientKeyData")
    if not status.token and not status.client_certificate_data:
        raise UnreachableError(f"{subject} neither a token nor a client certificate")
    return status


def _wall_clock() -> float:
    return time.time()  # noqa: TID251 - the expiry of a token is wall-clock time

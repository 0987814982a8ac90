"""Credentials from a program, as clouds hand them out: `aws eks get-token`, `gke-gcloud-auth-plugin`, `kubelogin`.

The contract is `client.authentication.k8s.io`: the program is told about the cluster in an environment variable, writes
an ExecCredential to stdout, and is asked again when that has expired or the server refuses it.
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
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pumice.engines.kubernetes.api.errors import UnreachableError
from pumice.engines.kubernetes.auth.credentials import bearer
from pumice.engines.kubernetes.auth.tls import CertificateError, load_key_pair

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

# A token is replaced a little before it expires, so that none expires on its way.
_LEEWAY = 10.0
# Time for a program that asks a cloud, and for one that asks a person.
_PATIENCE, _PATIENCE_WITH_PERSON = 60.0, 300.0
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


@dataclass(frozen=True, slots=True)
class Plugin:
    """What a kubeconfig says about the program."""

    command: str
    api_version: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    install_hint: str = ""
    interactive: str = "IfAvailable"
    # What the program is told about the cluster, if it wants to be told.
    cluster: Mapping[str, Any] | None = None


class ExecCredentials:
    def __init__(self, plugin: Plugin, tls: ssl.SSLContext | None, more: Mapping[str, str] | None = None) -> None:
        self.generation = 0
        self._plugin = plugin
        self._tls = tls
        self._more = more or {}
        self._headers: Mapping[str, str] | None = None
        self._expires: float | None = None
        self._certificate: tuple[str, str] | None = None
        # Many requests find at once that the token has expired; the program runs once for all of them.
        self._running: asyncio.Task[Mapping[str, str]] | None = None

    def current(self) -> Mapping[str, str] | None:
        if self._expires is not None and _wall_clock() > self._expires - _LEEWAY:
            return None
        return self._headers

    async def renew(self) -> Mapping[str, str]:
        if self._running is None:
            self._running = asyncio.create_task(self._fetch())
            self._running.add_done_callback(self._ended)
        # Shielded: a caller who gives up must not take the program away from the others.
        return await asyncio.shield(self._running)

    def _ended(self, task: asyncio.Task[Mapping[str, str]]) -> None:
        self._running = None
        if not task.cancelled():
            # If all who waited have given up, nobody else looks at the outcome, and asyncio would complain.
            task.exception()

    def refused(self, sent: Mapping[str, str]) -> bool:
        if sent is self._headers:
            self._headers = None
        return True

    async def _fetch(self) -> Mapping[str, str]:
        answer = _read_answer(self._plugin, await _run(self._plugin))
        if answer.client_certificate_data and answer.client_key_data:
            self._take_certificate(answer.client_certificate_data, answer.client_key_data)
        self._expires = answer.expiration_timestamp.timestamp() if answer.expiration_timestamp else None
        self._headers = bearer(answer.token, self._more) if answer.token else dict(self._more)
        return self._headers

    def _take_certificate(self, certificate: str, key: str) -> None:
        if self._tls is None or (certificate, key) == self._certificate:
            return
        try:
            load_key_pair(self._tls, certificate.encode(), key.encode())
        except CertificateError as error:
            raise UnreachableError(
                f"the credential plugin {self._plugin.command!r} gave a certificate that cannot be used: {error}"
            ) from error
        self._certificate = (certificate, key)
        self.generation += 1


async def _run(plugin: Plugin) -> bytes:
    program = shutil.which(plugin.command)
    if program is None:
        hint = f"; {plugin.install_hint.strip()}" if plugin.install_hint.strip() else ""
        raise UnreachableError(f"the credential plugin {plugin.command!r} of the kubeconfig was not found{hint}")
    with_person = _with_person(plugin)
    process = await _started(plugin, program, with_person=with_person)
    try:
        async with asyncio.timeout(_PATIENCE_WITH_PERSON if with_person else _PATIENCE):
            out, err = await process.communicate()
    except TimeoutError as error:
        raise UnreachableError(f"the credential plugin {plugin.command!r} did not answer in time") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        said = (err or b"")[-_SHOWN:].decode(errors="replace").strip()
        raise UnreachableError(
            f"the credential plugin {plugin.command!r} failed with code {process.returncode}"
            + (f": {said}" if said else "")
        )
    return out


async def _started(plugin: Plugin, program: str, *, with_person: bool) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            program,
            *plugin.arguments,
            stdin=None if with_person else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # A program that talks to a person must be heard by him; from others, stderr is what explains a failure.
            stderr=None if with_person else asyncio.subprocess.PIPE,
            env={**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": _told(plugin, with_person=with_person)},
        )
    except (OSError, ValueError) as error:
        # Made for another machine, without the line that names its interpreter, or with a NUL in its arguments.
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreachableError(f"the credential plugin {plugin.command!r} cannot be run: {why.lower()}") from error


def _with_person(plugin: Plugin) -> bool:
    if plugin.interactive == "Never":
        return False
    there = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if plugin.interactive == "Always" and not there:
        raise UnreachableError(
            f"the credential plugin {plugin.command!r} wants a terminal (interactiveMode: Always), and there is none; "
            "use a token or a client certificate for what runs unattended"
        )
    return there


def _told(plugin: Plugin, *, with_person: bool) -> str:
    spec: dict[str, Any] = {"interactive": with_person}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    return msgspec.json.encode({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}).decode()


def _read_answer(plugin: Plugin, out: bytes) -> _Status:
    # What it wrote is never shown: it is a secret.
    subject = f"the credential plugin {plugin.command!r} wrote"
    try:
        answer = msgspec.json.decode(out, type=_ExecCredential)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreachableError(f"{subject} no ExecCredential to stdout: {error}") from error
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise UnreachableError(
            f"{subject} {answer.kind} of {answer.api_version}; "
            f"the kubeconfig announces ExecCredential of {plugin.api_version}"
        )
    status = answer.status or _Status()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise UnreachableError(f"{subject} only one of clientCertificateData and clientKeyData")
    if not status.token and not status.client_certificate_data:
        raise UnreachableError(f"{subject} neither a token nor a client certificate")
    return status


def _wall_clock() -> float:
    return time.time()  # noqa: TID251 - when a token expires is said in the world's time, and by others

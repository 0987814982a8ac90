"""The webhook from start to end: serve, be trusted, look after what it needs, and leave without a trace of trouble."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.auth.access import Access
from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends, within
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.crds import job_schema
from pumice.engines.kubernetes.webhook import certificate_rotation as keeping
from pumice.engines.kubernetes.webhook.certificate_rotation import CertificateKeeper
from pumice.engines.kubernetes.webhook.certificate_storage import InFile, InMemory, InSecret, Place
from pumice.engines.kubernetes.webhook.certificates import renewed
from pumice.engines.kubernetes.webhook.cluster_facts import Surroundings
from pumice.engines.kubernetes.webhook.registration import Installed, Outside
from pumice.engines.kubernetes.webhook.server import WebhookServer
from pumice.runtime.discovery import discover
from pumice.runtime.kubernetes_types import kubernetes_types

_log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "pumice-webhook"
STATE_FILE: Final = "webhook-certificates.json"
# Installed: until every node has learned that we are not to be asked any more.
SECONDS_TO_BE_FORGOTTEN: Final = 5.0
# Outside: an API server that is away keeps nobody from ending. What stays registered is ignored there, and the next
# start replaces it.
SECONDS_TO_WITHDRAW: Final = 10.0


class WebhookError(Exception):
    """It cannot start; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Settings:
    access: Access
    host: str
    port: int
    gang: str = "auto"
    # Outside of a cluster: to register at the address that it listens on.
    register: bool = False
    state: Path | None = None
    # Inside: the Service that leads here, and its namespace.
    namespace: str = names.NAMESPACE
    service: str = ""
    settling: float = keeping.SETTLING
    interval: float = keeping.INTERVAL


async def run(settings: Settings, now: Callable[[], dt.datetime], stop: asyncio.Event) -> None:
    async with Client(settings.access, field_manager=FIELD_MANAGER) as client:
        await _Program(settings, client, now).run(stop)


class _Program:
    def __init__(self, settings: Settings, client: Client, now: Callable[[], dt.datetime]) -> None:
        self._settings = settings
        self._client = client
        self._now = now
        self._surroundings = Surroundings(client, settings.gang, discover(), kubernetes_types().types)
        self._server = WebhookServer(self._surroundings, job_schema())
        self._outside: Outside | None = None

    async def run(self, stop: asyncio.Event) -> None:
        # The health checks are answered from the start, over a certificate that nobody needs to trust.
        self._server.show(renewed(None, self._names(), self._now()), trusted=False)
        port = await self._listen()
        try:
            await run_until_first_ends(stop.wait(), self._serve(port))
            await self._leave()
        finally:
            await self._server.stop()

    async def _serve(self, port: int) -> None:
        """For ever; what fails for good ends the program."""
        keeper = self._keeper(port)
        await self._surroundings.look()
        if self._outside is not None:
            await _once(keeper)
        _log.info("listening on %s", self._address(port))
        await run_until_first_ends(keeper.run(self._settings.interval), self._surroundings.run())

    async def _leave(self) -> None:
        """The registration goes, which nothing renews any more, and then nobody is left who could ask."""
        _log.info("ending")
        if self._outside is not None:
            await within(SECONDS_TO_WITHDRAW, self._outside.withdraw())
        elif self._settings.service:
            self._server.is_ready = False
            await asyncio.sleep(SECONDS_TO_BE_FORGOTTEN)

    async def _listen(self) -> int:
        host, port = self._settings.host, self._settings.port
        try:
            return await self._server.start(host, port)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise WebhookError(f"--listen {host}:{port}: {reason}; choose another address or port") from error

    def _keeper(self, port: int) -> CertificateKeeper:
        settings = self._settings
        place: Place = InMemory()
        announce: Callable[[bytes], Awaitable[bool]] = _nobody_asks
        if settings.service:
            place = InSecret(self._client, settings.namespace, names.certificates(settings.service))
            announce = Installed(self._client, settings.namespace, settings.service).announce
        else:
            if settings.state is not None:
                place = InFile(settings.state / STATE_FILE)
            if settings.register:
                self._outside = Outside(self._client, self._address(port))
                announce = self._outside.announce
        return CertificateKeeper(place, self._names(), self._now, announce, self._server.show, settings.settling)

    def _names(self) -> list[str]:
        settings = self._settings
        if settings.service:
            inside = f"{settings.service}.{settings.namespace}.svc"
            return [inside, f"{inside}.cluster.local", settings.service]
        return [settings.host]

    def _address(self, port: int) -> str:
        host = self._settings.host
        return f"https://{f'[{host}]' if _is_ipv6(host) else host}:{port}"


async def _once(keeper: CertificateKeeper) -> None:
    try:
        await keeper.turn()
    except (ApiError, OSError) as error:
        raise WebhookError(
            f"could not register: {error}; is the cluster there, and may you register webhooks?"
        ) from error


async def _nobody_asks(_authority: bytes) -> bool:
    return True


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6  # noqa: PLR2004 - the version of IP
    except ValueError:
        return False

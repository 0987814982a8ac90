"""The webhook process: listen, register, rotate certificates, follow the cluster, and shut down in order."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.auth.access import Access
from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends, run_with_timeout
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.crds import job_schema
from pumice.engines.kubernetes.webhook.certificate_rotation import (
    INTERVAL,
    SETTLING,
    CertificateRotation,
    CertificateStorage,
    LocalStorage,
    SecretStorage,
)
from pumice.engines.kubernetes.webhook.certificates import count, renewed
from pumice.engines.kubernetes.webhook.cluster_facts import ClusterFacts
from pumice.engines.kubernetes.webhook.registration import Publication, ServiceRegistration, UrlRegistration
from pumice.engines.kubernetes.webhook.server import WebhookServer
from pumice.model.pumice_error import PumiceError
from pumice.runtime.discovery import discover
from pumice.runtime.kubernetes_types import kubernetes_types

_log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "pumice-webhook"
STATE_FILE: Final = "webhook-certificates.json"
# How long an installed webhook answers after it became unready, until no node routes reviews to it any more.
DRAIN_SECONDS: Final = 5.0
# Limit for deleting the registration, so that an unreachable API server does not block the shutdown. A registration
# that stays has `failurePolicy: Ignore`, and the next start replaces it.
WITHDRAW_SECONDS: Final = 10.0


class WebhookError(PumiceError):
    """The webhook cannot start."""


class Settings(Struct, frozen=True):
    access: Access
    host: str
    port: int
    gang: str = "auto"
    # Outside of the cluster: register by the URL that it listens on.
    register: bool = False
    state: Path | None = None
    # Inside the cluster: the Service of the webhook, and its namespace.
    namespace: str = names.NAMESPACE
    service: str = ""
    settling: float = SETTLING
    interval: float = INTERVAL
    client_ca: str = ""  # PEM; only clients with a certificate of it get reviews
    metrics_listen: tuple[str, int] | None = None  # for /metrics alone


async def run(settings: Settings, now: Callable[[], dt.datetime], stop: asyncio.Event) -> None:
    async with Client(settings.access, field_manager=FIELD_MANAGER) as client:
        await _Webhook(settings, client, now).run(stop)


class _Webhook:
    def __init__(self, settings: Settings, client: Client, now: Callable[[], dt.datetime]) -> None:
        self._settings = settings
        self._client = client
        self._now = now
        self._facts = ClusterFacts(client, settings.gang, discover(), kubernetes_types().types)
        self._server = WebhookServer(self._facts, job_schema())
        self._registration: UrlRegistration | None = None

    async def run(self, stop: asyncio.Event) -> None:
        # Answer health checks from the start: they do not verify the certificate.
        self._server.use_certificate(renewed(None, self._names(), self._now()), trusted=False)
        try:
            port = await self._listen()
            await run_until_first_ends(stop.wait(), self._serve(port))
            # Withdrawn or unready, so that no review arrives after the server stops.
            _log.info("shutting down")
            if self._registration is not None:
                await run_with_timeout(WITHDRAW_SECONDS, self._registration.withdraw())
            elif self._settings.service:
                self._server.is_ready = False
                await asyncio.sleep(DRAIN_SECONDS)
        finally:
            await self._server.stop()

    async def _serve(self, port: int) -> None:
        rotation = self._rotation(port)
        await self._facts.refresh()
        if self._registration is not None:
            try:
                await rotation.rotate()
            except (ApiError, OSError) as error:
                hint = "check that the cluster is up and that you may register webhooks"
                raise WebhookError(f"could not register: {error}", hint) from error
        _log.info("listening on %s", self._url(port))
        await run_until_first_ends(rotation.run(self._settings.interval), self._facts.run())

    async def _listen(self) -> int:
        settings = self._settings
        flag, (host, port) = "--listen", (settings.host, settings.port)
        if settings.client_ca:
            self._server.require_client_certificate(settings.client_ca)
        try:
            listening = await self._server.start(host, port, metrics=settings.metrics_listen is None)
            if settings.metrics_listen is not None:
                flag, (host, port) = "--metrics-listen", settings.metrics_listen
                metrics_port = await self._server.start_metrics(host, port)
                _log.info("metrics: http://%s:%d", host, metrics_port)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise WebhookError(f"{flag} {host}:{port}: {reason}", "choose another address or port") from error
        return listening

    def _rotation(self, port: int) -> CertificateRotation:
        settings = self._settings
        publish: Callable[[bytes, bool], Coroutine[Any, Any, Publication]] = _not_registered
        if settings.service:
            storage: CertificateStorage = SecretStorage(
                self._client, settings.namespace, names.certificates(settings.service)
            )
            self._server.service_host = self._names()[0]
            publish = ServiceRegistration(
                self._client, settings.namespace, settings.service, lambda: self._server.answered
            ).publish
        else:
            storage = LocalStorage(settings.state / STATE_FILE if settings.state is not None else None)
            if settings.register:
                self._registration = UrlRegistration(self._client, self._url(port))
                publish = self._registration.publish
        return CertificateRotation(
            storage,
            self._names(),
            self._now,
            publish,
            self._server.use_certificate,
            settings.settling,
            wake=self._server.first_answer,
        )

    def _names(self) -> list[str]:
        settings = self._settings
        if settings.service:
            inside = f"{settings.service}.{settings.namespace}.svc"
            return [inside, f"{inside}.cluster.local", settings.service]
        return [settings.host]

    def _url(self, port: int) -> str:
        host = self._settings.host
        return f"https://{f'[{host}]' if ':' in host else host}:{port}"


async def _not_registered(bundle: bytes, _keep: bool) -> Publication:  # noqa: FBT001 - as of a registration
    return Publication(is_sole=count(bundle) == 1)

"""The HTTPS server of the webhook: two paths for reviews, /healthz, /readyz and, unless apart, /metrics.

Reviews run in a few threads, so that a large Job delays neither health checks nor all other reviews. Malformed reviews
get status 400; bodies that are too large are not read. Time, connections and memory are bounded, since every pod of the
cluster can connect. With a CA for clients, only those that present a certificate of it get reviews; health checks of a
kubelet, which has none, stay open.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from pumice.engines.kubernetes.auth.tls import load_key_pair
from pumice.engines.kubernetes.controller.monitoring import add_metrics, health_app
from pumice.engines.kubernetes.install.webhook_configurations import MUTATE, VALIDATE
from pumice.engines.kubernetes.webhook import reviews
from pumice.engines.kubernetes.webhook.certificates import Credentials, expiry
from pumice.engines.kubernetes.webhook.cluster_facts import ClusterFacts
from pumice.engines.kubernetes.webhook.reviews import Schema
from pumice.runtime.http_server import MOST_CONNECTIONS, HttpServer

# A review takes about a millisecond, and the API server waits at most ten seconds.
_SECONDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# An API server accepts objects of 3 MiB; the review of an update holds two, and the rest is a margin.
LARGEST_REVIEW: Final = 8 * 1024 * 1024
THREADS: Final = 4
# More reviews than these in progress get status 503. Each connection has one; those of closed ones end a moment later.
MOST_PENDING: Final = 2 * MOST_CONNECTIONS
BODY_SECONDS: Final = 5.0
# Above this total, the body that has been arriving for the longest time is given up: an API server sends one at once.
MOST_BYTES: Final = 48 * 1024 * 1024
_OPEN: Final = ("/healthz", "/readyz")  # without a client certificate


class ReviewMetrics:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.reviews = Counter("pumice_reviews", "Reviews by path and outcome", ("path", "outcome"), registry=registry)
        self.seconds = Histogram("pumice_review_seconds", "Duration of reviews", buckets=_SECONDS, registry=registry)
        self.waiting = Gauge("pumice_reviews_waiting", "Reviews in progress or queued", registry=registry)
        expires = "pumice_certificate_expiry_timestamp_seconds"
        self.expires = Gauge(expires, "Expiry of the serving certificate", registry=registry)
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)


@dataclass(slots=True)
class WebhookServer:
    facts: ClusterFacts
    schema: Schema
    tls: ssl.SSLContext = field(default_factory=lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    is_ready: bool = False
    # The host name of its Service; a review that names it has come through the Service.
    service_host: str = ""
    answered: bool = False  # such a review was answered
    first_answer: asyncio.Event = field(default_factory=asyncio.Event)
    metrics: ReviewMetrics = field(default_factory=ReviewMetrics)
    _pending: int = 0
    _bodies: dict[asyncio.Protocol, bytearray] = field(default_factory=dict)  # those that are arriving, oldest first
    _http: HttpServer = field(init=False)
    _metrics_http: HttpServer | None = None
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="review")
    )

    def use_certificate(self, credentials: Credentials, *, trusted: bool = True) -> None:
        """Serve a certificate from the next connection on. An untrusted one is enough for health checks."""
        load_key_pair(self.tls, credentials.certificate, credentials.key)
        self.metrics.expires.set(expiry(credentials).timestamp())
        self.is_ready = trusted

    def __post_init__(self) -> None:
        self.tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self.tls.set_alpn_protocols(["http/1.1"])
        app = health_app(lambda: "" if self.is_ready else "no trusted certificate yet, or stopping")
        app.router.add_post(MUTATE, self._mutate)
        app.router.add_post(VALIDATE, self._validate)
        app.middlewares.append(self._check_certificate)
        self._http = HttpServer(app)

    def require_client_certificate(self, authorities: str) -> None:
        """Refuse reviews of clients without a certificate of these authorities (PEM). Raises ssl.SSLError."""
        self.tls.load_verify_locations(cadata=authorities)
        # Not CERT_REQUIRED: a kubelet has no certificate for its probes.
        self.tls.verify_mode = ssl.CERT_OPTIONAL

    async def start(self, host: str, port: int, *, metrics: bool = True) -> int:
        """Listen, and return the port; port 0 chooses a free one. Without `metrics`, these are served apart."""
        if metrics:
            add_metrics(self._http.app, self._metrics)
        return await self._http.start(host, port, self.tls)

    async def start_metrics(self, host: str, port: int) -> int:
        """Serve /metrics at an address of its own, by HTTP, and return the port."""
        app = web.Application()
        add_metrics(app, self._metrics)
        self._metrics_http = HttpServer(app)
        return await self._metrics_http.start(host, port)

    async def stop(self) -> None:
        """Answer pending reviews, then stop."""
        self.is_ready = False
        await self._http.stop()
        if self._metrics_http is not None:
            await self._metrics_http.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @web.middleware
    async def _check_certificate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        is_open = self.tls.verify_mode == ssl.CERT_NONE or request.path in _OPEN
        if is_open or request.get_extra_info("peercert"):
            return await handler(request)
        if request.path in (MUTATE, VALIDATE):
            self._count(request, "no certificate")
        text = "no client certificate: the API server must present one of the authorities in --client-ca\n"
        return web.Response(status=403, text=text, headers={"Connection": "close"})

    async def _mutate(self, request: web.Request) -> web.Response:
        # The facts change in this thread only, so read them here and not in the thread of the review.
        context = self.facts.context()
        return await self._answer(request, lambda body: reviews.mutated(body, context, self.schema))

    async def _validate(self, request: web.Request) -> web.Response:
        context, dropped = self.facts.context(), self.facts.dropped
        return await self._answer(request, lambda body: reviews.validated(body, context, dropped))

    async def _answer(self, request: web.Request, answer_review: Callable[[bytes], reviews.Answer]) -> web.Response:
        if self._pending >= MOST_PENDING:
            self._count(request, "too many")
            headers = {"Retry-After": "1", "Connection": "close"}
            return web.Response(status=503, text="too many reviews at once\n", headers=headers)
        self._pending += 1
        began = time.monotonic()
        try:
            body = await self._read(request)
            if body is None:
                self._count(request, "no review")
                return web.Response(status=408, text="the body did not arrive\n", headers={"Connection": "close"})
            answer, allowed = await asyncio.get_running_loop().run_in_executor(self._threads, answer_review, body)
        except reviews.MalformedReviewError as error:
            self._count(request, "no review")
            return web.Response(status=400, text=f"{error}\n")
        finally:
            self._pending -= 1
            self.metrics.seconds.observe(time.monotonic() - began)
        self._count(request, "allowed" if allowed else "denied")
        if not self.answered and request.host.partition(":")[0] == self.service_host:
            self.answered = True
            self.first_answer.set()
        return web.Response(body=answer, content_type="application/json")

    async def _read(self, request: web.Request) -> bytes | None:
        """Return the body; None if it did not arrive in time, or not at all."""
        body = self._bodies[request.protocol] = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for piece in request.content.iter_any():
                    body += piece
                    if len(body) > LARGEST_REVIEW:
                        raise web.HTTPRequestEntityTooLarge(LARGEST_REVIEW, len(body))
                    if sum(map(len, self._bodies.values())) > MOST_BYTES:
                        oldest = next(iter(self._bodies))
                        self._bodies.pop(oldest)
                        self._http.connections.abort(oldest)
        except (TimeoutError, ConnectionError, web.RequestPayloadError):
            return None
        finally:
            self._bodies.pop(request.protocol, None)
        return bytes(body)

    def _count(self, request: web.Request, outcome: str) -> None:
        self.metrics.reviews.labels(request.path.rpartition("/")[2], outcome).inc()

    def _metrics(self) -> bytes:
        self.metrics.waiting.set(self._pending)
        return generate_latest(self.metrics.registry)

"""The HTTPS server of the webhook: two paths for reviews, and /healthz, /readyz and /metrics.

Reviews run in a few threads, so that a large Job delays neither health checks nor all other reviews. Malformed reviews
get status 400; bodies that are too large are not read. Time, connections and memory are bounded, since every pod of the
cluster can connect.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from pumice.engines.kubernetes.auth.tls import load_key_pair
from pumice.engines.kubernetes.controller.metrics import CONTENT_TYPE
from pumice.engines.kubernetes.install.webhook_configurations import MUTATE, VALIDATE
from pumice.engines.kubernetes.webhook import review_metrics, reviews
from pumice.engines.kubernetes.webhook.certificates import Credentials, expiry
from pumice.engines.kubernetes.webhook.cluster_facts import ClusterFacts
from pumice.engines.kubernetes.webhook.connections import HEAD_SECONDS, Connections
from pumice.engines.kubernetes.webhook.schema_check import Schema

# An API server accepts objects of 3 MiB; the review of an update holds two, and the rest is a margin.
LARGEST_REVIEW: Final = 8 * 1024 * 1024
THREADS: Final = 4
# More reviews than these in progress get status 503.
MOST_PENDING: Final = 200
BODY_SECONDS: Final = 5.0
# Above this total, the body that has been arriving for the longest time is given up: an API server sends one at once.
MOST_BYTES: Final = 48 * 1024 * 1024
IDLE_SECONDS: Final = 75.0
SECONDS_TO_FINISH: Final = 10.0


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


@dataclass(slots=True)
class WebhookServer:
    facts: ClusterFacts
    schema: Schema
    tls: ssl.SSLContext = field(default_factory=_server_context)
    is_ready: bool = False
    # The host name of its Service; a review that names it has come through the Service.
    service_host: str = ""
    answered: bool = False  # such a review was answered
    first_answer: asyncio.Event = field(default_factory=asyncio.Event)
    metrics: review_metrics.ReviewMetrics = field(default_factory=review_metrics.ReviewMetrics)
    _pending: int = 0
    _connections: Connections = field(default_factory=Connections)
    _bodies: dict[asyncio.Protocol, bytearray] = field(default_factory=dict)  # those that are arriving, oldest first
    _listener: asyncio.Server | None = None
    _runner: web.AppRunner | None = None
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="review")
    )

    def use_certificate(self, credentials: Credentials, *, trusted: bool = True) -> None:
        """Serve a certificate from the next connection on. An untrusted one is enough for health checks."""
        load_key_pair(self.tls, credentials.certificate, credentials.key)
        self.metrics.expires.set(expiry(credentials).timestamp())
        self.is_ready = trusted

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port; port 0 chooses a free one."""
        app = web.Application(client_max_size=LARGEST_REVIEW)
        app.router.add_post(MUTATE, self._mutate)
        app.router.add_post(VALIDATE, self._validate)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.middlewares.append(self._note_use)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=SECONDS_TO_FINISH, keepalive_timeout=IDLE_SECONDS
        )
        await self._runner.setup()
        factory = cast(Callable[[], asyncio.Protocol], self._runner.server)
        self._listener = await asyncio.get_running_loop().create_server(
            self._connections.bounded(factory),
            host,
            port,
            ssl=self.tls,
            ssl_handshake_timeout=HEAD_SECONDS,
            ssl_shutdown_timeout=1.0,
            reuse_address=True,
            backlog=1024,
        )
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Answer pending reviews, then stop."""
        self.is_ready = False
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @web.middleware
    async def _note_use(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._connections.use(request.protocol)
        return await handler(request)

    async def _mutate(self, request: web.Request) -> web.Response:
        # The facts change in this thread only, so read them here and not in the thread of the review.
        context = self.facts.context()
        return await self._answer(request, lambda body: reviews.mutated(body, context, self.schema))

    async def _validate(self, request: web.Request) -> web.Response:
        context, dropped = self.facts.context(), self.facts.dropped
        return await self._answer(request, lambda body: reviews.validated(body, context, dropped))

    async def _answer(self, request: web.Request, answer_review: Callable[[bytes], bytes]) -> web.Response:
        if self._pending >= MOST_PENDING:
            self._count(request, review_metrics.TOO_MANY)
            headers = {"Retry-After": "1", "Connection": "close"}
            return web.Response(status=503, text="too many reviews at once\n", headers=headers)
        self._pending += 1
        began = time.monotonic()
        try:
            body = await self._read(request)
            if body is None:
                self._count(request, review_metrics.NO_REVIEW)
                return web.Response(status=408, text="the body did not arrive\n", headers={"Connection": "close"})
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, answer_review, body)
        except reviews.MalformedReviewError as error:
            self._count(request, review_metrics.NO_REVIEW)
            return web.Response(status=400, text=f"{error}\n")
        finally:
            self._pending -= 1
            self.metrics.seconds.observe(time.monotonic() - began)
        self._count(request, review_metrics.outcome(answer))
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
                        self._connections.abort(oldest)
        except (TimeoutError, ConnectionError, web.RequestPayloadError):
            return None
        finally:
            self._bodies.pop(request.protocol, None)
        return bytes(body)

    def _count(self, request: web.Request, outcome: str) -> None:
        self.metrics.reviews.labels(request.path.rpartition("/")[2], outcome).inc()

    async def _metrics(self, _request: web.Request) -> web.Response:
        self.metrics.waiting.set(self._pending)
        return web.Response(body=self.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        if self.is_ready:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="no trusted certificate yet, or stopping\n")

"""The webhook rotates its certificates without a single failed review by a real API server."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import functools
import itertools
import ssl
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pytest
from aiohttp import web
from cryptography import x509

from pumice.engines.kubernetes.auth.access import find_access
from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.webhook import webhook_process
from pumice.engines.kubernetes.webhook.certificates import AUTHORITY_LIFE, CERTIFICATE_LIFE
from pumice.engines.kubernetes.webhook.server import WebhookServer
from tests.cluster.api import Object, eventually
from tests.cluster.background_thread import BackgroundThread
from tests.cluster.cluster import Cluster, free_port
from tests.cluster.jobs import a_job
from tests.cluster.webhooks import ca_bundles, dry_run, install_webhook, wait_until_called
from tests.patience import PATIENCE

INVALID = a_job(plugins={"nosuch": []})
SECRET = names.certificates(names.WEBHOOK)
DAY = dt.timedelta(days=1)
REVIEWS = 2000  # sent while certificates are lost
# Longer than an API server takes to load a changed configuration, also on a busy machine.
SETTLING = 3.0


@dataclass(slots=True)
class Clock:
    """The real time, or an earlier one; the API server always uses the real time."""

    behind: dt.timedelta = field(default_factory=dt.timedelta)

    def __call__(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC) - self.behind  # noqa: TID251 - see above


class Webhook(BackgroundThread):
    """A webhook in this process, with the clock of the test."""

    def __init__(self, cluster: Cluster, port: int, clock: Clock, interval: float = 0.2) -> None:
        super().__init__()
        token = cluster.service_account_token(names.NAMESPACE, names.WEBHOOK)
        self._settings = webhook_process.Settings(
            access=find_access(str(cluster.kubeconfig(names.WEBHOOK, token=token))),
            host="127.0.0.1",
            port=port,
            service=names.WEBHOOK,
            settling=SETTLING,
            interval=interval,
        )
        self._clock = clock

    async def main(self) -> None:
        self.mark_ready()
        try:
            await webhook_process.run(self._settings, self._clock, asyncio.Event())
        finally:
            # Let TLS connections close; a separate process would simply end here.
            await asyncio.sleep(1)


class RoundRobin(BackgroundThread):
    """What a Service does: forwards each connection to the next replica."""

    def __init__(self, port: int, targets: Sequence[int]) -> None:
        super().__init__()
        self._port, self._targets = port, itertools.cycle(targets)
        self._open: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.connections: Counter[int] = Counter()

    async def main(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self.mark_ready()
        try:
            async with server:
                await server.serve_forever()
        finally:
            self._is_closed = True
            for task in list(self._open):
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            # Let the connections close.
            await asyncio.sleep(0.1)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_closed:  # the server had taken the connection before it was closed
            writer.transport.abort()
            return
        task = asyncio.create_task(self._forward(reader, writer))
        self._open.add(task)

        def close(done: asyncio.Task[None]) -> None:
            self._open.discard(done)
            # Also if the task was cancelled before it began.
            writer.transport.abort()

        task.add_done_callback(close)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = next(self._targets)
        self.connections[target] += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        try:
            await run_until_first_ends(copy(reader, far_writer), copy(far_reader, writer))
            writer.close()
            await writer.wait_closed()
        finally:
            far_writer.transport.abort()


async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()


@pytest.fixture
def one_review_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the API server verify the certificate at every review."""
    answer = WebhookServer._answer

    async def answer_and_close(*arguments: Any) -> web.Response:
        response = await answer(*arguments)
        response.force_close()
        return response

    monkeypatch.setattr(WebhookServer, "_answer", answer_and_close)


def secret(cluster: Cluster) -> Object:
    found: Object = cluster.api().get("Secret", names.NAMESPACE, SECRET).get("data") or {}
    return found


def served(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_certificate_is_renewed(pumice_cluster: Cluster, namespace: str, webhook_port: int, clock: Clock) -> None:
    clock.behind = CERTIFICATE_LIFE * 2 / 3 + DAY
    with Webhook(pumice_cluster, webhook_port, clock):
        wait_until_called(pumice_cluster, namespace, INVALID)
        before = secret(pumice_cluster)
        clock.behind = dt.timedelta()
        review_until_certificate_changes(pumice_cluster, namespace, webhook_port)
        after = secret(pumice_cluster)
        assert after["ca.crt"] == before["ca.crt"]
        assert served(webhook_port) == base64.b64decode(after["tls.crt"]).decode()


def test_the_authority_is_replaced(pumice_cluster: Cluster, namespace: str, webhook_port: int, clock: Clock) -> None:
    clock.behind = AUTHORITY_LIFE * 2 / 3 + DAY
    with Webhook(pumice_cluster, webhook_port, clock):
        eventually("the first certificate, which has expired by now", lambda: secret(pumice_cluster))
        clock.behind = 10 * DAY
        # A second certificate by the same authority, which was not due for renewal ten days ago.
        wait_until_called(pumice_cluster, namespace, INVALID)
        before = secret(pumice_cluster)
        clock.behind = dt.timedelta()
        review_until_certificate_changes(pumice_cluster, namespace, webhook_port)
        after = secret(pumice_cluster)
        new, old = x509.load_pem_x509_certificates(base64.b64decode(after["ca.crt"]))
        assert [old] == x509.load_pem_x509_certificates(base64.b64decode(before["ca.crt"]))
        assert new != old
        assert ca_bundles(pumice_cluster, names.CONFIGURATION) == {after["ca.crt"]}
        assert served(webhook_port) == base64.b64decode(after["tls.crt"]).decode()


@pytest.mark.usefixtures("one_review_a_connection")
@pytest.mark.soak
def test_no_review_fails_while_certificates_are_lost(
    pumice_cluster: Cluster, namespace: str, webhook_port: int, clock: Clock
) -> None:
    """Two replicas behind one address; the Secret is emptied, filled with garbage, deleted."""
    ports = [free_port(), free_port()]
    # They watch the Secret: a poll would come too late.
    replicas = [Webhook(pumice_cluster, port, clock, interval=600) for port in ports]
    with replicas[0], replicas[1], RoundRobin(webhook_port, ports) as service:
        wait_until_called(pumice_cluster, namespace, INVALID)
        eventually("both are ready", lambda: len({served(port) for port in ports}) == 1)
        with Creations(pumice_cluster, namespace) as creations:
            for lose in (empty_secret, garble_secret, delete_and_apply_secret):
                before = served(ports[0])
                lose(pumice_cluster, webhook_port)
                eventually("both serve a new certificate", functools.partial(replaced, ports, before))
                assert len(authorities(pumice_cluster)) > 1
            eventually(f"{REVIEWS} Jobs were sent", lambda: sum(creations.statuses.values()) >= REVIEWS)
        assert not creations.failures
        assert min(service.connections[port] for port in ports) >= REVIEWS / 2


def empty_secret(cluster: Cluster, _port: int) -> None:
    """As docs/guides/operations.md shows it."""
    patch = '[{"op": "remove", "path": "/data"}]'
    cluster.kubectl("-n", names.NAMESPACE, "patch", "secret", SECRET, "--type=json", "-p", patch)


def garble_secret(cluster: Cluster, _port: int) -> None:
    garbage = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nno\n").decode()
    cluster.api().patch("Secret", names.NAMESPACE, SECRET, {"data": dict.fromkeys(secret(cluster), garbage)})


def delete_and_apply_secret(cluster: Cluster, port: int) -> None:
    cluster.api().delete("Secret", names.NAMESPACE, SECRET)
    install_webhook(cluster, port)


def replaced(ports: Sequence[int], old: str) -> bool:
    now = {served(port) for port in ports}
    return len(now) == 1 and old not in now


def authorities(cluster: Cluster) -> list[x509.Certificate]:
    (bundle,) = ca_bundles(cluster, names.CONFIGURATION)
    return x509.load_pem_x509_certificates(base64.b64decode(bundle))


class Creations:
    """Sends Jobs until the end of the block, as dry runs, and counts the statuses of the responses."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.statuses: Counter[int] = Counter()
        self.failures: list[str] = []
        self._cluster, self._namespace = cluster, namespace
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(4)]

    def _send(self) -> None:
        while not self._stop.is_set():
            answer = dry_run(self._cluster, self._namespace, INVALID)
            self.statuses[answer.status] += 1
            if answer.status != 422:
                self.failures.append(answer.body.get("message", "accepted"))
            # The webhooks and the API server need the processor, too.
            self._stop.wait(0.05)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def review_until_certificate_changes(cluster: Cluster, namespace: str, port: int) -> None:
    """Send Jobs until the certificate changes and for a while after; the webhook must answer every review."""
    before, left = served(port), 20
    deadline = time.monotonic() + PATIENCE
    while left:
        assert dry_run(cluster, namespace, INVALID).status == 422
        left -= served(port) != before
        assert time.monotonic() < deadline, "the old certificate is still served"

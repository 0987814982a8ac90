"""The webhook rotates its certificates without a single failed review by a real API server."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import ssl
import time
from dataclasses import dataclass, field

import pytest
from cryptography import x509

from pumice.engines.kubernetes.auth.access import find_access
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.webhook import webhook_process
from pumice.engines.kubernetes.webhook.certificates import AUTHORITY_LIFE, CERTIFICATE_LIFE
from tests.cluster.api import PATIENCE, Object, eventually
from tests.cluster.background_thread import BackgroundThread
from tests.cluster.cluster import Cluster
from tests.cluster.jobs import a_job
from tests.cluster.webhooks import ca_bundles, dry_run, wait_until_called

INVALID = a_job(plugins={"nosuch": []})
DAY = dt.timedelta(days=1)
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

    def __init__(self, cluster: Cluster, port: int, clock: Clock) -> None:
        super().__init__()
        token = cluster.service_account_token(names.NAMESPACE, names.WEBHOOK)
        self._settings = webhook_process.Settings(
            access=find_access(str(cluster.kubeconfig(names.WEBHOOK, token=token))),
            host="127.0.0.1",
            port=port,
            service=names.WEBHOOK,
            settling=SETTLING,
            interval=0.2,
        )
        self._clock = clock

    async def main(self) -> None:
        self.mark_ready()
        try:
            await webhook_process.run(self._settings, self._clock, asyncio.Event())
        finally:
            # Let TLS connections close; a separate process would simply end here.
            await asyncio.sleep(1)


def secret(cluster: Cluster) -> Object:
    found: Object = cluster.api().get("Secret", names.NAMESPACE, names.certificates(names.WEBHOOK)).get("data") or {}
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


def review_until_certificate_changes(cluster: Cluster, namespace: str, port: int) -> None:
    """Send Jobs until the certificate changes and for a while after; the webhook must answer every review."""
    before, left = served(port), 20
    deadline = time.monotonic() + PATIENCE
    while left:
        assert dry_run(cluster, namespace, INVALID).status == 422
        left -= served(port) != before
        assert time.monotonic() < deadline, "the old certificate is still served"

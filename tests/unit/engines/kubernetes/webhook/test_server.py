from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import io
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
import uvloop
from aiohttp import web

from pumice.admission import review
from pumice.engines.kubernetes.install.crds import job_schema
from pumice.engines.kubernetes.webhook import server as serving
from pumice.engines.kubernetes.webhook.certificates import Credentials, renewed
from pumice.engines.kubernetes.webhook.cluster_facts import ClusterFacts
from pumice.engines.kubernetes.webhook.server import WebhookServer
from tests.builders import a_context, a_document
from tests.cluster.pki import Pki, make_pki
from tests.patience import PATIENCE
from tests.unit.engines.kubernetes.played_api import client_of, play
from tests.unit.engines.kubernetes.webhook.test_reviews import body

NAMES = ["127.0.0.1"]


def fresh() -> Credentials:
    return renewed(None, NAMES, dt.datetime.now(dt.UTC))  # noqa: TID251 - TLS uses the real time


class Caller:
    def __init__(self, port: int, credentials: Credentials) -> None:
        self.port = port
        self.credentials = credentials
        self.own: Path | None = None  # certificate and key of this client

    async def ask(self, method: str, path: str, data: bytes | None = None) -> tuple[int, str]:
        """Send a request over a new connection, which sees the current certificate."""
        tls = ssl.create_default_context(cadata=self.credentials.authority.decode())
        if self.own is not None:
            tls.load_cert_chain(self.own)
        connector = aiohttp.TCPConnector(ssl=tls, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, f"https://127.0.0.1:{self.port}{path}", data=data and io.BytesIO(data)) as response,
        ):
            return response.status, await response.text()


@contextlib.asynccontextmanager
async def running(client_ca: str = "", *, metrics: bool = True) -> AsyncIterator[tuple[WebhookServer, Caller]]:
    async def nothing(_request: web.BaseRequest) -> web.Response:
        return web.Response(status=404)

    context = a_context()
    async with client_of(nothing) as client:
        facts = ClusterFacts(client, "none", context.registry, context.kubernetes)
        server = WebhookServer(facts, job_schema())
        credentials = fresh()
        server.use_certificate(credentials)
        if client_ca:
            server.require_client_certificate(client_ca)
        port = await server.start("127.0.0.1", 0, metrics=metrics)
        try:
            yield server, Caller(port, credentials)
        finally:
            await server.stop()


def ask_once(method: str, path: str, data: bytes | None) -> tuple[int, str]:
    async def scenario() -> tuple[int, str]:
        async with running() as (_, caller):
            return await caller.ask(method, path, data)

    return play(scenario())


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def test_reviews_are_answered(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def scenario() -> None:
        async with running() as (_, caller):
            status, text = await caller.ask("POST", "/jobs/validate", body(a_document(maxRetry=-1)))
            assert (status, json.loads(text)["response"]["allowed"]) == (200, False)
            status, text = await caller.ask("POST", "/jobs/mutate", body(a_document()))
            assert (status, json.loads(text)["response"]["patchType"]) == (200, "JSONPatch")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())


def test_outcomes_of_reviews_are_counted() -> None:
    async def scenario() -> str:
        async with running() as (_, caller):
            await caller.ask("POST", "/jobs/validate", body(a_document(maxRetry=-1)))
            await caller.ask("POST", "/jobs/validate", body(a_document()))
            await caller.ask("POST", "/jobs/mutate", body(a_document()))
            await caller.ask("POST", "/jobs/mutate", b"hello")
            status, text = await caller.ask("GET", "/metrics")
            assert status == 200
            return text

    text = play(scenario())
    for path, outcome in (
        ("validate", "denied"),
        ("validate", "allowed"),
        ("mutate", "allowed"),
        ("mutate", "no review"),
    ):
        assert f'pumice_reviews_total{{outcome="{outcome}",path="{path}"}} 1.0' in text
    assert "pumice_review_seconds_count 4.0" in text
    assert "pumice_reviews_waiting 0.0" in text
    assert "pumice_certificate_expiry_timestamp_seconds" in text
    assert "train" not in text


@pytest.mark.parametrize(
    ("method", "path", "data", "expected"),
    [
        pytest.param("POST", "/jobs/validate", b"{}", 400, id="not a review"),
        pytest.param("POST", "/jobs/mutate", b"\xff", 400, id="not UTF-8"),
        pytest.param("POST", "/jobs/validate", b"x" * (serving.LARGEST_REVIEW + 1), 413, id="too large"),
        pytest.param("GET", "/jobs/validate", None, 405, id="another method"),
        pytest.param("POST", "/pods/validate", b"{}", 404, id="another path"),
        pytest.param("GET", "/healthz", None, 200, id="health"),
        pytest.param("GET", "/readyz", None, 200, id="readiness"),
    ],
)
def test_status_of_requests(method: str, path: str, data: bytes | None, expected: int) -> None:
    status, text = ask_once(method, path, data)
    assert (status, "Traceback" in text) == (expected, False)


def test_a_new_certificate_is_served_without_a_restart() -> None:
    async def scenario() -> None:
        async with running() as (server, caller):
            second = fresh()
            server.use_certificate(second)
            with pytest.raises(aiohttp.ClientError):
                await caller.ask("GET", "/healthz")
            caller.credentials = second
            assert (await caller.ask("GET", "/healthz"))[0] == 200

    play(scenario())


def test_not_ready_until_a_trusted_certificate_is_served() -> None:
    async def scenario() -> None:
        async with running() as (server, caller):
            server.use_certificate(caller.credentials, trusted=False)
            assert (await caller.ask("GET", "/readyz"))[0] == 503
            assert (await caller.ask("GET", "/healthz"))[0] == 200

    play(scenario())


def test_a_slow_review_does_not_delay_health_checks_and_is_answered_before_shutdown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    real = review.validate

    def slow(asked: dict[str, object], context: object) -> object:
        begun.set()
        assert go_on.wait(PATIENCE)
        return real(asked, a_context())

    monkeypatch.setattr(review, "validate", slow)

    async def scenario() -> None:
        async with running() as (server, caller):
            asked = asyncio.create_task(caller.ask("POST", "/jobs/validate", body(a_document())))
            await asyncio.to_thread(begun.wait, 30)
            assert (await caller.ask("GET", "/healthz"))[0] == 200
            stopping = asyncio.create_task(server.stop())
            await asyncio.sleep(0)
            go_on.set()
            status, text = await asked
            assert (status, json.loads(text)["response"]["allowed"]) == (200, True)
            await stopping

    play(scenario())


def test_too_many_reviews_at_once_get_status_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_PENDING", 0)
    assert ask_once("POST", "/jobs/validate", body(a_document())) == (503, "too many reviews at once\n")


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki"), dt.datetime.now(dt.UTC))  # noqa: TID251 - TLS uses the real time


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def test_with_a_client_ca_reviews_need_a_certificate_and_probes_do_not(
    pki: Pki, tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    authority = Path(pki.path("ca.crt")).read_text()
    own = tmp_path / "client.pem"
    own.write_bytes(b"".join(pki.client_certificate("kube-apiserver", "", dt.datetime.now(dt.UTC))))  # noqa: TID251 - TLS
    stranger = tmp_path / "stranger.pem"
    credentials = fresh()
    stranger.write_bytes(credentials.certificate + credentials.key)

    async def scenario() -> None:
        async with running(authority) as (server, caller):
            review = body(a_document())
            assert [(await caller.ask("GET", path))[0] for path in ("/healthz", "/readyz")] == [200, 200]
            for path in ("/jobs/validate", "/jobs/mutate"):
                status, text = await caller.ask("POST", path, review)
                assert (status, "--client-ca" in text) == (403, True)
            assert (await caller.ask("GET", "/metrics"))[0] == 403
            assert 'outcome="no certificate",path="validate"} 1.0' in server._metrics().decode()
            caller.own = own
            assert (await caller.ask("POST", "/jobs/validate", review))[0] == 200
            caller.own = stranger
            with pytest.raises((aiohttp.ClientError, ConnectionError, ssl.SSLError)):
                await caller.ask("POST", "/jobs/validate", review)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())


def test_metrics_at_an_address_of_their_own() -> None:
    async def scenario() -> None:
        async with running(metrics=False) as (server, caller):
            port = await server.start_metrics("127.0.0.1", 0)
            assert (await caller.ask("GET", "/metrics"))[0] == 404
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
                    assert "pumice_reviews_waiting 0.0" in await response.text()
                async with session.post(f"http://127.0.0.1:{port}/jobs/validate") as response:
                    assert response.status == 404

    play(scenario())

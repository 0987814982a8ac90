"""Real TLS on loopback: trusted servers, client certificates and their renewal."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import UnreachableError
from pumice.engines.kubernetes.api.resources import PODS
from pumice.engines.kubernetes.auth import credentials
from pumice.engines.kubernetes.auth.access import Access, find_access
from tests.cluster.pki import Pki, make_pki
from tests.unit.engines.kubernetes.kubeconfigs import config, write
from tests.unit.engines.kubernetes.played_api import good, play, played, serving

NOW = dt.datetime.now(dt.UTC)  # noqa: TID251 - TLS knows no other time


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki"), NOW)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("stranger"), NOW)


def server_side(pki: Pki, *, wants_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pki.path("server.crt"), pki.path("server.key"))
    if wants_certificate:
        context.load_verify_locations(pki.path("ca.crt"))
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def access_by(tmp_path: Path, port: int, cluster: dict[str, Any], user: dict[str, Any] | None = None) -> Access:
    host = cluster.pop("host", "127.0.0.1")
    return find_access(write(tmp_path / "config", config({"server": f"https://{host}:{port}"} | cluster, user)))


class NameRecorder:
    """Records the common names of client certificates."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert") or {}
        self.names += [value for part in shown.get("subject", ()) for key, value in part if key == "commonName"]
        return await good(request)


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({"certificate-authority": "CA"}, id="authority"),
        pytest.param({"insecure-skip-tls-verify": True}, id="unverified"),
        pytest.param({"certificate-authority": "CA", "tls-server-name": "kubernetes.default.svc"}, id="other name"),
        pytest.param({"certificate-authority": "CA", "host": "localhost"}, id="by name"),
    ],
)
def test_a_trusted_server(cluster: dict[str, Any], tmp_path: Path, pki: Pki) -> None:
    cluster = {name: pki.path("ca.crt") if value == "CA" else value for name, value in cluster.items()}

    async def story() -> bytes:
        async with serving(good, server_side(pki)) as port, Client(access_by(tmp_path, port, cluster)) as client:
            return await client.get(PODS, "n", "p")

    assert b"Pod" in play(story())


@pytest.mark.parametrize(
    ("cluster", "authority"),
    [
        pytest.param({}, "stranger", id="other authority"),
        pytest.param({"tls-server-name": "elsewhere.example"}, "own", id="other name"),
    ],
)
def test_an_untrusted_server(cluster: dict[str, Any], authority: str, tmp_path: Path, pki: Pki, stranger: Pki) -> None:
    trusted = {"own": pki, "stranger": stranger}[authority]

    async def story() -> None:
        trust = {"certificate-authority": trusted.path("ca.crt")} | cluster
        async with serving(good, server_side(pki)) as port, Client(access_by(tmp_path, port, trust)) as client:
            await client.get(PODS, "n", "p")

    with pytest.raises(
        UnreachableError, match=r"the certificate of https://127\S+ is not trusted .*check certificate-au"
    ):
        play(story())


@played
async def test_the_client_presents_its_certificate(tmp_path: Path, pki: Pki) -> None:
    recorder = NameRecorder()
    certificate, key = pki.client_certificate("jane", "people", NOW)
    user = {
        "client-certificate": write(tmp_path / "c", certificate.decode()),
        "client-key": write(tmp_path / "k", key.decode()),
    }
    async with serving(recorder, server_side(pki, wants_certificate=True)) as port:
        trust = {"certificate-authority": pki.path("ca.crt")}
        async with Client(access_by(tmp_path, port, trust, user)) as client:
            await client.get(PODS, "n", "p")
    assert recorder.names == ["jane"]


@played
async def test_new_connections_present_a_renewed_certificate(
    tmp_path: Path, pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = NameRecorder()
    monkeypatch.setattr(credentials, "_FILE_LIFE", 0.0)
    pairs = [pki.client_certificate(name, "people", NOW) for name in ("first", "second")]
    files = (tmp_path / "c", tmp_path / "k")

    def write_pair(*contents: bytes) -> None:
        for file, content in zip(files, contents, strict=False):
            write(tmp_path / "new", content.decode())
            (tmp_path / "new").replace(file)

    write_pair(*pairs[0])
    user = {"client-certificate": str(files[0]), "client-key": str(files[1])}
    async with serving(recorder, server_side(pki, wants_certificate=True)) as port:
        trust = {"certificate-authority": pki.path("ca.crt")}
        async with Client(access_by(tmp_path, port, trust, user)) as client:
            await client.get(PODS, "n", "p")
            write_pair(pairs[1][0])  # The new key is still missing: they do not match.
            await client.get(PODS, "n", "p")
            write_pair(*pairs[1])
            await client.get(PODS, "n", "p")
            await client.get(PODS, "n", "p")
    assert recorder.names == ["first", "first", "second", "second"]


def test_a_certificate_needs_no_writable_directory(tmp_path: Path, pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system of an installed pod is read-only."""
    certificate, key = pki.client_certificate("jane", "people", NOW)
    user = {
        "client-certificate": write(tmp_path / "c", certificate.decode()),
        "client-key": write(tmp_path / "k", key.decode()),
    }
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nosuch"))
    assert access_by(tmp_path, 1, {}, user).server == "https://127.0.0.1:1"

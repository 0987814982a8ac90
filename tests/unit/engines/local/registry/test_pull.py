"""Pulls from registries that answer wrongly, slowly or with bad intent. tests/local/test_pull.py has a real one."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.store import Image, ImageStore
from pumice.engines.local.registry import blob_download, registry_client
from pumice.engines.local.registry.pull import PullReport, pull
from pumice.engines.local.registry.registry_client import RegistryError
from tests.async_tests import async_test
from tests.unit.engines.local.images.archives import digest
from tests.unit.engines.local.registry.false_registry import (
    CONFIG,
    DATA,
    LAYER,
    MANIFEST,
    Answer,
    FalseRegistry,
    Request,
    false_registry,
)

BLOB = f"/v2/box/blobs/{digest(LAYER)}"
MANIFESTS = "/v2/box/manifests/latest"
INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_download, "_PAUSES", (0.0,) * 4)


@dataclass
class Puller:
    """Pulls `box` of a registry into a store below a directory."""

    directory: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def store(self) -> ImageStore:
        return ImageStore(self.directory / "images")

    async def pull(self, registry: FalseRegistry, name: str = "box", platform: str = "") -> Image:
        report = PullReport(self.lines.append, self.lines.append, 0.01)
        environ = {"HOME": str(self.directory), **self.environ}
        return await pull(f"{registry.host}/{name}", self.store, environ, report, platform)

    async def error(self, registry: FalseRegistry, name: str = "box", platform: str = "") -> ImageError:
        with pytest.raises(ImageError) as caught:
            await self.pull(registry, name, platform)
        assert self.store.images() == []
        return caught.value

    def leftovers(self) -> list[Path]:
        """Return the files of downloads that were not completed."""
        return [path for path in (self.directory / "images").glob(".downloads/*/**/*") if path.is_file()]

    def write_login(self, host: str, **entry: str) -> None:
        path = self.directory / ".docker" / "config.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"auths": {host: entry}}))


@pytest.fixture
def puller(tmp_path: Path) -> Puller:
    return Puller(tmp_path)


def _auth(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


@async_test
async def test_a_good_registry(puller: Puller) -> None:
    async with false_registry() as registry:
        registry.put_image()
        image = await puller.pull(registry)
        assert (image.root / "data").read_bytes() == DATA
        assert (image.digest, image.config.cmd) == (digest(CONFIG), ("/data",))
        assert image.source == f"{registry.host}/box:latest"
        assert puller.lines[0].startswith(f"pulling from {registry.host}: 1 layer, 3.")
        assert puller.leftovers() == []
        registry.requests.clear()
        assert await puller.pull(registry) == image
        assert puller.lines[-1] == "is up to date"
        assert not any("blobs" in request.path for request in registry.requests)


async def _endless(head: bytes, piece: bytes) -> AsyncIterator[bytes]:
    yield head
    while True:
        yield piece


def _manifest(**changes: Any) -> Any:
    def prepare(registry: FalseRegistry) -> None:
        registry.put_image(**changes)

    return prepare


def _body(body: bytes, **headers: str) -> Any:
    def prepare(registry: FalseRegistry) -> None:
        registry.put_manifest(body, {"Content-Type": MANIFEST, **{k.replace("_", "-"): v for k, v in headers.items()}})

    return prepare


def _raw(data: bytes) -> Any:
    return lambda registry: registry.put(MANIFESTS, data)


def _endless_manifest(registry: FalseRegistry) -> None:
    async def handler(_request: Request) -> AsyncIterator[bytes]:
        return _endless(b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n")

    registry.answers[MANIFESTS] = handler


def _redirect(location: str) -> Any:
    return lambda registry: registry.put(MANIFESTS, Answer(status=307, headers={"Location": location}))


def _index_of_itself(registry: FalseRegistry) -> None:
    """Each index names another one."""
    version = "latest"
    bodies: list[bytes] = []
    for number in range(6, 0, -1):
        entries = [{"digest": digest(bodies[-1]) if bodies else digest(b""), "platform": PLATFORM}]
        bodies.append(json.dumps({"mediaType": INDEX, "manifests": entries, "n": number}).encode())
    for body in bodies:
        registry.put_manifest(body, {"Content-Type": INDEX}, version=digest(body))
    registry.put_manifest(bodies[-1], {"Content-Type": INDEX}, version=version)


PLATFORM = {"os": "linux", "architecture": json.loads(CONFIG)["architecture"]}
NEW = sys.version_info >= (3, 14)
LAYERS = [{"digest": digest(LAYER), "size": len(LAYER)}]


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        pytest.param(_endless_manifest, "answers with more than 4194304 bytes", id="endless manifest"),
        pytest.param(_body(b" " * (4 << 20) + b"{}"), "answers with more than 4194304 bytes", id="huge manifest"),
        pytest.param(_body(b"<html>", Content_Type="text/html"), "not a manifest (text/html)", id="web page"),
        pytest.param(_body(b"{}", Content_Type="text/html"), "not a manifest (text/html)", id="wrong content type"),
        pytest.param(_body(b"{}", Content_Type=""), "not a manifest (no content type)", id="no content type"),
        pytest.param(_body(b"[]"), "not a manifest", id="list"),
        pytest.param(_body(b"\xff\xfe"), "not a manifest", id="not text"),
        pytest.param(_body(b"[" * 100_000), "not a manifest", id="deep nesting"),
        pytest.param(_body(gzip.compress(bytes(50 << 20)), Content_Encoding="gzip"), "not a manifest", id="gzip bomb"),
        pytest.param(_redirect("/v2/box/manifests/latest"), "redirects more than 10 times", id="redirect loop"),
        pytest.param(_redirect(""), "redirects more than 10 times", id="redirect without address"),
        pytest.param(_redirect("http://example.com/x"), "redirects to an address that is not https", id="plain http"),
        pytest.param(_redirect("file:///etc/passwd"), "an address that is not https", id="redirect to file"),
        pytest.param(_redirect("http://[::1"), "that is not valid", id="redirect to nonsense"),
        pytest.param(_raw(b"SSH-2.0-x\r\n\r\n"), "does not answer with HTTP", id="not HTTP"),
        pytest.param(_raw(b""), "the connection broke off", id="no answer"),
        pytest.param(_raw(b"HTTP/1.1 200 x\r\nA: " + b"b" * 100_000), "does not answer with HTTP", id="huge header"),
        pytest.param(
            _raw(b"HTTP/1.1 200 x\r\nContent-Length: 900\r\n\r\n{}"), "the connection broke off", id="too short"
        ),
        pytest.param(_raw(Answer(status=500).raw()), "answers with 500", id="server error"),
        pytest.param(_raw(Answer(status=429).raw()), "too many requests", id="too many requests"),
        pytest.param(_raw(Answer(status=418).raw()), "answers with 418", id="unexpected status"),
        pytest.param(
            _body(b"{}", Docker_Content_Digest=digest(b"x")),
            "not sha256:2d711642b726",
            id="other digest",
        ),
        pytest.param(_manifest(layers={}), "no list of layers", id="layers of a wrong type"),
        pytest.param(_manifest(layers=LAYERS * 1001), "or too many of them", id="too many layers"),
        pytest.param(
            _manifest(layers=[{"digest": "sha256:../../../../etc/passwd", "size": 9}]),
            "layer 1 of 1: sha256:../../../../etc/passwd is not a sha256 digest",
            id="path in a digest",
        ),
        pytest.param(_manifest(layers=[{"digest": 5, "size": 9}]), "nothing is not a sha256 digest", id="number"),
        pytest.param(_manifest(layers=[7]), "is not a valid size", id="layer of a wrong type"),
        pytest.param(_manifest(layers=[{**LAYERS[0], "size": -1}]), "-1 is not a valid size", id="negative size"),
        pytest.param(_manifest(layers=[{**LAYERS[0], "size": True}]), "is not a valid size", id="truth value as size"),
        pytest.param(_manifest(layers=[{**LAYERS[0], "size": 1 << 41}]), "is not a valid size", id="2 TiB"),
        pytest.param(_manifest(config={"digest": digest(CONFIG), "size": 1 << 30}), "not a valid", id="huge config"),
        pytest.param(_index_of_itself, "an index within an index", id="index in index"),
    ],
)
@async_test
async def test_a_bad_manifest_is_an_error_of_the_registry(prepare: Any, message: str, puller: Puller) -> None:
    async with false_registry() as registry:
        prepare(registry)
        error = await puller.error(registry)
        assert message in error.problem.message
        assert isinstance(error, RegistryError)
        assert error.exit_code == 1
        assert error.problem.where.file == f"{registry.host}/box"


def _zstd(registry: FalseRegistry) -> None:
    registry.put_image(layers=[{**LAYERS[0], "mediaType": "application/vnd.oci.image.layer.v1.tar+zstd"}])


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        pytest.param(lambda _registry: None, "has no such image", id="no such image"),
        pytest.param(_raw(Answer(status=401).raw()), "asks for a login", id="private, without a challenge"),
        pytest.param(_raw(Answer(status=403).raw()), "answers with 403", id="forbidden"),
        pytest.param(_body(b'{"schemaVersion": 1}'), "manifest of version 1", id="version 1"),
        pytest.param(
            _manifest(config={"mediaType": "application/vnd.cncf.helm.config.v1+json"}),
            "vnd.cncf.helm",
            id="chart",
        ),
        pytest.param(_zstd, "only Python 3.14", id="zstd", marks=pytest.mark.skipif(NEW, reason="Python reads zstd")),
        pytest.param(_body(b'{"manifests": []}', Content_Type=INDEX), "does not exist for linux/", id="empty index"),
        pytest.param(_body(b'{"manifests": [5]}', Content_Type=""), "does not exist for linux/", id="index of numbers"),
    ],
)
@async_test
async def test_an_image_that_cannot_be_used_is_bad_input(prepare: Any, message: str, puller: Puller) -> None:
    async with false_registry() as registry:
        prepare(registry)
        error = await puller.error(registry)
        assert message in error.problem.message or message in error.hint
        assert error.exit_code == 2


@async_test
async def test_a_manifest_of_another_digest_is_refused(puller: Puller) -> None:
    async with false_registry() as registry:
        registry.put_manifest(b"{}", version=digest(b"wanted"))
        error = await puller.error(registry, f"box@{digest(b'wanted')}")
        assert f"has the digest {digest(b'{}')}, not {digest(b'wanted')}" in error.problem.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(LAYER[:-1] + b"?", "it is refused", id="wrong digest"),
        pytest.param(LAYER + b"?", f"sends more of layer 1 of 1 than its {len(LAYER)} bytes", id="more bytes"),
    ],
)
@async_test
async def test_a_layer_of_another_digest_is_refused_and_removed(body: bytes, message: str, puller: Puller) -> None:
    async with false_registry() as registry:
        registry.put_image()
        registry.put(BLOB, Answer(body))
        error = await puller.error(registry)
        assert message in error.problem.message
        assert error.exit_code == 1
        assert [path.read_bytes() for path in puller.leftovers()] == [CONFIG]


@async_test
async def test_an_endless_layer(puller: Puller) -> None:
    async def handler(_request: Request) -> AsyncIterator[bytes]:
        return _endless(b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65536 + b"\r\n")

    async with false_registry() as registry:
        registry.put_image()
        registry.answers[BLOB] = handler
        assert "sends more of layer 1 of 1" in (await puller.error(registry)).problem.message


def _ranges(registry: FalseRegistry) -> list[str]:
    return [request.headers.get("range", "") for request in registry.requests if request.path == BLOB]


@async_test
async def test_a_layer_that_breaks_off_is_resumed(puller: Puller) -> None:
    """Each connection sends a part, whatever Content-Length says."""

    async def handler(request: Request) -> Answer:
        start = int(request.headers.get("range", "bytes=0-")[6:-1])
        part = LAYER[start : start + 20]
        headers = {"Content-Length": "9999", "Content-Range": f"bytes {start}-{len(LAYER) - 1}/*"}
        return Answer(part, 206 if start else 200, headers)

    async with false_registry() as registry:
        registry.put_image()
        registry.answers[BLOB] = handler
        error = await puller.error(registry)
        assert error.problem.message == f"{registry.host}: the connection broke off"
        assert _ranges(registry) == ["", "bytes=20-", "bytes=40-", "bytes=60-", "bytes=80-"]
        # What has arrived is here when the command is typed again.
        registry.requests.clear()
        await puller.error(registry)
        assert _ranges(registry)[0] == "bytes=100-"


def _partial(puller: Puller, manifest: Mapping[str, Any], data: bytes) -> Path:
    """Leave what a killed process would leave."""
    body = json.dumps(manifest).encode()
    hexadecimal = digest(body).removeprefix("sha256:")
    blobs = puller.directory / "images" / ".downloads" / hexadecimal / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    path = blobs / f"{digest(LAYER).removeprefix('sha256:')}.partial"
    path.write_bytes(data)
    return path


async def _with_ranges(request: Request) -> Answer:
    start = int(request.headers.get("range", "bytes=0-")[6:-1])
    headers = {"Content-Range": f"bytes {start}-{len(LAYER) - 1}/{len(LAYER)}"} if start else {}
    return Answer(LAYER[start:], 206 if start else 200, headers)


async def _without_ranges(_request: Request) -> Answer:
    return Answer(LAYER)


async def _from_elsewhere(request: Request) -> Answer:
    if "range" in request.headers:
        return Answer(LAYER[3:], 206, {"Content-Range": f"bytes 3-{len(LAYER) - 1}/{len(LAYER)}"})
    return Answer(LAYER)


async def _unsatisfiable(request: Request) -> Answer:
    return Answer(b"", 416) if "range" in request.headers else Answer(LAYER)


@pytest.mark.parametrize(
    ("here", "handler", "ranges"),
    [
        pytest.param(LAYER[:10], _with_ranges, ["bytes=10-"], id="continued"),
        pytest.param(LAYER[:10], _without_ranges, ["bytes=10-"], id="server without ranges"),
        pytest.param(LAYER[:10], _from_elsewhere, ["bytes=10-", ""], id="another range"),
        pytest.param(LAYER[:10], _unsatisfiable, ["bytes=10-", ""], id="range refused"),
        pytest.param(b"damaged!!!", _with_ranges, ["bytes=10-", ""], id="damaged part"),
        pytest.param(LAYER, _with_ranges, [], id="complete"),
        pytest.param(LAYER + b"more", _with_ranges, [""], id="too long"),
        pytest.param(b"?" * len(LAYER), _with_ranges, [""], id="complete and damaged"),
    ],
)
@async_test
async def test_a_partial_layer(here: bytes, handler: Any, ranges: list[str], puller: Puller) -> None:
    async with false_registry() as registry:
        _partial(puller, registry.put_image(), here)
        registry.answers[BLOB] = handler
        image = await puller.pull(registry)
        assert (image.root / "data").read_bytes() == DATA
        assert _ranges(registry) == ranges
        assert puller.leftovers() == []


@async_test
async def test_a_layer_that_is_damaged_on_disk_is_fetched_anew(puller: Puller) -> None:
    async with false_registry() as registry:
        partial = _partial(puller, registry.put_image(), LAYER[:-1] + b"?")
        partial.rename(partial.with_suffix(""))
        assert "layer 1 of 1: is damaged" in (await puller.error(registry)).problem.message
        assert puller.leftovers() == []
        assert (await puller.pull(registry)).digest == digest(CONFIG)


@async_test
async def test_a_slow_registry(puller: Puller) -> None:
    async def handler(_request: Request) -> AsyncIterator[bytes]:
        async def pieces() -> AsyncIterator[bytes]:
            raw = Answer(LAYER).raw()
            for start in range(0, len(raw), 256):
                yield raw[start : start + 256]
                await asyncio.sleep(0.01)

        return pieces()

    async with false_registry() as registry:
        registry.put_image()
        registry.answers[BLOB] = handler
        await puller.pull(registry)
        progress = [line for line in puller.lines if line.startswith("0 of 1 layers, ")]
        assert len(progress) > 1


@async_test
async def test_a_silent_registry_is_given_up(puller: Puller, monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(_request: Request) -> AsyncIterator[bytes]:
        return _dripping()

    async def _dripping() -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 x\r\nContent-Length: 99999\r\n\r\n"
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    monkeypatch.setattr(registry_client, "_DOCUMENT_SECONDS", 0.2)
    async with false_registry() as registry:
        registry.answers[MANIFESTS] = handler
        assert "does not answer in time" in (await puller.error(registry)).problem.message


# --- authentication ---------------------------------------------------------------------------------------------------


def _with_tokens(registry: FalseRegistry, realm: str, token: Any = "good") -> None:
    """Ask for a token of this server before an image is shown."""
    registry.put_image()
    good = dict(registry.files)

    async def guarded(request: Request) -> Answer:
        if request.headers.get("authorization") == "Bearer good":
            return good[request.path]
        return Answer(status=401, headers={"WWW-Authenticate": f'Bearer realm="{realm}",service="the service"'})

    async def tokens(_request: Request) -> Answer:
        return Answer(json.dumps({"token": token}).encode())

    registry.answers = {**dict.fromkeys(good, guarded), "/token": tokens}


@pytest.mark.parametrize(
    ("entry", "sent"),
    [
        pytest.param(None, None, id="anonymous"),
        pytest.param({"auth": _auth("me", "s3cret")}, f"Basic {_auth('me', 's3cret')}", id="password"),
    ],
)
@async_test
async def test_token_authentication(entry: dict[str, str] | None, sent: str | None, puller: Puller) -> None:
    async with false_registry() as registry:
        _with_tokens(registry, f"http://{registry.host}/token")
        if entry:
            puller.write_login(registry.host, **entry)
        await puller.pull(registry)
        [asked] = [request for request in registry.requests if request.path.startswith("/token")]
        assert asked.path == "/token?service=the+service&scope=repository:box:pull"
        assert asked.headers.get("authorization") == sent


@async_test
async def test_identity_token(puller: Puller) -> None:
    async with false_registry() as registry:
        _with_tokens(registry, f"http://{registry.host}/token")
        puller.write_login(registry.host, identitytoken="refresh-me")
        await puller.pull(registry)
        [asked] = [request for request in registry.requests if request.path == "/token"]
        assert asked.method == "POST"
        assert b"grant_type=refresh_token" in asked.body
        assert b"refresh_token=refresh-me" in asked.body


@async_test
async def test_registry_token(puller: Puller) -> None:
    async with false_registry() as registry:
        _with_tokens(registry, f"http://{registry.host}/token")
        puller.write_login(registry.host, registrytoken="good")
        await puller.pull(registry)
        assert not any(request.path.startswith("/token") for request in registry.requests)


@pytest.mark.parametrize(
    ("realm", "token", "message"),
    [
        pytest.param("http://example.com/token", "good", "names for tokens an address that is not https", id="http"),
        pytest.param("", "good", "an address that is not https", id="no realm"),
        pytest.param("http://HOST/token", "a\r\nX: y", "without one", id="header in a token"),
        pytest.param("http://HOST/token", "", "without one", id="empty token"),
        pytest.param("http://HOST/token", 7, "without one", id="number"),
        pytest.param("http://HOST/token", "x" * (2 << 20), "answers with more than 1048576 bytes", id="endless token"),
        pytest.param("http://HOST/nowhere", "good", "answers with 404 to the request for a token", id="not found"),
    ],
)
@async_test
async def test_bad_token_servers(realm: str, token: Any, message: str, puller: Puller) -> None:
    async with false_registry() as registry:
        _with_tokens(registry, realm.replace("HOST", registry.host), token)
        puller.write_login(registry.host, auth=_auth("me", "s3cret"))
        error = await puller.error(registry)
        assert message in error.problem.message
        assert error.exit_code == 1


@async_test
async def test_a_refused_login_names_its_file_and_no_secret(puller: Puller) -> None:
    async with false_registry() as registry:
        _with_tokens(registry, f"http://{registry.host}/token")
        registry.put("/token", Answer(b"s3cret is wrong", 401))
        puller.write_login(registry.host, auth=_auth("me", "s3cret"))
        error = await puller.error(registry)
        assert f"refuses the login of {puller.directory}/.docker/config.json" in error.problem.message
        assert error.exit_code == 2
        assert "s3cret" not in error.problem.text


@async_test
async def test_credentials_do_not_follow_a_redirect(puller: Puller) -> None:
    """Neither of the layers, nor of the token; the other host gets the request without them."""
    async with false_registry() as registry, false_registry() as other:
        registry.put_image()
        good = dict(registry.files)
        login = f"Basic {_auth('me', 's3cret')}"

        async def guarded(request: Request) -> Answer:
            if request.headers.get("authorization") != login:
                return Answer(status=401, headers={"WWW-Authenticate": "Basic realm=x"})
            if request.path == BLOB:
                return Answer(status=307, headers={"Location": f"http://{other.host}/layer?signature=a%2Fb%3D"})
            return good[request.path]

        registry.answers = dict.fromkeys(good, guarded)
        other.put("/layer", Answer(LAYER))
        puller.write_login(registry.host, auth=_auth("me", "s3cret"))
        await puller.pull(registry)
        [redirected] = other.requests
        assert "authorization" not in redirected.headers
        # A signed address stays as it is.
        assert redirected.path == "/layer?signature=a%2Fb%3D"


@async_test
async def test_another_host_cannot_ask_for_the_login(puller: Puller) -> None:
    async with false_registry() as registry, false_registry() as other:
        registry.put_image()
        registry.put(BLOB, Answer(status=307, headers={"Location": f"http://{other.host}/layer"}))
        other.put("/layer", Answer(status=401, headers={"WWW-Authenticate": "Basic realm=x"}))
        puller.write_login(registry.host, auth=_auth("me", "s3cret"))
        assert (await puller.error(registry)).exit_code == 2
        assert all("authorization" not in request.headers for request in (*registry.requests, *other.requests))


@async_test
async def test_a_token_is_renewed_when_it_has_expired(puller: Puller) -> None:
    async with false_registry() as registry:
        _with_tokens(registry, f"http://{registry.host}/token")
        good, expired = registry.answers[BLOB], [True]

        async def guarded(request: Request) -> Any:
            if expired:
                expired.clear()
                return await good(Request(request.method, request.path, {}))
            return await good(request)

        registry.answers[BLOB] = guarded
        await puller.pull(registry)
        assert sum(request.path.startswith("/token") for request in registry.requests) == 2


# --- platforms --------------------------------------------------------------------------------------------------------


@async_test
async def test_platforms(puller: Puller) -> None:
    async with false_registry() as registry:
        body = json.dumps(registry.put_image()).encode()
        registry.put_manifest(body, version=digest(body))
        entries = [
            {"digest": digest(b"other"), "platform": {"os": "linux", "architecture": "s390x"}},
            {"digest": digest(b"attestation"), "platform": {"os": "unknown", "architecture": "unknown"}},
            {"digest": digest(body), "platform": PLATFORM},
        ]
        registry.put_manifest(json.dumps({"mediaType": INDEX, "manifests": entries}).encode(), {}, version="multi")
        error = await puller.error(registry, "box:multi", "linux/riscv64")
        here = PLATFORM["architecture"]
        assert error.problem.message == "does not exist for linux/riscv64"
        assert error.hint == f"it exists for linux/{here}, linux/s390x; choose with --platform"
        # Without an index, the configuration says what it is for, whether or not the image is here.
        assert (await puller.error(registry, "box", "riscv64")).hint == f"it exists for linux/{here}"
        assert (await puller.pull(registry, "box:multi")).digest == digest(CONFIG)
        with pytest.raises(ImageError, match="does not exist for linux/riscv64"):
            await puller.pull(registry, "box", "riscv64")
        assert (await puller.pull(registry, "box", f"linux/{here}")).digest == digest(CONFIG)


@async_test
async def test_the_disk_is_too_small(puller: Puller) -> None:
    async with false_registry() as registry:
        registry.put_image(layers=[{"digest": digest(LAYER), "size": 1 << 40}])
        error = await puller.error(registry)
        assert "has 1 TiB to download, and the disk has" in error.problem.message
        assert error.exit_code == 2
        assert not any(request.path == BLOB for request in registry.requests)


@async_test
async def test_one_process_at_a_time_pulls_an_image(puller: Puller) -> None:
    async with false_registry() as registry:
        registry.put_image()
        other = asyncio.to_thread(asyncio.run, puller.pull(registry))
        first, second = await asyncio.gather(puller.pull(registry), other)
        assert first == second

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.http1 import Headers
from pumice.engines.kubernetes.api.resources import PODS
from pumice.engines.kubernetes.auth import credentials as credentials_module
from pumice.engines.kubernetes.auth.credentials import Credentials, StaticCredentials, TokenFile, bearer
from tests.unit.engines.kubernetes.played_api import Handler, client_of, good, play, played, refusing


class Guard:
    """Accepts one token; records the Authorization headers."""

    def __init__(self, right: str) -> None:
        self.right = right
        self.shown: list[str | None] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.shown.append(request.headers.get("Authorization"))
        letting: Handler = good if self.shown[-1] == f"Bearer {self.right}" else refusing(401, "Unauthorized")
        return await letting(request)


@played
async def test_a_static_token_is_sent_and_401_is_final() -> None:
    guard = Guard("a")
    async with client_of(guard, credentials=StaticCredentials(bearer("a", {"Impersonate-User": "jane"}))) as client:
        await client.get(PODS, "n", "p")
        guard.right = "b"
        with pytest.raises(ApiError) as caught:
            await client.get(PODS, "n", "p", attempts=None)
        assert caught.value.status == 401
    assert guard.shown == ["Bearer a"] * 2


@played
async def test_anonymous_requests_have_no_authorization_header() -> None:
    guard = Guard("a")
    async with client_of(guard) as client:
        with pytest.raises(ApiError):
            await client.get(PODS, "n", "p")
    assert guard.shown == [None]


@played
async def test_a_token_file_is_read_again_after_401(tmp_path: Path) -> None:
    guard, file = Guard("a"), tmp_path / "token"
    file.write_text("a\n")
    async with client_of(guard, credentials=TokenFile(file)) as client:
        await client.get(PODS, "n", "p")
        guard.right = "b"
        file.write_text("b\n")
        await client.get(PODS, "n", "p")
        await client.get(PODS, "n", "p")
    assert guard.shown == ["Bearer a", "Bearer a", "Bearer b", "Bearer b"]


@played
async def test_a_watch_sends_the_new_token_too(tmp_path: Path) -> None:
    guard, file = Guard("b"), tmp_path / "token"
    file.write_text("a")
    async with client_of(guard, credentials=TokenFile(file)) as client:
        with pytest.raises(ApiError) as caught:
            await anext(client.watch(PODS, "n", resource_version="0"))
        assert caught.value.status == 401
        file.write_text("b")
        # The accepted request returns a pod without a line break, which is no event.
        assert [change async for change in client.watch(PODS, "n", resource_version="0")] == []
    assert guard.shown == ["Bearer a", "Bearer a", "Bearer b"]


@played
async def test_a_token_file_is_read_again_when_it_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard, file = Guard("a"), tmp_path / "token"
    file.write_text("a")
    async with client_of(guard, credentials=TokenFile(file)) as client:
        await client.get(PODS, "n", "p")
        guard.right = "b"
        # As the kubelet does it: rename a new file over the old one.
        (tmp_path / "new").write_text("b")
        (tmp_path / "new").replace(file)
        monkeypatch.setattr(credentials_module, "_FILE_LIFE", 0.0)
        await client.get(PODS, "n", "p")
    assert guard.shown == ["Bearer a", "Bearer b"]


@played
async def test_an_unchanged_token_is_not_sent_again_after_401(tmp_path: Path) -> None:
    guard, file = Guard("b"), tmp_path / "token"
    file.write_text("a")
    async with client_of(guard, credentials=TokenFile(file)) as client:
        with pytest.raises(ApiError):
            await client.get(PODS, "n", "p")
    assert guard.shown == ["Bearer a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "cannot read the token file .*token: .*No such file", id="absent"),
        pytest.param(b" \n", "the token file .*token is empty", id="empty"),
        pytest.param(b"\xff", "cannot read the token file", id="no text"),
    ],
)
@played
async def test_an_unusable_token_file(content: bytes | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(UnreachableError, match=message):
        async with client_of(good, credentials=TokenFile(file)) as client:
            await client.get(PODS, "n", "p")


@played
async def test_the_last_token_is_kept_while_the_file_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, file = Guard("a"), tmp_path / "token"
    file.write_text("a")
    monkeypatch.setattr(credentials_module, "_FILE_LIFE", 0.0)
    async with client_of(guard, credentials=TokenFile(file)) as client:
        await client.get(PODS, "n", "p")
        file.unlink()
        await client.get(PODS, "n", "p")
        file.write_text("")
        await client.get(PODS, "n", "p")
    assert guard.shown == ["Bearer a"] * 3


def test_headers_keep_their_identity_while_nothing_changes(tmp_path: Path) -> None:
    """The transport encodes headers once per object."""
    file = tmp_path / "token"
    file.write_text("a")
    known: Credentials = TokenFile(file)

    async def twice() -> tuple[Headers, Headers]:
        return await known.renew(), await known.renew()

    first, second = play(twice())
    assert first is second
    assert known.current() is first

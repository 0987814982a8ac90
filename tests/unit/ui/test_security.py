from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from pumice.ui.security import Gate, Rate, connection_is_allowed

PEER = ("127.0.0.1", 40000)
SERVER = ("127.0.0.1", 8080)  # 0100007F:1F90
HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LISTENS = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1\n"
CLIENT = "   1: 0100007F:9C40 0100007F:1F90 {state} 00000000:00000000 00:00000000 00000000  {uid}        0 2 1\n"


@pytest.mark.parametrize(
    ("rows", "allowed"),
    [
        (LISTENS + CLIENT.format(state="01", uid=1000), True),
        (LISTENS + CLIENT.format(state="01", uid=0), True),  # root can do everything anyway
        (LISTENS + CLIENT.format(state="01", uid=1001), False),
        (LISTENS + CLIENT.format(state="06", uid=0), False),  # closed: the kernel no longer says whose it was
        (LISTENS, False),  # gone already
        (CLIENT.format(state="01", uid=1001), True),  # the table of another network: it says nothing
        ("", True),
        ("nonsense\n", True),
    ],
)
def test_the_owner_of_a_connection_is_read_from_the_kernel(tmp_path: Path, rows: str, allowed: bool) -> None:
    table = tmp_path / "tcp"
    table.write_text(HEADER + rows)
    assert connection_is_allowed(("127.0.0.1", 40000), SERVER, (table, tmp_path / "none"), 1000) is allowed


def test_tokens_differ_and_are_long() -> None:
    first, second = Gate(port=1), Gate(port=1)
    assert first.address.startswith("http://127.0.0.1:1/open?token=")
    assert first.address != second.address
    assert len({first.form_token, second.form_token, first.address.partition("=")[2]}) == 3
    assert len(first.form_token) >= 43  # 256 bits


def test_too_many_requests_are_refused_until_time_passes() -> None:
    now = 100.0
    rate = Rate(lambda: now, per_second=10, burst=5)
    assert [rate() for _ in range(7)] == [True] * 5 + [False] * 2
    now += 0.15
    assert [rate(), rate()] == [True, False]
    now += 1000
    assert sum(rate() for _ in range(100)) == 5


@pytest.mark.parametrize(
    ("peer", "changed"),
    [
        pytest.param(None, {}, id="a process of another user, even with the cookie"),
        pytest.param(PEER, {"Host": "evil.example"}, id="another name of this host"),
        pytest.param(PEER, {"Cookie": "pumice=guess"}, id="a program without the cookie"),
        pytest.param(PEER, {"Sec-Fetch-Site": "cross-site"}, id="another site in the browser of the owner"),
    ],
)
def test_a_flood_of_refused_requests_does_not_use_up_the_rate_of_the_owner(
    peer: tuple[str, int] | None, changed: Mapping[str, str]
) -> None:
    gate = Gate(port=1, rate=Rate(lambda: 0.0, per_second=1, burst=3, _left=3))
    opened = asyncio.run(_answer(gate, PEER, gate.address.removeprefix("http://127.0.0.1:1")))
    own = {"Cookie": opened.cookies["pumice"].OutputString().partition(";")[0]}
    for _ in range(10):
        assert asyncio.run(_answer(gate, peer, "/", {**own, **changed})).status == 403
    assert [asyncio.run(_answer(gate, PEER, "/", own)).status for _ in range(4)] == [200, 200, 200, 429]


async def _answer(
    gate: Gate, peer: tuple[str, int] | None, target: str, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """Return what the page answers. A connection without a peer is refused like one of another user."""
    transport = Mock()
    transport.get_extra_info = {"peername": peer, "sockname": ("127.0.0.1", gate.port)}.get
    sent = {"Host": gate.hosts[0], **(headers or {})}
    request = make_mocked_request("GET", target, sent, transport=transport)

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response()

    return await gate.middleware(request, handler)

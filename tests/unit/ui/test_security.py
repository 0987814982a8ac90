from __future__ import annotations

from pathlib import Path

import pytest

from pumice.ui.security import Gate, Rate, connection_is_allowed

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

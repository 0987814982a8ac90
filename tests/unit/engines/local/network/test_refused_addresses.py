"""Addresses that pods reach only with `--network all`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.network import proxy
from pumice.engines.local.network.proxy import is_loopback, outside, own_addresses, refused_networks

ROUTES = """Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 127.0.0.1
        /32 host LOCAL
     +-- 192.0.2.0/24 2 0 2
        |-- 192.0.2.5
           /32 host LOCAL
        |-- 192.0.2.255
           /32 link BROADCAST
"""


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fib_trie").write_text(ROUTES)
    (tmp_path / "if_inet6").write_text("20010db8000000000000000000000005 02 40 00 80 eth0\n")
    found = own_addresses(tmp_path / "fib_trie", tmp_path / "if_inet6")
    monkeypatch.setattr(proxy, "own_addresses", lambda: found)


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        pytest.param("192.0.2.7", False, id="another machine"),
        pytest.param("2001:db8::7", False, id="another machine, IPv6"),
        pytest.param("10.0.0.1", False, id="the local network"),
        pytest.param("127.0.0.1", True, id="loopback"),
        pytest.param("0.0.0.0", True, id="unspecified"),
        pytest.param("::1", True, id="loopback, IPv6"),
        pytest.param("169.254.169.254", True, id="metadata"),
        pytest.param("::ffff:169.254.169.254", True, id="metadata, mapped"),
        pytest.param("64:ff9b::a9fe:a9fe", True, id="metadata, through NAT64"),
        pytest.param("fd00:ec2::254", True, id="metadata of AWS, IPv6"),
        pytest.param("100.100.100.200", True, id="metadata of Alibaba"),
        pytest.param("fe80::1%eth0", True, id="link-local, IPv6"),
        pytest.param("192.0.2.5", True, id="own address"),
        pytest.param("2001:db8::5", True, id="own address, IPv6"),
    ],
)
def test_is_refused(address: str, *, refused: bool) -> None:
    assert outside(address) != refused


def test_refused_networks() -> None:
    assert refused_networks()[0] == "169.254.0.0/16"
    assert refused_networks()[-1] == "192.0.2.5/32"
    assert (is_loopback("127.1.2.3"), is_loopback("169.254.169.254")) == (True, False)


def test_a_system_without_these_files(tmp_path: Path) -> None:
    assert own_addresses(tmp_path / "none", tmp_path / "none") == set()

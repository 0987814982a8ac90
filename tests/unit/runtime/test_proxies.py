from __future__ import annotations

import pytest

from pumice.runtime.proxies import is_loopback, proxy_for

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("server", "environment", "expected"),
    [
        pytest.param("https://api.example:6443", {"https_proxy": PROXY}, PROXY, id="lower case"),
        pytest.param("https://api.example:6443", {"HTTPS_PROXY": PROXY}, PROXY, id="upper case"),
        pytest.param("http://api.example", {"HTTPS_PROXY": PROXY, "http_proxy": PROXY}, None, id="without TLS"),
        pytest.param("https://api.example", {"http_proxy": PROXY}, None, id="http_proxy"),
        pytest.param("https://api.example", {"https_proxy": "proxy.example:3128"}, PROXY, id="without scheme"),
        pytest.param("https://api.example", {}, None, id="none set"),
        pytest.param("https://127.0.0.1:6443", {"https_proxy": PROXY}, None, id="loopback"),
        pytest.param("https://[::1]:6443", {"https_proxy": PROXY}, None, id="loopback of IPv6"),
        pytest.param("https://localhost:6443", {"https_proxy": PROXY}, None, id="localhost"),
        pytest.param("https://10.96.0.1:443", {"https_proxy": PROXY, "no_proxy": "10.0.0.0/8"}, None, id="network"),
        pytest.param("https://11.96.0.1:443", {"https_proxy": PROXY, "no_proxy": "10.0.0.0/8"}, PROXY, id="else"),
        pytest.param("https://[fd00::1]", {"https_proxy": PROXY, "no_proxy": "fd00::/8"}, None, id="IPv6 network"),
        pytest.param("https://[fd00::1]", {"https_proxy": PROXY, "no_proxy": "10.0.0.0/8"}, PROXY, id="other family"),
        pytest.param("https://10.0.0.1", {"https_proxy": PROXY, "NO_PROXY": "a, 10.0.0.1"}, None, id="address"),
        pytest.param("https://a.corp.example", {"https_proxy": PROXY, "no_proxy": ".corp.example"}, None, id="domain"),
        pytest.param("https://corp.example", {"https_proxy": PROXY, "no_proxy": "corp.example"}, None, id="name"),
        pytest.param("https://A.Corp.example", {"https_proxy": PROXY, "no_proxy": "CORP.EXAMPLE"}, None, id="case"),
        pytest.param("https://notcorp.example", {"https_proxy": PROXY, "no_proxy": "corp.example"}, PROXY, id="part"),
        pytest.param("https://a.b", {"https_proxy": PROXY, "no_proxy": "*.b"}, None, id="star"),
        pytest.param("https://a.b", {"https_proxy": PROXY, "no_proxy": "*"}, None, id="all"),
        pytest.param("https://a.b:6443", {"https_proxy": PROXY, "no_proxy": "a.b:6443"}, None, id="port"),
        pytest.param("https://a.b:6443", {"https_proxy": PROXY, "no_proxy": "a.b:443"}, PROXY, id="other port"),
    ],
)
def test_proxy_for(server: str, environment: dict[str, str], expected: str | None) -> None:
    assert proxy_for(server, environment) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.5", True), ("::1", True), ("x.localhost", True), ("10.0.0.1", False), ("example.org", False)],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected

from __future__ import annotations

from pumice.engines.local.network.addresses import interface_env, loopback_interface, proxy_env


def test_interfaces() -> None:
    assert interface_env() == {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "eth0"}
    assert set(interface_env(loopback_interface("linux")).values()) == {"lo"}
    assert set(interface_env(loopback_interface("darwin")).values()) == {"lo0"}


def test_traffic_within_the_job_uses_no_proxy() -> None:
    env = proxy_env("http://10.77.0.1:3128", "10.77.0.0/16", [".train", "train-worker-0"])
    names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    assert {env[name] for name in names} == {"http://10.77.0.1:3128"}
    assert env["no_proxy"] == env["NO_PROXY"]
    assert env["no_proxy"] == "localhost,127.0.0.1,::1,10.77.0.0/16,.svc,.cluster.local,.train,train-worker-0"


def test_a_long_list_is_truncated() -> None:
    inside = proxy_env("p", "10.77.0.0/16", (f"some-worker-{number}" for number in range(10_000)))["no_proxy"]
    assert 31_000 < len(inside) <= 32_000
    assert not inside.endswith(",")

from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.container_spec.etc_files import (
    NamedPod,
    alias_lines,
    hosts_text,
    name_files,
    names_by_address,
    pod_hostname,
    resolv_conf,
)
from pumice.model.job import Manifest

LABELS = {"job": "train"}
HEADLESS = {"metadata": {"name": "train"}, "spec": {"clusterIP": "None", "selector": LABELS}}
HEAD = {"metadata": {"name": "train-head-svc"}, "spec": {"selector": {"task": "head"}}}
PODS = [
    NamedPod("10.77.0.10", "train-head-0", "train", {**LABELS, "task": "head"}),
    NamedPod("10.77.0.11", "train-worker-0", "train", LABELS),
]


def lookup(text: str, name: str) -> list[str]:
    """The IPv4 addresses of a name, as glibc with `multi on` finds them."""
    lines = [line.split() for line in text.splitlines()]
    return [words[0] for words in lines if name in words[1:] and ":" not in words[0]]


def _hosts(pods: list[NamedPod], services: list[Manifest]) -> str:
    return hosts_text(names_by_address(pods, services, "lab"))


def a_pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train-worker-0", "namespace": "lab"}, "spec": spec}


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        pytest.param("train-worker-0", ["10.77.0.11"], id="short"),
        pytest.param("train-worker-0.train", ["10.77.0.11"], id="with subdomain"),
        pytest.param("train-worker-0.train.lab", ["10.77.0.11"], id="with namespace"),
        pytest.param("train-worker-0.train.lab.svc", ["10.77.0.11"], id="with svc"),
        pytest.param("train-worker-0.train.lab.svc.cluster.local", ["10.77.0.11"], id="full"),
        pytest.param("train", ["10.77.0.10", "10.77.0.11"], id="headless Service"),
        pytest.param("train.lab.svc.cluster.local", ["10.77.0.10", "10.77.0.11"], id="full headless Service"),
        pytest.param("train-head-svc", ["10.77.0.10"], id="Service of one pod"),
        pytest.param("train-head-svc.lab.svc.cluster.local", ["10.77.0.10"], id="full Service of one pod"),
        pytest.param("localhost", ["127.0.0.1"], id="localhost"),
        pytest.param("other", [], id="unknown"),
    ],
)
def test_names_resolve(name: str, addresses: list[str]) -> None:
    assert lookup(_hosts(PODS, [HEADLESS, HEAD]), name) == addresses


def test_reverse_lookups_return_the_pod() -> None:
    lines = [line.split() for line in _hosts(PODS, [HEADLESS, HEAD]).splitlines()]
    first = {words[0]: words[1] for words in lines}
    assert first["10.77.0.10"] == first["::ffff:10.77.0.10"] == "train-head-0.train.lab.svc.cluster.local"
    # One name only, so that the short names do not have two addresses.
    assert [len(words) for words in lines if words[0].startswith("::ffff:")] == [2, 2]


def test_no_name_of_a_pod_resolves_to_loopback() -> None:
    text = _hosts(PODS, [HEADLESS])
    assert "127.0.1.1" not in text
    assert [line for line in text.splitlines() if line.startswith("127.")] == ["127.0.0.1 localhost"]


def test_pods_without_a_subdomain_have_a_short_name() -> None:
    text = _hosts([NamedPod("10.77.0.10", "a")], [{"metadata": {"name": "s"}, "spec": {}}])
    assert text.splitlines()[-2:] == ["10.77.0.10 a", "::ffff:10.77.0.10 a"]


def test_pods_that_share_a_host_name() -> None:
    pods = [NamedPod("10.77.0.10", "fixed", "sub"), NamedPod("10.77.0.11", "fixed", "sub")]
    assert lookup(_hosts(pods, []), "fixed.sub") == ["10.77.0.10", "10.77.0.11"]


@pytest.mark.parametrize(
    ("spec", "hostname"),
    [
        pytest.param({}, "train-worker-0", id="the pod's name"),
        pytest.param({"hostname": "h"}, "h", id="hostname"),
        pytest.param({"hostname": "h", "hostnameOverride": "o.example"}, "o.example", id="override"),
        pytest.param(
            {"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": True}, "h.s.lab.svc.cluster.local", id="full"
        ),
        pytest.param({"hostname": "h", "setHostnameAsFQDN": True}, "h", id="no full name without a subdomain"),
        pytest.param({"hostname": "h" * 50, "subdomain": "s", "setHostnameAsFQDN": True}, "h" * 50, id="too long"),
    ],
)
def test_pod_hostname(spec: dict[str, Any], hostname: str) -> None:
    assert pod_hostname(a_pod(**spec)) == hostname


def test_a_long_name_is_truncated() -> None:
    assert pod_hostname({"metadata": {"name": "x" * 62 + "-y"}}) == "x" * 62
    spec = {"subdomain": "s", "setHostnameAsFQDN": True}
    assert pod_hostname({"metadata": {"name": "a"}, "spec": spec}) == "a.s.default.svc.cluster.local"


def test_aliases() -> None:
    manifest = a_pod(hostAliases=[{"ip": "192.0.2.7", "hostnames": ["a", "b"]}, {"ip": "192.0.2.8"}])
    assert alias_lines(manifest) == "\n# hostAliases of the pod\n192.0.2.7 a b\n192.0.2.8 \n"
    assert alias_lines(a_pod()) == ""


@pytest.mark.parametrize(
    ("spec", "servers", "text"),
    [
        pytest.param({}, [], "", id="no outbound network"),
        pytest.param({}, ["10.0.2.3"], "nameserver 10.0.2.3\n", id="outbound network"),
        pytest.param(
            {"dnsConfig": {"nameservers": ["192.0.2.1"]}}, [], "", id="the pod's own server cannot be reached"
        ),
        pytest.param(
            {
                "dnsConfig": {
                    "nameservers": ["192.0.2.1", "10.0.2.3"],
                    "searches": ["a", "b"],
                    "options": [{"name": "ndots", "value": "2"}, {"name": "rotate"}],
                }
            },
            ["10.0.2.3"],
            "nameserver 10.0.2.3\nnameserver 192.0.2.1\nsearch a b\noptions ndots:2 rotate\n",
            id="both",
        ),
        pytest.param(
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"]}},
            ["10.0.2.3"],
            "nameserver 192.0.2.1\n",
            id="policy None",
        ),
    ],
)
def test_resolv_conf(spec: dict[str, Any], servers: list[str], text: str) -> None:
    assert resolv_conf(a_pod(**spec), servers) == text


def test_files() -> None:
    files = {file.path: file.data for file in name_files(b"hosts\n", a_pod(hostname="h"), ["1.2.3.4"])}
    assert files == {
        "/etc/hosts": b"hosts\n",
        "/etc/hostname": b"h\n",
        "/etc/resolv.conf": b"nameserver 1.2.3.4\n",
        "/etc/host.conf": b"multi on\n",
    }

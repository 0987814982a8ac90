from __future__ import annotations

import pytest

from tests.unit.admission.podtemplate.samples import pod, rules

LABEL = "must be lower-case letters, digits or '-', and begin and end with a letter or digit"
SUBDOMAIN = "must be lower-case letters, digits, '-' or '.', and every part must begin and end with a letter or digit"
SEARCH = "must be lower-case letters, digits, '-', '_' or '.', and every part must end with a letter or digit"
PLAIN = "must be a plain IP address: no IPv4-mapped IPv6 address, and no zone"
ADDRESS = "must be an IP address such as 10.9.8.7 or 2001:db8::1"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(pod(hostname="h", subdomain="s", dnsPolicy="Default"), id="names"),
        pytest.param(pod(hostnameOverride="a.b"), id="another hostname"),
        pytest.param(
            pod(dnsPolicy="None", dnsConfig={"nameservers": ["10.0.0.1", "::1"], "searches": [".", "_x.y."]}),
            id="resolver",
        ),
        pytest.param(pod(dnsConfig={"options": [{"name": "ndots", "value": "2"}]}), id="resolver options"),
        pytest.param(pod(hostAliases=[{"ip": "127.0.0.1", "hostnames": ["a.b"]}]), id="hosts"),
        pytest.param(
            pod(hostUsers=False, hostNetwork=True), id="own users in the node's network: some clusters take it"
        ),
        pytest.param(pod(hostUsers=True, hostPID=True, hostIPC=True), id="all of the node"),
        pytest.param(pod(shareProcessNamespace=True), id="one process namespace"),
    ],
)
def test_valid(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(pod(hostname="a.b"), [f"hostname: {LABEL}"], id="hostname"),
        pytest.param(pod(subdomain="A"), [f"subdomain: {LABEL}"], id="subdomain"),
        pytest.param(
            pod(hostnameOverride="a", setHostnameAsFQDN=True, hostNetwork=True),
            [
                "hostnameOverride: cannot be set when setHostnameAsFQDN is true",
                "hostnameOverride: cannot be set when hostNetwork is true",
            ],
            id="another hostname against the rest",
        ),
        pytest.param(pod(hostnameOverride=""), [f"hostnameOverride: {SUBDOMAIN}"], id="empty hostname"),
        pytest.param(
            pod(hostnameOverride="a" * 65),
            ["hostnameOverride: must be at most 64 characters, this has 65"],
            id="long hostname",
        ),
        pytest.param(
            pod(dnsPolicy="none"),
            ["dnsPolicy: must be ClusterFirst, ClusterFirstWithHostNet, Default or None"],
            id="policy",
        ),
        pytest.param(
            pod(dnsPolicy="None"),
            ["dnsConfig.nameservers: must have at least one address, because dnsPolicy is None"],
            id="no resolver at all",
        ),
        pytest.param(
            pod(dnsConfig={"nameservers": ["1.1.1.1"] * 3 + ["x"]}),
            ["dnsConfig.nameservers: must be at most 3 addresses", f"dnsConfig.nameservers[3]: {ADDRESS}"],
            id="name servers",
        ),
        pytest.param(
            pod(dnsConfig={"nameservers": ["010.0.0.1", "::ffff:1.2.3.4", "fe80::1%eth0"]}),
            [
                f"dnsConfig.nameservers[0]: {ADDRESS}",
                f"dnsConfig.nameservers[1]: {PLAIN}",
                f"dnsConfig.nameservers[2]: {PLAIN}",
            ],
            id="odd addresses",
        ),
        pytest.param(
            pod(dnsConfig={"searches": ["a"] * 32 + ["_"]}),
            ["dnsConfig.searches: must be at most 32 domains", f"dnsConfig.searches[32]: {SEARCH}"],
            id="searches",
        ),
        pytest.param(
            pod(dnsConfig={"searches": ["a" * 250] * 9}),
            ["dnsConfig.searches: must be at most 2048 characters together"],
            id="long searches",
        ),
        pytest.param(pod(dnsConfig={"options": [{}]}), ["dnsConfig.options[0].name: is required"], id="options"),
        pytest.param(
            pod(hostAliases=[{"hostnames": ["A"]}, {"ip": "1.2.3"}]),
            [
                "hostAliases[0].ip: is required",
                f"hostAliases[0].hostnames[0]: {SUBDOMAIN}",
                f"hostAliases[1].ip: {ADDRESS}",
            ],
            id="hosts",
        ),
        pytest.param(
            pod(shareProcessNamespace=True, hostPID=True),
            ["shareProcessNamespace: cannot be true together with hostPID"],
            id="two process namespaces",
        ),
        pytest.param(
            pod(hostUsers=False, hostPID=True, hostIPC=True),
            ["hostPID: cannot be true when hostUsers is false", "hostIPC: cannot be true when hostUsers is false"],
            id="own users, but the node's processes",
        ),
    ],
)
def test_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.{text}" for text in expected]

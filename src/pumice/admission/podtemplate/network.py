"""The network of a pod: hostname, DNS, host aliases, and namespaces shared with the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.checks import ip_error, one_of, required, required_spelled, spelled
from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import Finding
from pumice.model.syntax import dns_label_error, dns_search_error, dns_subdomain_error, too_long

DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_MOST_NAMESERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_LONGEST_SEARCH_LIST: Final = 2048
_LONGEST_HOSTNAME: Final = 64


def check_network(spec: View) -> Iterator[Finding]:
    yield from spelled(spec, "hostname", dns_label_error)
    yield from spelled(spec, "subdomain", dns_label_error)
    yield from _check_hostname_override(spec)
    yield from _check_dns(spec)
    for alias in spec.children("hostAliases"):
        yield from required_spelled(alias, "ip", ip_error)
        for at, hostname in alias.texts("hostnames"):
            if error := dns_subdomain_error(hostname):
                yield Finding(at, error, hostname)
    if spec.flag("shareProcessNamespace") and spec.flag("hostPID"):
        yield spec.error("shareProcessNamespace", "cannot be true together with hostPID")
    # hostNetwork with hostUsers: false depends on a feature gate of the cluster.
    for key in ("hostPID", "hostIPC"):
        if spec.denies("hostUsers") and spec.flag(key):
            yield spec.error(key, "cannot be true when hostUsers is false")


def _check_hostname_override(spec: View) -> Iterator[Finding]:
    if not spec.has("hostnameOverride"):
        return
    for key in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.flag(key):
            yield spec.error("hostnameOverride", f"cannot be set when {key} is true")
    name = spec.text("hostnameOverride")
    if error := too_long(name, _LONGEST_HOSTNAME) or dns_subdomain_error(name):
        yield spec.error("hostnameOverride", error)


def _check_dns(spec: View) -> Iterator[Finding]:
    yield from one_of(spec, "dnsPolicy", DNS_POLICIES)
    config = spec.part("dnsConfig")
    if spec.text("dnsPolicy") == "None" and not config.get("nameservers"):
        yield config.missing("nameservers", "must have at least one address, because dnsPolicy is None")
    if config.size("nameservers") > _MOST_NAMESERVERS:
        yield config.missing("nameservers", f"must be at most {_MOST_NAMESERVERS} addresses")
    for at, address in config.texts("nameservers"):
        if error := ip_error(address):
            yield Finding(at, error, address)
    yield from _check_searches(config)
    for option in config.children("options"):
        yield from required(option, "name")


def _check_searches(config: View) -> Iterator[Finding]:
    searches = config.texts("searches")
    if len(searches) > _MOST_SEARCHES:
        yield config.missing("searches", f"must be at most {_MOST_SEARCHES} domains")
    if len(" ".join(domain for _, domain in searches)) > _LONGEST_SEARCH_LIST:
        yield config.missing("searches", f"must be at most {_LONGEST_SEARCH_LIST} characters together")
    for at, domain in searches:
        if error := dns_search_error(domain):
            yield Finding(at, error, domain)

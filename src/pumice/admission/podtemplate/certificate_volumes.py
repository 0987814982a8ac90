"""Certificates in projected volumes: bundles of trust anchors, and certificates issued to the pod itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.checks import file_path, required, required_one_of, user_id, within
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.selectors import check_selector
from pumice.model.findings import Finding
from pumice.model.syntax import LONGEST_SUBDOMAIN, dns_label_fault, dns_subdomain_fault, qualified_name_fault, too_long
from pumice.model.text import listed

_KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_SHORTEST: Final = 3600
_LONGEST: Final = 91 * 24 * 3600
_LONGEST_OF_KUBERNETES: Final = 24 * 3600
_SIGNER_RULE: Final = "must be a domain and a name, such as example.com/my-signer"


def check_trust_bundle(part: View) -> Iterator[Finding]:
    named, signed = part.has("name"), part.has("signerName")
    if named == signed:
        yield Finding(part.at, "must have exactly one of name and signerName")
    elif named:
        if fault := _bundle_fault(part.text("name")):
            yield part.fault("name", fault)
        if part.has("labelSelector"):
            yield part.missing("labelSelector", "cannot be set together with name")
    else:
        yield from _check_signer(part)
        yield from check_selector(part, "labelSelector")
    yield from file_path(part, "path")
    yield from user_id(part, "user")


def _bundle_fault(name: str) -> str:
    """A signer's bundle is named after it, as in `example.com:my-signer:anchors`; only the last part is its own."""
    return dns_subdomain_fault(name.rpartition(":")[2])


def check_certificate(part: View, paths: tuple[str, ...]) -> Iterator[Finding]:
    yield from _check_signer(part)
    yield from required_one_of(part, "keyType", _KEY_TYPES)
    own = part.text("signerName").partition("/")[0]
    of_kubernetes = own == "kubernetes.io" or own.endswith(".kubernetes.io")
    yield from within(part, "maxExpirationSeconds", _SHORTEST, _LONGEST_OF_KUBERNETES if of_kubernetes else _LONGEST)
    for at, name, _ in part.pairs("userAnnotations"):
        if "/" not in name or qualified_name_fault(name.lower()):
            yield Finding(at, "the key must have a domain before it, such as example.com/key", name)
    yield from user_id(part, "user")
    given = [key for key in paths if not part.is_blank(key)]
    if not given:
        yield Finding(part.at, f"must have at least one of {listed(paths)}")
    for key in given:
        yield from file_path(part, key)


def _check_signer(part: View) -> Iterator[Finding]:
    yield from required(part, "signerName")
    signer = part.text("signerName")
    if signer and (fault := _signer_fault(signer)):
        yield part.fault("signerName", fault)


def _signer_fault(signer: str) -> str:
    domain, _, name = signer.partition("/")
    labels = domain.split(".")
    well = (
        len(labels) > 1 and not any(map(dns_label_fault, labels)) and not any(map(dns_subdomain_fault, name.split(".")))
    )
    return too_long(domain, LONGEST_SUBDOMAIN) if well else _SIGNER_RULE

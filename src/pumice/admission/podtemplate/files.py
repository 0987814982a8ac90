"""Volumes of files: ConfigMaps, Secrets, the downward API, tokens and certificates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.checks import file_mode, file_path, required, required_one_of, user_id, within
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.env import FILE_FIELDS, check_field_ref, check_resource_ref
from pumice.admission.podtemplate.selectors import check_selector
from pumice.model.findings import Finding, Path
from pumice.model.syntax import LONGEST_SUBDOMAIN, dns_label_error, dns_subdomain_error, qualified_name_error, too_long
from pumice.model.text import listed

_PROJECTIONS: Final = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
)
_CERTIFICATE_PATHS: Final = ("credentialBundlePath", "keyPath", "certificateChainPath")
_SHORTEST_TOKEN: Final = 600
_LONGEST_TOKEN: Final = 2**32


def check_key_files(source: View, name_key: str) -> Iterator[Finding]:
    """Check a volume of a ConfigMap or Secret."""
    yield from required(source, name_key)
    yield from _check_defaults(source)
    yield from _check_items(source)


def check_downward_files(source: View) -> Iterator[Finding]:
    yield from _check_defaults(source)
    for item in source.children("items"):
        yield from _check_downward_file(item)


def check_projected(source: View) -> Iterator[Finding]:
    """Check a projected volume: several sources in one directory, no file from two of them."""
    yield from _check_defaults(source)
    paths: dict[str, Path] = {}
    for projection in source.children("sources"):
        given = [key for key in _PROJECTIONS if projection.has(key)]
        if len(given) > 1:
            yield Finding(
                projection.at, f"only one source may be given, not {' and '.join(given)}", hint="use two items"
            )
        for key in given:
            part = projection.child(key)
            if part is not None:
                yield from _check_projection(key, part)
                yield from _check_collisions(key, part, paths)


def _check_projection(kind: str, part: View) -> Iterator[Finding]:
    if kind in {"secret", "configMap"}:
        yield from required(part, "name")
        yield from _check_items(part)
    elif kind == "downwardAPI":
        for item in part.children("items"):
            yield from _check_downward_file(item)
    elif kind == "serviceAccountToken":
        yield from within(part, "expirationSeconds", _SHORTEST_TOKEN, _LONGEST_TOKEN)
        yield from file_path(part, "path")
        yield from user_id(part, "user")
    elif kind == "clusterTrustBundle":
        yield from _check_trust_bundle(part)
    else:
        yield from _check_certificate(part)


def _check_collisions(kind: str, part: View, seen: dict[str, Path]) -> Iterator[Finding]:
    paths = {"clusterTrustBundle": ("path",), "podCertificate": _CERTIFICATE_PATHS}.get(kind, ())
    files = [(part, key) for key in paths] + [(item, "path") for item in part.children("items")]
    for view, key in files:
        path = view.text(key)
        if path in seen:
            yield view.error(key, f"this path is already used at {seen[path]}")
        elif path:
            seen[path] = view.at / key


def _check_defaults(source: View) -> Iterator[Finding]:
    yield from file_mode(source, "defaultMode")
    yield from user_id(source, "defaultUser")


def _check_items(source: View) -> Iterator[Finding]:
    for item in source.children("items"):
        yield from required(item, "key")
        yield from _check_file(item)


def _check_file(item: View) -> Iterator[Finding]:
    yield from file_path(item, "path")
    yield from file_mode(item, "mode")
    yield from user_id(item, "user")


def _check_downward_file(item: View) -> Iterator[Finding]:
    yield from _check_file(item)
    field, resource = item.child("fieldRef"), item.child("resourceFieldRef")
    if not item.has("fieldRef") and not item.has("resourceFieldRef"):
        yield Finding(item.at, "must have one of fieldRef or resourceFieldRef")
    if item.has("fieldRef") and item.has("resourceFieldRef"):
        yield item.missing("resourceFieldRef", "cannot be set together with fieldRef")
    if field is not None:
        yield from check_field_ref(field, FILE_FIELDS)
    elif resource is not None:
        yield from check_resource_ref(resource, names_container=True)


_KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_SHORTEST: Final = 3600
_LONGEST: Final = 91 * 24 * 3600
_LONGEST_OF_KUBERNETES: Final = 24 * 3600
_SIGNER_RULE: Final = "must be a domain and a name, such as example.com/my-signer"


def _check_trust_bundle(part: View) -> Iterator[Finding]:
    named, signed = part.has("name"), part.has("signerName")
    if named == signed:
        yield Finding(part.at, "must have exactly one of name and signerName")
    elif named:
        # The parts before the last one name its signer, as in `example.com:my-signer:anchors`.
        if error := dns_subdomain_error(part.text("name").rpartition(":")[2]):
            yield part.error("name", error)
        if part.has("labelSelector"):
            yield part.missing("labelSelector", "cannot be set together with name")
    else:
        yield from _check_signer(part)
        yield from check_selector(part, "labelSelector")
    yield from file_path(part, "path")
    yield from user_id(part, "user")


def _check_certificate(part: View) -> Iterator[Finding]:
    yield from _check_signer(part)
    yield from required_one_of(part, "keyType", _KEY_TYPES)
    own = part.text("signerName").partition("/")[0]
    of_kubernetes = own == "kubernetes.io" or own.endswith(".kubernetes.io")
    yield from within(part, "maxExpirationSeconds", _SHORTEST, _LONGEST_OF_KUBERNETES if of_kubernetes else _LONGEST)
    for at, name, _ in part.pairs("userAnnotations"):
        if "/" not in name or qualified_name_error(name.lower()):
            yield Finding(at, "the key must have a domain before it, such as example.com/key", name)
    yield from user_id(part, "user")
    given = [key for key in _CERTIFICATE_PATHS if not part.is_blank(key)]
    if not given:
        yield Finding(part.at, f"must have at least one of {listed(_CERTIFICATE_PATHS)}")
    for key in given:
        yield from file_path(part, key)


def _check_signer(part: View) -> Iterator[Finding]:
    yield from required(part, "signerName")
    signer = part.text("signerName")
    domain, _, name = signer.partition("/")
    labels = domain.split(".")
    wrong = len(labels) == 1 or any(map(dns_label_error, labels)) or any(map(dns_subdomain_error, name.split(".")))
    if signer and (error := _SIGNER_RULE if wrong else too_long(domain, LONGEST_SUBDOMAIN)):
        yield part.error("signerName", error)

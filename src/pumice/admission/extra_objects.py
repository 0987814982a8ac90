"""Extra objects: ConfigMaps, Secrets and claims beside the Job in a file, checked as Kubernetes checks them.

A finding never shows a value of a Secret, not even one of the wrong type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from pumice.admission.plugins import MAX_OBJECT_BYTES
from pumice.admission.podtemplate import check_claim_spec
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.metadata import check_labels_and_annotations
from pumice.model.findings import ABSENT, METADATA, ROOT, SPEC, Finding, without_consequences
from pumice.model.shape import Schema, misfits
from pumice.model.syntax import config_key_error, dns_label_error, dns_subdomain_error

CLAIM: Final = "PersistentVolumeClaim"
EXTRA_KINDS: Final = ("ConfigMap", "Secret", CLAIM)
PLAIN: Final = ("data", "stringData")
_BINARY: Final = "binaryData"
# Other types have no required keys.
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def check_extra_object(document: Mapping[str, Any], kubernetes: Schema) -> list[Finding]:
    """Return the findings about a document whose kind is one of EXTRA_KINDS."""
    return without_consequences(_check(document, kubernetes))


def _check(document: Mapping[str, Any], kubernetes: Schema) -> Iterator[Finding]:
    kind, spec = document["kind"], document.get("spec")
    # `check_claim_spec` checks the shape of a claim's spec, too.
    plain = {key: value for key, value in document.items() if key != "spec" or not isinstance(spec, dict)}
    for finding in misfits(plain, kind, kubernetes, ROOT):
        yield _without_value(finding) if kind == "Secret" else finding
    yield from _check_metadata(document.get("metadata"))
    if kind == CLAIM and (spec is None or isinstance(spec, dict)):
        yield from check_claim_spec(spec or {}, SPEC, kubernetes)
    if kind != CLAIM:
        yield from check_config_data(document)


def _check_metadata(metadata: object) -> Iterator[Finding]:
    if not isinstance(metadata, dict):
        metadata = {} if metadata is None else {"name": "unreadable"}
    yield from check_labels_and_annotations(View(metadata, METADATA))
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not name:
        yield Finding(METADATA / "name", "is missing")
    elif isinstance(name, str) and (error := dns_subdomain_error(name)):
        yield Finding(METADATA / "name", error, name)
    if isinstance(namespace, str) and namespace and (error := dns_label_error(namespace)):
        yield Finding(METADATA / "namespace", error, namespace)


def _without_value(finding: Finding) -> Finding:
    if finding.path and finding.path[0] in PLAIN and finding.value is not ABSENT:
        return replace(finding, value=ABSENT, hint=finding.hint.partition(":")[0])
    return finding


def check_config_data(document: Mapping[str, Any]) -> Iterator[Finding]:
    view = View(document, ROOT)
    for field in (*PLAIN, _BINARY):
        for at, key, _ in view.pairs(field):
            if error := config_key_error(key):
                yield Finding(at, f"the key {error}")
    for at, key, _ in view.pairs(_BINARY):
        if key in view.part("data").value:
            yield Finding(at, "data already has this key", hint="keep one of them")
    sizes = _sizes(view)
    size = sum(sizes.values())
    if size > MAX_OBJECT_BYTES:
        message = f"holds {-(-size // 1024)} KiB; Kubernetes stores at most {MAX_OBJECT_BYTES // 1024}"
        yield Finding(ROOT, message, hint="put large files on a volume, or into the image")
    yield from _check_type(view.text("type"), sizes)


def _sizes(view: View) -> dict[str, int]:
    """Return the bytes of each value; base64 encodes three bytes as four characters."""
    encoded = _BINARY if view.text("kind") == "ConfigMap" else "data"
    sizes = {}
    for field in (*PLAIN, _BINARY):
        for _, key, value in view.pairs(field):
            text = value if isinstance(value, str) else ""
            decoded = len("".join(text.split()).rstrip("=")) * 3 // 4
            sizes[key] = decoded if field == encoded else len(text.encode(errors="surrogatepass"))
    return sizes


def _check_type(type_: str, keys: Collection[str]) -> Iterator[Finding]:
    for key in _NEEDED.get(type_, ()):
        if key not in keys:
            yield Finding(ROOT / "data" / key, f"is required in a Secret of type {type_}")
    if type_ == "kubernetes.io/basic-auth" and "username" not in keys and "password" not in keys:
        yield Finding(ROOT / "data", f"username or password is required in a Secret of type {type_}")

"""The data of a ConfigMap or Secret: valid and unique keys, the size, and the keys that its type requires."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from pumice.admission.plugins import MAX_OBJECT_BYTES
from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import ROOT, Finding
from pumice.model.syntax import config_key_error

PLAIN: Final = ("data", "stringData")
_BINARY: Final = "binaryData"
# Other types have no required keys.
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


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

"""Fetches the manifest of an image: of an index, the one for the wanted platform."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.sources import dict_or_empty
from pumice.engines.local.registry.blob_download import Blob
from pumice.engines.local.registry.image_reference import DIGEST, Platform, choose
from pumice.engines.local.registry.registry_client import RegistryClient, RegistryError

_INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_CONFIGS: Final = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")
_LARGEST_MANIFEST: Final = 4 << 20  # as for docker
_LARGEST_CONFIG: Final = 1 << 24
_LARGEST_LAYER: Final = 1 << 40
_MOST_LAYERS: Final = 1000
_DEEPEST_INDEX: Final = 4


class PulledManifest(Struct, frozen=True):
    body: bytes
    digest: str
    media_type: str
    config: Blob
    layers: tuple[Blob, ...]

    @property
    def size(self) -> int:
        return sum(blob.size for blob in self.blobs)

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """All blobs, each once: an image may have equal layers."""
        return tuple({blob.digest: blob for blob in (self.config, *self.layers)}.values())


async def fetch_manifest(client: RegistryClient, platform: Platform) -> PulledManifest:
    """Raises ImageError if the image does not exist, or not for this platform; RegistryError for a bad answer."""
    version = client.image.version
    for _ in range(_DEEPEST_INDEX):
        body, digest, document, media_type = await _fetch(client, version)
        if media_type in _MANIFESTS:
            return _manifest(body, digest, document, media_type)
        entries = document.get("manifests")
        offered = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        version = _digest(choose(offered, platform).get("digest"), "the index")
    raise RegistryError(f"{client.image.host} answers with an index within an index, too deep to be an image")


async def _fetch(client: RegistryClient, version: str) -> tuple[bytes, str, Mapping[str, Any], str]:
    host = client.image.host
    accept = ", ".join((*_INDEXES, *_MANIFESTS))
    body, headers = await client.document(f"manifests/{version}", accept, _LARGEST_MANIFEST)
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    wanted = version if ":" in version else headers.get("Docker-Content-Digest", "")
    if DIGEST.fullmatch(wanted) and wanted != digest:
        raise RegistryError(f"the manifest that {host} sends has the digest {digest}, not {wanted}; it is refused")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        kind = headers.get("Content-Type", "no content type")
        raise RegistryError(f"{host} answers with something that is not a manifest ({kind[:80]})")
    if document.get("schemaVersion") == 1:
        raise ImageError("has a manifest of version 1, which registries gave up in 2019", "push the image again")
    said = document.get("mediaType") or headers.get("Content-Type", "").partition(";")[0].strip()
    if said in (*_INDEXES, *_MANIFESTS):
        return body, digest, document, str(said)
    # Some registries do not say what they send.
    if isinstance(document.get("manifests"), list):
        return body, digest, document, _INDEXES[0]
    if isinstance(document.get("layers"), list) and isinstance(document.get("config"), dict):
        return body, digest, document, _MANIFESTS[0]
    raise RegistryError(f"{host} answers with something that is not a manifest ({str(said)[:80] or 'no content type'})")


def _manifest(body: bytes, digest: str, document: Mapping[str, Any], media_type: str) -> PulledManifest:
    config, layers = document.get("config"), document.get("layers")
    kind = dict_or_empty(config).get("mediaType")
    if isinstance(kind, str) and kind not in _CONFIGS:
        raise ImageError(f"is not a container image but {kind[:80]}")
    if not isinstance(layers, list) or len(layers) > _MOST_LAYERS:
        raise RegistryError("the manifest has no list of layers, or too many of them")
    if sys.version_info < (3, 14) and any("zstd" in str(dict_or_empty(layer).get("mediaType")) for layer in layers):
        hint = "push the image with gzip, or run Pumice with Python 3.14"
        raise ImageError("is compressed with zstd, which only Python 3.14 and later can read", hint)
    return PulledManifest(
        body,
        digest,
        media_type,
        _blob(config, "the configuration", _LARGEST_CONFIG),
        tuple(
            _blob(layer, f"layer {number} of {len(layers)}", _LARGEST_LAYER)
            for number, layer in enumerate(layers, start=1)
        ),
    )


def _blob(document: object, what: str, most: int) -> Blob:
    found = dict_or_empty(document)
    size = found.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= most:
        raise RegistryError(f"{what}: {str(size)[:40]} is not a valid size")
    return Blob(_digest(found.get("digest"), what), size, what)


def _digest(found: object, what: str) -> str:
    if not isinstance(found, str) or not DIGEST.fullmatch(found):
        raise RegistryError(f"{what}: {found[:80] if isinstance(found, str) else 'nothing'} is not a sha256 digest")
    return found

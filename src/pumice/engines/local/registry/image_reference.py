"""A name of an image as a registry understands it: host, repository, and tag or digest."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.names import familiar, normalised

DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
# The API of Docker Hub is not at the host that its names have.
_API_HOSTS: Final = {"docker.io": "registry-1.docker.io"}


class ImageReference(Struct, frozen=True):
    name: str  # full
    host: str
    repository: str
    version: str  # tag or digest

    @property
    def api_host(self) -> str:
        return _API_HOSTS.get(self.host, self.host)

    @property
    def digest(self) -> str:
        """The digest of the manifest; empty if the name has a tag."""
        return self.version if ":" in self.version else ""

    def __str__(self) -> str:
        return familiar(self.name)


def reference(name: str) -> ImageReference:
    """Raises ImageError for a name that is not valid."""
    full = normalised(name)
    host, _, rest = full.partition("/")
    repository, at, version = rest.partition("@")
    if not at:
        repository, _, version = rest.rpartition(":")
    elif not DIGEST.fullmatch(version):
        raise ImageError(f"{name}: is not a valid image name: the digest must be sha256: and 64 hexadecimal digits")
    return ImageReference(full, host, repository, version)

"""A name of an image as a registry understands it: host, repository, and tag or digest."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.names import familiar, normalised
from pumice.engines.local.images.sources import this_machine
from pumice.model.text import some

DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
# The API of Docker Hub is not at the host that its names have.
_API_HOSTS: Final = {"docker.io": "registry-1.docker.io"}
_WORD: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_OTHER_NAMES: Final = {"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64", "i386": "386"}
# What a name without a variant means.
_DEFAULT_VARIANTS: Final = {"arm64": "v8", "arm": "v7"}
_VARIANTS_HERE: Final = {"armv6l": "v6", "armv7l": "v7"}


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


class Platform(Struct, frozen=True):
    system: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.system, self.architecture, self.variant)))

    def accepts(self, other: Platform) -> bool:
        """Whether `other` is what was asked for. A variant matters only where both have one."""
        mine, others = (each.variant or _DEFAULT_VARIANTS.get(each.architecture, "") for each in (self, other))
        same = (self.system, self.architecture) == (other.system, other.architecture)
        return same and (mine == others or not self.variant)


def this_platform() -> Platform:
    return Platform("linux", this_machine(), _VARIANTS_HERE.get(platform.machine(), ""))


def parse_platform(text: str) -> Platform:
    """Parse `linux/arm64/v8`, `linux/arm64` or `arm64`. Raises ImageError."""
    words = text.split("/")
    words = ["linux", *words] if len(words) == 1 else words
    if len(words) not in (2, 3) or not all(map(_WORD.fullmatch, words)):
        raise ImageError(f"--platform: {text}: must be OS/ARCHITECTURE, such as linux/amd64 or linux/arm64")
    system, architecture, *variant = words
    return Platform(system, _OTHER_NAMES.get(architecture, architecture), *variant)


def platform_of(document: object) -> Platform:
    """Return the platform that an entry of an index, or a configuration, states; its parts are empty if it does not."""
    found = document if isinstance(document, dict) else {}
    words = (found.get(key) for key in ("os", "architecture", "variant"))
    return Platform(*(word if isinstance(word, str) else "" for word in words))


def choose(entries: Sequence[Mapping[str, Any]], wanted: Platform) -> Mapping[str, Any]:
    """Return the entry of an index for a platform. Raises ImageError if there is none."""
    offered = [(platform_of(entry.get("platform")), entry) for entry in entries]
    fitting = [(found, entry) for found, entry in offered if wanted.accepts(found)]
    if not fitting:
        # Attestations have the platform unknown/unknown.
        names = sorted({str(found) for found, _ in offered if found.system not in ("", "unknown")})
        hint = f"it exists for {some(names)}" if names else ""
        raise ImageError(f"does not exist for {wanted}", f"{hint}; choose with --platform" if hint else "")
    # Without a variant first: amd64 rather than amd64/v3, whose programs need a newer processor.
    return min(fitting, key=lambda each: (each[0].variant != wanted.variant, each[0].variant))[1]

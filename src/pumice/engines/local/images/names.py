"""Names of images: `busybox`, `docker.io/library/busybox` and `docker.io/library/busybox:latest` are one image."""

from __future__ import annotations

import re
from typing import Final

from pumice.engines.local.images.errors import ImageError

_HUB: Final = "docker.io"
_HUB_ALIASES: Final = ("index.docker.io", "registry-1.docker.io")
_OFFICIAL: Final = "library"
_LATEST: Final = "latest"
_DIGEST: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[0-9a-fA-F]{32,}")
_TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_PART: Final = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")


def normalised(name: str) -> str:
    """Return the full name: registry, repository, and tag or digest. Raises ImageError for an invalid name."""
    rest, at, digest = name.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise _invalid(name, "the part after '@' must be a digest such as sha256:...")
    stem, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        # A colon, if any, belongs to the registry's port.
        stem, tag = rest, ""
    elif not _TAG.fullmatch(tag):
        raise _invalid(name, "the part after ':' must be a tag of letters, digits, '_', '.' or '-'")
    host, path = _split(stem)
    if not _HOST.fullmatch(host) or not all(map(_PART.fullmatch, path.split("/"))):
        raise _invalid(name, "must be lower-case letters and digits, with '.', '_', '-' or '/' between them")
    version = f"@{digest}" if digest else f":{tag or _LATEST}"
    return f"{host}/{path}{version}"


def familiar(name: str) -> str:
    """Shorten a full name: leave out the default registry, repository and tag."""
    short = name.removeprefix(f"{_HUB}/").removeprefix(f"{_OFFICIAL}/") if name.startswith(f"{_HUB}/") else name
    return short.removesuffix(f":{_LATEST}")


def _split(stem: str) -> tuple[str, str]:
    """Return registry and repository. The first part is a registry only if it looks like a host."""
    first, slash, path = stem.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        first, path = _HUB, stem
    if first in _HUB_ALIASES:
        first = _HUB
    return first, f"{_OFFICIAL}/{path}" if first == _HUB and "/" not in path else path


def _invalid(name: str, rule: str) -> ImageError:
    return ImageError(f"{name}: is not a valid image name: {rule}")

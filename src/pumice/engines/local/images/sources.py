"""Finds the configuration and layers of an image in the output of `docker save`, podman, skopeo or buildah.

Docker's format (manifest.json) and OCI's (index.json) are supported, as a tar file or a directory. Of several images in
one archive, the one with the wanted name is used; of several platforms, that of this machine.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from pumice.engines.local.images.blobs import Blobs, read_document
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.names import familiar, normalised
from pumice.model.scalars import kind_of

_HASHED_FILE: Final = re.compile(r"(?:blobs/sha256/)?([0-9a-f]{64})(?:\.json)?")
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
_NAME_ANNOTATIONS: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "AMD64": "amd64", "i686": "386", "armv7l": "arm"}
_DEEPEST_INDEX: Final = 4
_MOST_LAYERS: Final = 1000


class Layer(Struct, frozen=True):
    file: str  # its name in the archive
    digest: str  # of the file as it is stored; empty if unknown
    diff_id: str  # the digest of the uncompressed tar


class ImageSource(Struct, frozen=True):
    digest: str  # of the configuration, which identifies the image
    document: Mapping[str, Any]
    layers: tuple[Layer, ...]


class _Candidate(Struct, frozen=True):
    names: tuple[str, ...]
    config: str
    config_digest: str
    layers: tuple[tuple[str, str], ...]  # file and digest
    machine: str = ""


def find_image(blobs: Blobs, wanted: str) -> ImageSource:
    if blobs.has("manifest.json"):
        candidates = list(_docker(blobs))
    elif blobs.has("index.json"):
        candidates = list(_oci(blobs, "index.json", "", (), _DEEPEST_INDEX))
    else:
        raise ImageError(
            "is neither a Docker nor an OCI archive: it has no manifest.json and no index.json",
            "make one with `docker save IMAGE -o FILE`; a plain file system (`docker export`) works as a directory",
        )
    return _source(blobs, _chosen(candidates, wanted))


def this_machine() -> str:
    """Return the name of this machine's architecture, as images spell it."""
    name = platform.machine()
    return _MACHINES.get(name, name)


def _docker(blobs: Blobs) -> Iterator[_Candidate]:
    document, _ = read_document(blobs, "manifest.json")
    for entry in _dicts(document):
        config, files = entry.get("Config"), entry.get("Layers")
        if not isinstance(config, str) or not isinstance(files, list):
            raise ImageError("manifest.json: is damaged: has no Config or no Layers")
        layers = tuple((file, _digest_in(file) if "blobs/" in file else "") for file in _texts(files))
        yield _Candidate(_texts(entry.get("RepoTags")), config, _digest_in(config), layers)


def _oci(blobs: Blobs, file: str, digest: str, names: tuple[str, ...], depth: int) -> Iterator[_Candidate]:
    document, _ = read_document(blobs, file, digest)
    for entry in _dicts(dict_or_empty(document).get("manifests")):
        annotations = dict_or_empty(entry.get("annotations"))
        if "vnd.docker.reference.type" in annotations:
            # An attestation, not an image.
            continue
        own = _texts([annotations.get(key) for key in _NAME_ANNOTATIONS]) or names
        blob, known = _blob(entry)
        if "index" in str(entry.get("mediaType")) or "manifest.list" in str(entry.get("mediaType")):
            if depth:
                yield from _oci(blobs, blob, known, own, depth - 1)
        elif blobs.has(blob):
            # An archive of one platform may have the index of all of them.
            manifest, _ = read_document(blobs, blob, known)
            config, config_digest = _blob(dict_or_empty(dict_or_empty(manifest).get("config")))
            layers = tuple(_blob(layer) for layer in _dicts(dict_or_empty(manifest).get("layers")))
            machine = str(dict_or_empty(entry.get("platform")).get("architecture") or "")
            yield _Candidate(own, config, config_digest, layers, machine)


def _chosen(candidates: Sequence[_Candidate], wanted: str) -> _Candidate:
    if not candidates:
        raise ImageError("contains no image")
    named = [candidate for candidate in candidates if any(_is_named(name, wanted) for name in candidate.names)]
    left = named or candidates
    fitting = [candidate for candidate in left if candidate.machine in {"", this_machine()}]
    left = fitting or left
    if len({candidate.config for candidate in left}) > 1:
        names = sorted({name for candidate in candidates for name in candidate.names})
        hint = f"map one of them by its own name: {', '.join(names)}" if names else "save only this image"
        raise ImageError(f"contains {len(candidates)} images, and none is named {familiar(wanted)}", hint)
    return left[0]


def _is_named(name: str, wanted: str) -> bool:
    try:
        return normalised(name) == wanted
    except ImageError:
        return False


def _source(blobs: Blobs, chosen: _Candidate) -> ImageSource:
    document, digest = read_document(blobs, chosen.config, chosen.config_digest)
    diff_ids = dict_or_empty(dict_or_empty(document).get("rootfs")).get("diff_ids")
    if not isinstance(diff_ids, list) or len(diff_ids) != len(chosen.layers) or len(diff_ids) > _MOST_LAYERS:
        count = len(diff_ids) if isinstance(diff_ids, list) else 0
        raise ImageError(f"{chosen.config}: is damaged: has {count} layers, the archive has {len(chosen.layers)}")
    if not all(isinstance(of, str) and _DIGEST.fullmatch(of) for of in diff_ids):
        raise ImageError(f"{chosen.config}: is damaged: its diff_ids are not sha256 digests")
    layers = tuple(Layer(file, known, of) for (file, known), of in zip(chosen.layers, diff_ids, strict=True))
    return ImageSource(digest, document, layers)


def _blob(descriptor: Mapping[str, Any]) -> tuple[str, str]:
    """Return file and digest of a descriptor."""
    digest = descriptor.get("digest")
    if match := _DIGEST.fullmatch(text_or_empty(digest)):
        return f"blobs/sha256/{match[1]}", match[0]
    found = digest[:80] if isinstance(digest, str) else kind_of(digest)
    raise ImageError(f"is damaged: {found} is not a sha256 digest")


def _digest_in(file: str) -> str:
    match = _HASHED_FILE.fullmatch(file)
    return f"sha256:{match[1]}" if match is not None else ""


def dict_or_empty(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _texts(found: object) -> tuple[str, ...]:
    return tuple(entry for entry in found if isinstance(entry, str)) if isinstance(found, list) else ()


def _dicts(found: object) -> list[Mapping[str, Any]]:
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


class ImageConfig(Struct, frozen=True):
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    user: str = ""
    stop_signal: str = ""
    architecture: str = ""

    def argv(self, command: Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
        """Return the command line of a container, as in Kubernetes: a command replaces entrypoint and cmd, args cmd."""
        if command:
            return (*command, *args)
        return (*self.entrypoint, *(args or self.cmd))


def read_config(document: Mapping[str, Any]) -> ImageConfig:
    """Parse the configuration of a Docker or OCI image; ill-formed fields are ignored, as the layers matter more."""
    config = dict_or_empty(document.get("config") or document.get("Config"))
    lines = config.get("Env")
    pairs = [str(line).partition("=") for line in lines] if isinstance(lines, list) else []
    return ImageConfig(
        entrypoint=_words(config.get("Entrypoint")),
        cmd=_words(config.get("Cmd")),
        env={name: value for name, equals, value in pairs if name and equals},
        workdir=text_or_empty(config.get("WorkingDir")),
        user=text_or_empty(config.get("User")),
        stop_signal=text_or_empty(config.get("StopSignal")),
        architecture=text_or_empty(document.get("architecture")),
    )


def _words(found: object) -> tuple[str, ...]:
    if isinstance(found, str):
        # The shell form, in very old images.
        return ("/bin/sh", "-c", found) if found else ()
    return tuple(str(word) for word in found) if isinstance(found, list) else ()


def text_or_empty(found: object) -> str:
    return found if isinstance(found, str) else ""

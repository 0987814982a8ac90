"""Builders of layers and images, valid ones and such as no tool would write."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pumice.engines.local.images.blobs import Forward
from pumice.engines.local.images.sources import this_machine


@dataclass(frozen=True)
class E:
    """An entry of a layer."""

    name: str
    data: bytes = b""
    kind: bytes = tarfile.REGTYPE
    link: str = ""
    mode: int = 0o644
    mtime: int = 1_000_000_000
    uid: int = 0
    size: int | None = None  # a wrong size for the header


def directory(name: str, mode: int = 0o755) -> E:
    return E(name, kind=tarfile.DIRTYPE, mode=mode)


def symlink(name: str, to: str) -> E:
    return E(name, kind=tarfile.SYMTYPE, link=to, mode=0o777)


def hard_link(name: str, to: str) -> E:
    return E(name, kind=tarfile.LNKTYPE, link=to)


def device(name: str) -> E:
    return E(name, kind=tarfile.CHRTYPE)


def layer(*entries: E, end: bool = True) -> bytes:
    """Return an uncompressed tar with these entries; names are not normalized."""
    out = io.BytesIO()
    for entry in entries:
        info = tarfile.TarInfo(entry.name)
        info.type, info.linkname, info.mode, info.mtime = entry.kind, entry.link, entry.mode, entry.mtime
        info.uid = entry.uid
        info.size = len(entry.data) if entry.size is None else entry.size
        out.write(info.tobuf(tarfile.GNU_FORMAT))
        out.write(entry.data + bytes(-len(entry.data) % 512))
    if end:
        out.write(bytes(1024))
    return out.getvalue()


def stream(data: bytes) -> Forward:
    return Forward(io.BytesIO(data))


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def config(layers: Sequence[bytes], **fields: Any) -> bytes:
    diff_ids = [digest(data) for data in layers]
    document = {"architecture": this_machine(), "os": "linux", "config": fields, "rootfs": {"diff_ids": diff_ids}}
    return json.dumps(document).encode()


def tar_of(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    entries = [E(name, data) for name, data in files.items()]
    return layer(*entries, *(symlink(name, to) for name, to in (links or {}).items()))


def docker_files(layers: Sequence[bytes], tags: Sequence[str] = (), **fields: Any) -> dict[str, bytes]:
    """Return the files of an older `docker save`: one file per layer, with arbitrary names."""
    document = config(layers, **fields)
    name = f"{hashlib.sha256(document).hexdigest()}.json"
    files = {f"l{number}/layer.tar": data for number, data in enumerate(layers)}
    manifest = [{"Config": name, "RepoTags": list(tags), "Layers": list(files)}]
    return {**files, name: document, "manifest.json": json.dumps(manifest).encode()}


def oci_files(layers: Sequence[bytes], *, compressed: bool = True, name: str = "", **fields: Any) -> dict[str, bytes]:
    """Return the files of an OCI layout, named by digest."""
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}
    manifest = add_oci_manifest(files, layers, compressed=compressed, **fields)
    if name:
        manifest["annotations"] = {"org.opencontainers.image.ref.name": name}
    return {**files, "index.json": json.dumps({"manifests": [manifest]}).encode()}


def add_oci_manifest(
    files: dict[str, bytes], layers: Sequence[bytes], *, compressed: bool = True, **fields: Any
) -> Any:
    stored = [gzip.compress(data, mtime=0) if compressed else data for data in layers]
    descriptors = [add_blob(files, data) for data in stored]
    manifest = {"config": add_blob(files, config(layers, **fields)), "layers": descriptors}
    kind = "application/vnd.oci.image.manifest.v1+json"
    return {"mediaType": kind, **add_blob(files, json.dumps(manifest).encode())}


def add_blob(files: dict[str, bytes], data: bytes) -> dict[str, Any]:
    name = digest(data)
    files[f"blobs/sha256/{name.removeprefix('sha256:')}"] = data
    return {"digest": name, "size": len(data)}


def write_tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def write_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def names_in(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def open_files() -> int:
    """Return the number of descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))

"""A real registry (Debian's docker-registry) on a loopback address, and images to push to it by plain HTTP."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import subprocess
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pumice.engines.local.images.sources import this_machine
from tests.patience import PATIENCE
from tests.unit.engines.local.images.archives import digest

OCI = "application/vnd.oci.image"
MANIFEST, INDEX, CONFIG = f"{OCI}.manifest.v1+json", f"{OCI}.index.v1+json", f"{OCI}.config.v1+json"
LAYER = f"{OCI}.layer.v1.tar+gzip"


@dataclass(frozen=True)
class PushedImage:
    manifest: str  # digests
    config: str
    layers: tuple[str, ...]
    body: bytes  # of the manifest


@dataclass(frozen=True)
class Registry:
    host: str
    root: Path

    def push(
        self,
        repository: str,
        tag: str,
        layers: Sequence[bytes],
        *,
        architecture: str = "",
        compressed: bool = True,
        **fields: Any,
    ) -> PushedImage:
        """Push an image of these layers, given as tar files; with no tag only by its digest."""
        stored = [gzip.compress(data, mtime=0, compresslevel=1) if compressed else data for data in layers]
        document = {
            "architecture": architecture or this_machine(),
            "os": "linux",
            "config": fields,
            "rootfs": {"type": "layers", "diff_ids": [digest(data) for data in layers]},
        }
        kind = LAYER if compressed else LAYER.removesuffix("+gzip")
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, **self.push_blob(repository, json.dumps(document).encode())},
            "layers": [{"mediaType": kind, **self.push_blob(repository, data)} for data in stored],
        }
        body = json.dumps(manifest).encode()
        self.push_manifest(repository, tag or digest(body), body, MANIFEST)
        config = str(manifest["config"]["digest"])  # type: ignore[index] # a dict, as written above
        return PushedImage(digest(body), config, tuple(digest(data) for data in stored), body)

    def push_index(self, repository: str, tag: str, images: Mapping[str, PushedImage]) -> None:
        """Push an index of images by platform."""
        entries = []
        for platform, image in images.items():
            keys = ("os", "architecture", "variant")
            words = dict(zip(keys, platform.split("/"), strict=False))
            entries.append(
                {"mediaType": MANIFEST, "digest": image.manifest, "size": len(image.body), "platform": words}
            )
        body = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
        self.push_manifest(repository, tag, body, INDEX)

    def push_blob(self, repository: str, data: bytes) -> dict[str, Any]:
        name = digest(data)
        location = self._request("POST", f"/v2/{repository}/blobs/uploads/", b"", {})
        parts = urllib.parse.urlsplit(location)
        query = f"{parts.query}&digest={urllib.parse.quote(name)}".lstrip("&")
        self._request("PUT", f"{parts.path}?{query}", data, {"Content-Type": "application/octet-stream"})
        return {"digest": name, "size": len(data)}

    def push_manifest(self, repository: str, version: str, body: bytes, media_type: str) -> None:
        self._request("PUT", f"/v2/{repository}/manifests/{version}", body, {"Content-Type": media_type})

    def blob(self, name: str) -> Path:
        """Return the file of a blob in the storage of the registry."""
        hexadecimal = name.removeprefix("sha256:")
        return self.root / "docker/registry/v2/blobs/sha256" / hexadecimal[:2] / hexadecimal / "data"

    def _request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> str:
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status in (201, 202), text
            return answer.headers.get("Location") or ""
        finally:
            connection.close()


@contextmanager
def registry(
    directory: Path,
    auth: Mapping[str, Any] | None = None,
    root: Path | None = None,
    tls: Mapping[str, str] | None = None,
) -> Iterator[Registry]:
    """Start a registry on a free port; `auth` and `tls` are these parts of its configuration."""
    directory.mkdir(parents=True, exist_ok=True)
    root = root or directory / "registry"
    config = {
        "version": "0.1",
        "log": {"level": "info"},
        "storage": {"filesystem": {"rootdirectory": str(root)}},
        "http": {"addr": "127.0.0.1:0", "secret": "shared", **({"tls": tls} if tls else {})},
        **({"auth": auth} if auth else {}),
    }
    path = directory / "config.yml"
    path.write_text(json.dumps(config))  # JSON is YAML
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(path)], stdout=log, stderr=subprocess.PIPE, text=True
        )
    try:
        assert process.stderr is not None
        found = None
        for line in process.stderr:
            if found := re.search(r"listening on (127\.0\.0\.1:\d+)", line):
                break
        assert found, "docker-registry ended"
        yield Registry(found[1], root)
    finally:
        process.kill()
        process.communicate()

from __future__ import annotations

import pytest

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.registry.image_reference import ImageReference, reference

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("name", "host", "repository", "version", "api_host"),
    [
        pytest.param("busybox", "docker.io", "library/busybox", "latest", "registry-1.docker.io", id="official"),
        pytest.param("team/x:1", "docker.io", "team/x", "1", "registry-1.docker.io", id="on the hub"),
        pytest.param("ghcr.io/a/b/c:v1", "ghcr.io", "a/b/c", "v1", "ghcr.io", id="another registry"),
        pytest.param("localhost/x", "localhost", "x", "latest", "localhost", id="localhost"),
        pytest.param("localhost:5000/x", "localhost:5000", "x", "latest", "localhost:5000", id="port"),
        pytest.param("[::1]:5000/x:2", "[::1]:5000", "x", "2", "[::1]:5000", id="IPv6"),
        pytest.param(f"ghcr.io/a/b@{DIGEST}", "ghcr.io", "a/b", DIGEST, "ghcr.io", id="digest"),
        pytest.param(f"ghcr.io/a/b:v1@{DIGEST}", "ghcr.io", "a/b", DIGEST, "ghcr.io", id="tag and digest"),
    ],
)
def test_names(name: str, host: str, repository: str, version: str, api_host: str) -> None:
    found = reference(name)
    assert (found.host, found.repository, found.version, found.api_host) == (host, repository, version, api_host)
    assert found.digest == (version if version == DIGEST else "")


def test_short_name() -> None:
    assert str(ImageReference("docker.io/library/x:latest", "docker.io", "library/x", "latest")) == "x"


@pytest.mark.parametrize("name", ["", "UPPER", "a b", "x@sha512:" + "a" * 128, "x@sha256:" + "a" * 40, "../x"])
def test_bad_names(name: str) -> None:
    with pytest.raises(ImageError, match="is not a valid image name") as caught:
        reference(name)
    assert caught.value.exit_code == 2

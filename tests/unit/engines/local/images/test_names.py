from __future__ import annotations

import pytest

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.names import familiar, normalised

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("name", "full", "short"),
    [
        pytest.param("busybox", "docker.io/library/busybox:latest", "busybox", id="bare"),
        pytest.param("busybox:1.36.1", "docker.io/library/busybox:1.36.1", "busybox:1.36.1", id="tag"),
        pytest.param("library/busybox", "docker.io/library/busybox:latest", "busybox", id="library"),
        pytest.param("docker.io/busybox", "docker.io/library/busybox:latest", "busybox", id="hub"),
        pytest.param("docker.io/library/busybox:latest", "docker.io/library/busybox:latest", "busybox", id="full"),
        pytest.param("index.docker.io/me/x", "docker.io/me/x:latest", "me/x", id="alias of the hub"),
        pytest.param("me/x", "docker.io/me/x:latest", "me/x", id="user"),
        pytest.param("localhost/x", "localhost/x:latest", "localhost/x", id="localhost"),
        pytest.param("host:5000/x", "host:5000/x:latest", "host:5000/x", id="port"),
        pytest.param("host:5000/a/b:c", "host:5000/a/b:c", "host:5000/a/b:c", id="port and tag"),
        pytest.param("ghcr.io/a/b_c", "ghcr.io/a/b_c:latest", "ghcr.io/a/b_c", id="registry"),
        pytest.param("Host/x", "Host/x:latest", "Host/x", id="upper-case host"),
        pytest.param("[::1]:5000/x", "[::1]:5000/x:latest", "[::1]:5000/x", id="address"),
        pytest.param(f"x@{DIGEST}", f"docker.io/library/x@{DIGEST}", f"x@{DIGEST}", id="digest"),
        pytest.param(f"x:1@{DIGEST}", f"docker.io/library/x@{DIGEST}", f"x@{DIGEST}", id="digest and tag"),
    ],
)
def test_names(name: str, full: str, short: str) -> None:
    assert normalised(name) == full
    assert normalised(full) == full
    assert familiar(full) == short


@pytest.mark.parametrize(
    "name", ["", ":", "x:", "X", "a//b", "/x", "x/", "x y", "../x", "x@", "x@sha256:12", "x:a/b:c d", "a..b", "x:-"]
)
def test_invalid_names(name: str) -> None:
    with pytest.raises(ImageError, match="is not a valid image name"):
        normalised(name)

from __future__ import annotations

import json
from typing import Any

import pytest

from pumice.engines.local.images.blobs import Bytes, Window
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.names import normalised
from pumice.engines.local.images.sources import find_image, this_machine
from tests.unit.engines.local.images.archives import E, add_blob, add_oci_manifest, docker_files, layer, oci_files

ONE, TWO = layer(E("a", b"1")), layer(E("b", b"2"))
INDEX = "application/vnd.oci.image.index.v1+json"


class Files:
    """Blobs in a dictionary."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def has(self, name: str) -> bool:
        return name in self.files

    def open(self, name: str) -> Bytes:
        import io

        if name not in self.files:
            raise ImageError(f"{name}: is missing")
        return Window(io.BytesIO(self.files[name]), 0, len(self.files[name]))


def found(files: dict[str, bytes], name: str = "x") -> Any:
    return find_image(Files(files), normalised(name))


def index(files: dict[str, bytes], *manifests: Any) -> dict[str, bytes]:
    return {**files, "index.json": json.dumps({"manifests": list(manifests)}).encode()}


def test_docker_and_oci_are_the_same_image() -> None:
    docker, oci = found(docker_files([ONE, TWO], Cmd=["x"])), found(oci_files([ONE, TWO], Cmd=["x"]))
    assert docker.digest == oci.digest
    assert [layer.diff_id for layer in docker.layers] == [layer.diff_id for layer in oci.layers]
    assert [layer.digest for layer in docker.layers] == ["", ""]
    assert all(layer.file == f"blobs/sha256/{layer.digest[7:]}" for layer in oci.layers)
    assert docker.document["config"] == {"Cmd": ["x"]}


def test_docker_format_with_blobs_has_their_digests() -> None:
    files = oci_files([ONE], compressed=False)
    names = {name: name for name in files if name.startswith("blobs/")}
    config = next(name for name, data in files.items() if name in names and b"diff_ids" in data)
    blob = next(name for name, data in files.items() if data == ONE)
    files["manifest.json"] = json.dumps([{"Config": config, "Layers": [blob], "RepoTags": None}]).encode()
    assert found(files).layers[0].digest == found(files).layers[0].diff_id


def test_several_images() -> None:
    first, second = docker_files([ONE], ["a:1"]), docker_files([TWO], ["b:1", "c"])
    manifests = [*json.loads(first["manifest.json"]), *json.loads(second["manifest.json"])]
    files = {**first, **second, "manifest.json": json.dumps(manifests).encode()}
    assert found(files, "docker.io/library/c:latest").digest == found(second).digest
    assert found(files, "a:1").digest == found(first).digest
    with pytest.raises(ImageError, match="contains 2 images, and none is named x") as caught:
        found(files, "x")
    assert caught.value.hint == "map one of them by its own name: a:1, b:1, c"


def test_the_platform_of_this_machine_is_preferred() -> None:
    files: dict[str, bytes] = {}
    other = {**add_oci_manifest(files, [ONE]), "platform": {"architecture": "s390x"}}
    own = {**add_oci_manifest(files, [TWO]), "platform": {"architecture": this_machine()}}
    proof = {**add_oci_manifest(files, []), "annotations": {"vnd.docker.reference.type": "attestation-manifest"}}
    absent = {"mediaType": "x", "digest": "sha256:" + "0" * 64, "platform": {"architecture": this_machine()}}
    inner = {"mediaType": INDEX, **add_blob(files, json.dumps({"manifests": [other, absent, own, proof]}).encode())}
    named = {**inner, "annotations": {"io.containerd.image.name": "docker.io/library/x:latest"}}
    assert found(index(files, named)).layers[0].diff_id == found(docker_files([TWO])).layers[0].diff_id


def test_a_single_platform_is_used_even_if_it_is_another() -> None:
    files: dict[str, bytes] = {}
    other = {**add_oci_manifest(files, [ONE]), "platform": {"architecture": "s390x"}}
    assert len(found(index(files, other)).layers) == 1


def test_images_without_names() -> None:
    files: dict[str, bytes] = {}
    with pytest.raises(ImageError, match="contains 2 images") as caught:
        found(index(files, add_oci_manifest(files, [ONE]), add_oci_manifest(files, [TWO])))
    assert caught.value.hint == "save only this image"


def test_an_invalid_name_in_the_archive_is_ignored() -> None:
    assert len(found(docker_files([ONE], ["NOT A NAME"])).layers) == 1


def _broken(**changes: Any) -> dict[str, bytes]:
    files = docker_files([ONE])
    [manifest] = json.loads(files["manifest.json"])
    return {**files, "manifest.json": json.dumps([{**manifest, **changes}]).encode()}


def _loop() -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    inner: Any = add_blob(files, b'{"manifests": []}')
    for _ in range(9):
        inner = add_blob(files, json.dumps({"manifests": [{"mediaType": INDEX, **inner}]}).encode())
    return index(files, {"mediaType": INDEX, **inner})


@pytest.mark.parametrize(
    ("files", "message"),
    [
        pytest.param({}, "neither a Docker nor an OCI archive", id="empty"),
        pytest.param({"etc/passwd": b""}, "neither a Docker nor an OCI archive", id="a file system"),
        pytest.param({"manifest.json": b"[]"}, "contains no image", id="no manifests"),
        pytest.param({"manifest.json": b'{"a": 1}'}, "contains no image", id="no list"),
        pytest.param({"manifest.json": b"[{}]"}, "has no Config", id="empty manifest"),
        pytest.param({"index.json": b"[]"}, "contains no image", id="no index"),
        pytest.param({"index.json": b'{"manifests": [{"digest": "md5:1"}]}'}, "not a sha256 digest", id="other digest"),
        pytest.param({"index.json": b'{"manifests": [{}]}'}, "null is not a sha256 digest", id="no digest"),
        pytest.param(_broken(RepoTags=True, Layers=[]), "has 1 layers, the archive has 0", id="ill-formed tags"),
        pytest.param(_broken(Layers=[7]), "has 1 layers, the archive has 0", id="ill-formed layer"),
        pytest.param(
            {**_broken(Config="c"), "c": b'{"rootfs": {"diff_ids": [7]}}'},
            "c: is damaged: its diff_ids are not sha256 digests",
            id="a layer without a digest",
        ),
        pytest.param(_broken(Config="a\x1b[1m"), r"a\\x1b\[1m: is missing", id="terminal escapes in a name"),
        pytest.param(_broken(Config="x.json"), "x.json: is missing", id="no configuration"),
        pytest.param(_broken(Config="../../etc/x"), "is missing|leaves the image", id="configuration outside"),
        pytest.param(_broken(Layers=[]), "has 1 layers, the archive has 0", id="other layers"),
        pytest.param({**_broken(Config="c"), "c": b"{}"}, "has 0 layers", id="no layers at all"),
        pytest.param({**_broken(Config="0" * 64 + ".json"), "0" * 64 + ".json": b"{}"}, "digest", id="other digest"),
        pytest.param(_loop(), "contains no image", id="deeply nested indexes"),
    ],
)
def test_invalid_archives(files: dict[str, bytes], message: str) -> None:
    with pytest.raises(ImageError, match=message):
        found(files)

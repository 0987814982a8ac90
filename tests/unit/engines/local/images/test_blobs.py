from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pumice.engines.local.images.blobs import ArchiveBlobs, Blobs, DirectoryBlobs, plain_file, read_document
from pumice.engines.local.images.errors import ImageError
from tests.unit.engines.local.images.archives import (
    E,
    digest,
    directory,
    hard_link,
    layer,
    names_in,
    open_files,
    symlink,
    tar_of,
    write_file,
    write_tree,
)

FILES = {"a.json": b'{"a": 1}', "d/b": b"b" * 1000, "bad.json": b"{", "deep.json": b"[" * 100_000}


@pytest.fixture(params=["directory", "tar", "gzip"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Blobs]:
    packed = gzip.compress(tar_of(FILES)) if request.param == "gzip" else tar_of(FILES)
    if request.param == "directory":
        opened: DirectoryBlobs | ArchiveBlobs = DirectoryBlobs(write_tree(tmp_path / "files", FILES))
    else:
        opened = ArchiveBlobs(plain_file(write_file(tmp_path / "f", packed), tmp_path))
    with closing(opened):
        yield opened


def test_files(blobs: Blobs) -> None:
    assert blobs.has("d/b")
    assert blobs.has("./d/b")
    assert not blobs.has("d")
    assert not blobs.has("x")
    assert blobs.open("d/b").read(2000) == b"b" * 1000
    with pytest.raises(ImageError, match="x: is missing"):
        blobs.open("x")
    with pytest.raises(ImageError, match="leaves the image"):
        blobs.open("../x")


def test_documents(blobs: Blobs) -> None:
    known = digest(FILES["a.json"])
    assert read_document(blobs, "a.json") == ({"a": 1}, known)
    assert read_document(blobs, "a.json", known) == ({"a": 1}, known)
    with pytest.raises(ImageError, match=r"a\.json: is damaged: its digest is sha256:"):
        read_document(blobs, "a.json", "sha256:0")
    for name in ("bad.json", "deep.json"):
        with pytest.raises(ImageError, match="is damaged: not JSON"):
            read_document(blobs, name)


def test_a_document_that_is_too_large(tmp_path: Path) -> None:
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(1 << 30)
    with closing(DirectoryBlobs(tmp_path)) as blobs, pytest.raises(ImageError, match="too large"):
        read_document(blobs, "a.json")


def test_links_in_an_archive(tmp_path: Path) -> None:
    links = [symlink("e/s", "../d/a"), hard_link("h", "d/a"), symlink("x", "x"), symlink("o", "/../..")]
    path = write_file(tmp_path / "f", layer(directory("d"), E("d/a", b"1"), *links))
    with closing(ArchiveBlobs(plain_file(path, tmp_path))) as blobs:
        assert blobs.open("e/s").read(9) == b"1"
        assert blobs.open("h").read(9) == b"1"
        assert not blobs.has("x")
        assert not blobs.has("o")


def test_a_link_out_of_a_directory(tmp_path: Path) -> None:
    write_tree(tmp_path, {"outside": b"1", "in/side": b"2"})
    (tmp_path / "in/s").symlink_to("../outside")
    (tmp_path / "in/t").symlink_to("side")
    with closing(DirectoryBlobs(tmp_path / "in")) as blobs:
        assert blobs.open("t").read(9) == b"2"
        with pytest.raises(ImageError, match="outside of the image"):
            blobs.has("s")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"hello, this is no archive" * 100, "damaged", id="text"),
        pytest.param(tar_of(FILES)[:1200], "cut short", id="truncated in a file"),
        pytest.param(layer(E("a", b"x" * 2000))[:1024], "cut short", id="truncated in the only file"),
        pytest.param(gzip.compress(tar_of(FILES))[:-9], "cut short", id="truncated gzip"),
        pytest.param(b"\x1f\x8bgarbage" * 9, "damaged", id="bad gzip"),
    ],
)
def test_damaged_archives(tmp_path: Path, data: bytes, message: str) -> None:
    before = open_files()
    with pytest.raises(ImageError, match=message):
        ArchiveBlobs(plain_file(write_file(tmp_path / "f", data), tmp_path))
    assert open_files() == before
    assert names_in(tmp_path) == ["f"]


def test_close(tmp_path: Path) -> None:
    before = open_files()
    ArchiveBlobs(plain_file(write_file(tmp_path / "f", gzip.compress(tar_of(FILES))), tmp_path)).close()
    assert open_files() == before

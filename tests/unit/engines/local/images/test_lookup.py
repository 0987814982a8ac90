from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.lookup import RunImages, image_names, with_names_in_use
from pumice.engines.local.images.store import ImageStore
from pumice.store.settings import Settings
from tests.unit.engines.local.images.archives import E, device, docker_files, layer, tar_of, write_file

POD = {"spec": {"initContainers": [{"name": "i", "image": "y:1"}], "containers": [{"name": "c", "image": "x"}, {}]}}


def test_image_names() -> None:
    assert image_names([POD, POD]) == {"x", "y:1"}


def test_settings_are_keyed_by_the_names_that_pods_use(tmp_path: Path) -> None:
    settings = Settings(
        workdir=tmp_path,
        state=tmp_path,
        images={"docker.io/library/x:latest": tmp_path, "other": tmp_path},
        entrypoints={"x:latest": ("a",), "y": ("b",)},
        programs={"library/x": (tmp_path,)},
        files={"y:1": {"/f": tmp_path}},
    )
    found = with_names_in_use(settings, image_names([POD]))
    assert found.images == {"x": tmp_path}
    assert found.entrypoints == {"x": ("a",)}
    assert found.programs == {"x": (tmp_path,)}
    assert found.files == {"y:1": {"/f": tmp_path}}


def test_a_bad_archive_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.tar").write_bytes(b"no archive")
    asked: list[str] = []
    obtain = ImageStore.obtain

    def counted(store: ImageStore, name: str, path: Path, warn: Callable[[str], None]) -> object:
        asked.append(name)
        return obtain(store, name, path, warn)

    monkeypatch.setattr(ImageStore, "obtain", counted)
    with ExitStack() as held:
        images = RunImages(ImageStore(tmp_path / "store"), {"x": tmp_path / "bad.tar"}, held, lambda _message: None)
        for _ in range(3):
            with pytest.raises(ImageError, match="is damaged"):
                images.of("x")
        assert images.of("") is None
        assert images.of("y:1") is None
        assert images.text([POD]) == "host (no registry)"
    assert asked == ["x"]


def test_warnings_and_progress(tmp_path: Path) -> None:
    files = docker_files([layer(device("dev/null"), E("bin/x", b"1"))])
    path = write_file(tmp_path / "image.tar", tar_of(files))
    warned: list[str] = []
    noted: list[str] = []
    with ExitStack() as held:
        images = RunImages(ImageStore(tmp_path / "store"), {"x": path}, held, warned.append, noted.append)
        assert images.of("x") is not None
    assert warned == ["image x: device files are left out; a pod has its own /dev"]
    assert noted == ["image x: unpacking layer 1 of 1"]


def test_a_directory_serves_as_image(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with ExitStack() as held:
        images = RunImages(ImageStore(tmp_path / "store"), {"x": tmp_path / "root"}, held, lambda _message: None)
        image = images.of("x")
        assert image is not None
        assert images.of("x") is image
        assert images.text([POD]) == "x; the others: host (no registry)"

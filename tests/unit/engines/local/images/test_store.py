from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.store import ImageStore, images_directory
from tests.patience import PATIENCE
from tests.unit.engines.local.images.archives import (
    E,
    device,
    directory,
    docker_files,
    hard_link,
    layer,
    names_in,
    oci_files,
    symlink,
    tar_of,
    write_file,
    write_tree,
)

BASE = layer(directory("etc", 0o755), E("etc/motd", b"one"), E("gone", b"x"), symlink("sh", "/bin/busybox"))
TOP = layer(E("etc/motd", b"two"), E(".wh.gone"), hard_link("etc/same", "etc/motd"), directory("shut", 0o500))
FIELDS: dict[str, Any] = {"Cmd": ["/sh"], "Env": ["A=1"], "WorkingDir": "/w", "User": "7"}


def quiet(_: str) -> None:
    return


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "state")


def left(tmp_path: Path) -> list[str]:
    """Return the entries of the store except its lock."""
    return sorted(name for name in names_in(tmp_path / "state") if name != ".lock")


def archive(tmp_path: Path, *layers: bytes, name: str = "image.tar") -> Path:
    return write_file(tmp_path / name, tar_of(docker_files(list(layers) or [BASE, TOP], **FIELDS)))


@pytest.mark.parametrize("form", ["docker", "docker.gz", "oci", "oci plain", "oci directory", "docker directory"])
def test_all_archive_formats(tmp_path: Path, store: ImageStore, form: str) -> None:
    files = docker_files([BASE, TOP], **FIELDS)
    if form.startswith("oci"):
        files = oci_files([BASE, TOP], compressed="plain" not in form, **FIELDS)
    if "directory" in form:
        path = write_tree(tmp_path / "pieces", files)
    else:
        packed = tar_of(files)
        path = write_file(tmp_path / "f", gzip.compress(packed) if form.endswith("gz") else packed)
    reports: list[str] = []
    image = store.add("busybox", path, reports.append)
    assert reports == ["unpacking layer 1 of 2", "unpacking layer 2 of 2"]
    assert image.name == "docker.io/library/busybox:latest"
    assert (image.root / "etc/motd").read_text() == "two"
    assert (image.root / "etc/same").stat().st_ino == (image.root / "etc/motd").stat().st_ino
    assert not (image.root / "gone").exists()
    assert (image.root / "sh").readlink() == Path("/bin/busybox")
    assert stat.S_IMODE((image.root / "shut").stat().st_mode) == 0o500
    config = image.config
    assert (config.entrypoint, config.cmd, config.env) == ((), ("/sh",), {"A": "1"})
    assert (config.workdir, config.user) == ("/w", "7")
    assert image.size == len(BASE) + len(TOP)
    assert image.warnings == ()
    assert store.find("docker.io/library/busybox:latest") == image
    assert store.images() == [image]


def test_only_root_keeps_owners(tmp_path: Path, store: ImageStore) -> None:
    import io
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind in (("f", tarfile.REGTYPE), ("d", tarfile.DIRTYPE), ("s", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.uid, info.gid, info.mode, info.linkname = kind, 7, 8, 0o4755, "x"
            tar.addfile(info)
    image = store.add("x", archive(tmp_path, out.getvalue()), quiet)
    for name in ("f", "d", "s"):
        found = (image.root / name).lstat()
        assert (found.st_uid, found.st_gid) == ((7, 8) if os.geteuid() == 0 else (os.geteuid(), os.getegid()))
    assert stat.S_IMODE((image.root / "f").stat().st_mode) == 0o4755


def test_the_store_is_closed_to_other_users(tmp_path: Path, store: ImageStore) -> None:
    store.add("x", archive(tmp_path), quiet)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_an_archive_is_unpacked_once(tmp_path: Path, store: ImageStore) -> None:
    path = archive(tmp_path)
    first = store.add("x", path, quiet)
    reports: list[str] = []
    assert store.add("x", path, reports.append) == first
    assert store.add("y", path, reports.append).root == first.root
    assert reports == []


def test_a_changed_archive_is_unpacked_again(tmp_path: Path, store: ImageStore) -> None:
    first = store.add("x", archive(tmp_path), quiet)
    second = store.add("x", archive(tmp_path, BASE), quiet)
    assert first.digest != second.digest
    assert (second.root / "etc/motd").read_text() == "one"


def test_a_plain_directory_is_used_in_place(tmp_path: Path, store: ImageStore) -> None:
    root = write_tree(tmp_path / "root", {"bin/sh": b"", "manifest.json": b'{"name": "app"}'})
    image = store.add("x", root, quiet)
    assert (image.root, image.digest, image.config.cmd) == (root, "", ())
    assert store.find("x") == image
    with store.held(image):
        store.remove("x")
    assert root.is_dir()


def test_a_removed_directory_is_not_listed(tmp_path: Path, store: ImageStore) -> None:
    (tmp_path / "root").mkdir()
    store.add("x", tmp_path / "root", quiet)
    (tmp_path / "root").rmdir()
    assert store.images() == []
    assert store.find("x") is None


def test_an_image_without_layers(tmp_path: Path, store: ImageStore) -> None:
    """As from `FROM scratch` with only labels."""
    image = store.add("x", write_file(tmp_path / "empty.tar", tar_of(docker_files([], **FIELDS))), quiet)
    assert list(image.root.iterdir()) == []
    assert image.size == 0


def test_a_directory_for_one_run_is_not_added(tmp_path: Path, store: ImageStore) -> None:
    (tmp_path / "root").mkdir()
    assert store.obtain("x", tmp_path / "root", quiet).root == tmp_path / "root"
    assert store.find("x") is None
    assert store.obtain("x", archive(tmp_path), quiet) == store.find("x")


def test_a_path_that_cannot_be_read(tmp_path: Path, store: ImageStore) -> None:
    with pytest.raises(ImageError, match="file name too long"):
        store.obtain("x", tmp_path / ("x" * 300), quiet)


def test_removing(tmp_path: Path, store: ImageStore) -> None:
    path = archive(tmp_path)
    image = store.add("x", path, quiet)
    store.add("y", path, quiet)
    store.remove("x")
    assert store.find("x") is None
    assert image.root.is_dir()
    store.remove("y:latest")
    assert left(tmp_path) == ["names.json"]
    with pytest.raises(ImageError, match="there is no such image"):
        store.remove("y")


def test_an_image_in_use_is_not_removed(tmp_path: Path, store: ImageStore) -> None:
    image = store.add("x", archive(tmp_path), quiet)
    with store.held(image), store.held(image):
        with pytest.raises(ImageError, match="is used by a running job"):
            store.remove("x")
        assert store.find("x") == image
    store.remove("x")
    with pytest.raises(ImageError), store.held(image):
        pass


def test_a_lost_image_is_unpacked_again(tmp_path: Path, store: ImageStore) -> None:
    path = archive(tmp_path)
    image = store.add("x", path, quiet)
    (image.root.parent / "image.json").unlink()
    assert store.find("x") is None
    assert store.add("x", path, quiet) == image
    store.remove("x")
    assert left(tmp_path) == ["names.json"]


@pytest.mark.parametrize("text", ["", "[]", "nonsense"])
def test_a_damaged_list_of_names_is_empty(tmp_path: Path, store: ImageStore, text: str) -> None:
    store.add("x", archive(tmp_path), quiet)
    (tmp_path / "state/names.json").write_text(text)
    assert store.images() == []
    assert store.add("x", archive(tmp_path), quiet).name


def test_devices_are_reports(tmp_path: Path, store: ImageStore) -> None:
    image = store.add("x", archive(tmp_path, layer(device("dev/a"), device("dev/b"))), quiet)
    assert image.warnings == ("device files are left out; a pod has its own /dev (2)",)
    found = store.find("x")
    assert found is not None
    assert found.warnings == image.warnings


def test_another_machine_is_reports(tmp_path: Path, store: ImageStore) -> None:
    files = docker_files([BASE])
    name = json.loads(files["manifest.json"])[0]["Config"]
    document = {**json.loads(files.pop(name)), "architecture": "s390x"}
    manifest = [{"Config": "c", "Layers": ["l0/layer.tar"]}]
    files |= {"c": json.dumps(document).encode(), "manifest.json": json.dumps(manifest).encode()}
    [warning] = store.add("x", write_file(tmp_path / "f", tar_of(files)), quiet).warnings
    assert warning.startswith("is for s390x, this machine is ")


def test_the_store_itself_cannot_be_written(tmp_path: Path) -> None:
    """A file is in the place of the store."""
    (tmp_path / "file").touch()
    store = ImageStore(tmp_path / "file" / "state")
    with pytest.raises(ImageError, match=r"not a directory|file exists"):
        store.add("x", archive(tmp_path), quiet)


def _swapped() -> dict[str, bytes]:
    return {**docker_files([BASE, TOP]), "l1/layer.tar": BASE}


def _oci_damage() -> dict[str, bytes]:
    """The layer is other than its name says, although what it unpacks to is right."""
    files = oci_files([BASE])
    name = next(name for name, data in files.items() if data[:2] == b"\x1f\x8b")
    return {**files, name: gzip.compress(BASE, compresslevel=1, mtime=1)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"no archive" * 100, ": is damaged or cut short: ", id="no archive"),
        pytest.param(tar_of({"etc/passwd": b""}), ": is neither a Docker nor an OCI archive", id="a file system"),
        pytest.param(tar_of(docker_files([BASE]))[:3000], "is cut short", id="truncated archive"),
        pytest.param(tar_of(docker_files([BASE, TOP[:700]])), ": layer 2 of 2: ", id="truncated layer"),
        pytest.param(
            tar_of(docker_files([BASE, layer(E("../x"))])),
            ": layer 2 of 2: ../x: leaves the image",
            id="leaves the image",
        ),
        pytest.param(tar_of(docker_files([gzip.compress(BASE)[:-9]])), ": layer 1 of 1: is damaged or cut", id="gzip"),
        pytest.param(tar_of(docker_files([b"\x28\xb5\x2f\xfd12"])), ": layer 1 of 1: is ", id="zstd"),
        pytest.param(tar_of(_swapped()), ": layer 2 of 2: is damaged: its digest is", id="other layer"),
        pytest.param(tar_of(_oci_damage()), ": layer 1 of 1: is damaged: its digest is", id="other blob"),
        pytest.param(tar_of(docker_files([layer(E("a" * 255 + "b"))])), "layer 1 of 1: ", id="name too long"),
    ],
)
def test_bad_archives_leave_nothing_behind(tmp_path: Path, store: ImageStore, data: bytes, message: str) -> None:
    path = write_file(tmp_path / "bad.tar", data)
    before = names_in(tmp_path)
    with pytest.raises(ImageError) as caught:
        store.add("x", path, quiet)
    text = caught.value.problem.text
    assert message in text
    assert text.startswith(f"{path}: ")
    assert text.count(str(path)) == 1
    assert left(tmp_path) == []
    assert names_in(tmp_path) == sorted([*before, "state"])


@pytest.mark.parametrize(("path", "message"), [("missing.tar", "no such file"), ("/dev/null", "empty")])
def test_missing_and_special_files(tmp_path: Path, store: ImageStore, path: str, message: str) -> None:
    with pytest.raises(ImageError, match=message) as caught:
        store.add("x", tmp_path / path, quiet)
    assert caught.value.problem.text.startswith(str(tmp_path / path))


def test_an_invalid_name_changes_nothing(tmp_path: Path, store: ImageStore) -> None:
    with pytest.raises(ImageError, match="not a valid image name"):
        store.add("NO NAME", archive(tmp_path), quiet)
    assert not (tmp_path / "state").exists()


def test_interrupted_work_is_continued(tmp_path: Path, store: ImageStore) -> None:
    """After an interruption in the second layer, the first is not unpacked again."""
    path = archive(tmp_path)

    def die(text: str) -> None:
        if text == "unpacking layer 2 of 2":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.add("x", path, die)
    [partial] = left(tmp_path)
    # An incomplete layer leaves files, which are replaced.
    (tmp_path / "state" / partial / "rootfs/etc/same").write_text("half done")
    reports: list[str] = []
    image = store.add("x", path, reports.append)
    assert reports == ["unpacking layer 2 of 2"]
    assert (image.root / "etc/same").read_text() == "two"
    assert image.size == len(BASE) + len(TOP)


def test_leftovers_of_dead_processes_are_removed(tmp_path: Path, store: ImageStore) -> None:
    store.add("y", archive(tmp_path), quiet)
    for name in (".partial-0", ".removed-0"):
        write_tree(tmp_path / "state" / name, {"rootfs/x": b""})
    image = store.add("x", archive(tmp_path, BASE, name="other.tar"), quiet)
    assert not any(name.startswith(".") for name in left(tmp_path))
    assert image.root.is_dir()


ADD = """
import sys
from pathlib import Path
from pumice.engines.local.images.store import ImageStore
def report(text):
    print(text, flush=True)
    {before}
print(ImageStore(Path(sys.argv[1])).add("x", Path(sys.argv[2]), report).digest, flush=True)
"""


def start(tmp_path: Path, path: Path, before: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ADD.format(before=before), str(tmp_path / "state"), str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_kill_at_any_moment_then_add_again(tmp_path: Path, store: ImageStore) -> None:
    layers = [layer(*(E(f"l{number}/f{each}", b"x" * 3000) for each in range(300))) for number in range(4)]
    path = archive(tmp_path, *layers)
    for moment in range(6):
        with start(tmp_path, path) as process:
            assert process.stdout is not None
            for _ in range(moment % 3):
                process.stdout.readline()
            time.sleep(0.005 * moment)
            process.kill()
    image = store.add("x", path, quiet)
    assert sum(1 for found in image.root.rglob("f*") if found.stat().st_size == 3000) == 1200
    assert sorted(left(tmp_path)) == sorted([image.digest.removeprefix("sha256:"), "names.json"])


def test_waiting_for_another_process_is_reported(tmp_path: Path, store: ImageStore) -> None:
    path = archive(tmp_path)
    with start(tmp_path, path, before="sys.stdin.readline()") as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "unpacking layer 1 of 2\n"
        reports: list[str] = []

        def report(text: str) -> None:
            reports.append(text)
            # The other process continues only after we have waited.
            other.communicate("\n\n", timeout=PATIENCE)

        store.add("y", path, report)
    assert reports == ["waiting for another pumice process that changes the images"]


def test_two_processes_at_once(tmp_path: Path, store: ImageStore) -> None:
    path = archive(tmp_path, layer(*(E(f"f{number}", b"x" * 2000) for number in range(1000))))
    with start(tmp_path, path) as one, start(tmp_path, path) as two:
        outputs = [process.communicate(timeout=PATIENCE)[0].splitlines() for process in (one, two)]
    assert outputs[0][-1] == outputs[1][-1]
    assert sum("unpacking layer 1 of 1" in output for output in outputs) == 1


FULL = """
mount -t tmpfs -o size=300k none "$1" || exit 77
exec "$2" -c "$3" "$1" "$4"
"""


def test_a_full_disk(tmp_path: Path) -> None:
    path = archive(tmp_path, BASE, layer(E("big", bytes(1_000_000))))
    (tmp_path / "state").mkdir()
    arguments = [str(tmp_path / "state"), sys.executable, ADD.format(before=""), str(path)]
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", FULL, "sh", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no user namespaces: {done.stderr.strip()}")
    assert "layer 2 of 2: the disk is full" in done.stderr


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        pytest.param({"HOME": "/h"}, "/h/.local/state/pumice/images", id="home"),
        pytest.param({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s/pumice/images", id="state home"),
        pytest.param({"HOME": "/h", "XDG_STATE_HOME": "s"}, "/h/.local/state/pumice/images", id="relative"),
    ],
)
def test_images_directory(environ: dict[str, str], directory: str) -> None:
    assert images_directory(environ) == Path(directory)

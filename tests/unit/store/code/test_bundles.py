from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from pumice.store.code.bundles import Bundle, make_bundle, unpack
from pumice.store.code.selection import CodeFile, CodeFiles, select_files
from pumice.store.run_errors import InvalidOption, StoreError
from tests.unit.store.code.repositories import contents, write

FILES = {"b.py": "b", "a/x y.py": "x", "a.py": "a"}


def test_equal_files_make_equal_bundles(tmp_path: Path) -> None:
    write(tmp_path / "one", FILES)
    write(tmp_path / "two", dict(reversed(FILES.items())))
    for path in (tmp_path / "two").rglob("*.py"):
        os.utime(path, (1, 1))
    one, two = (make_bundle(select_files(str(tmp_path / name))) for name in ("one", "two"))
    assert one == two
    assert (one.files, one.sizes) == (3, {"a.py": 1, "a/x y.py": 1, "b.py": 1})
    assert one.sha256 == hashlib.sha256(one.data).hexdigest()


def test_unpacks_what_was_packed(tmp_path: Path) -> None:
    write(tmp_path / "one", FILES)
    (tmp_path / "one" / "run.sh").touch(0o755)
    (tmp_path / "one" / "link").symlink_to("a/x y.py")
    unpack(make_bundle(select_files(str(tmp_path / "one"))), tmp_path / "two")
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert (tmp_path / "two" / "run.sh").stat().st_mode & 0o777 == 0o755


def test_what_is_not_all_listed_makes_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="more than 10000 files besides those that git tracks"):
        make_bundle(CodeFiles(str(tmp_path), (), is_complete=False))


def test_what_is_too_large_names_the_largest(tmp_path: Path) -> None:
    files = CodeFiles(str(tmp_path), (CodeFile("small", 0o644, 1), CodeFile("large", 0o644, 2 << 30)))
    with pytest.raises(InvalidOption, match=r"2 GiB of code[\s\S]*large \(2 GiB\)"):
        make_bundle(files)


def _bundle(*entries: tuple[str, bytes, str]) -> Bundle:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, kind, target in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, target
            tar.addfile(entry, io.BytesIO())
    data = gzip.compress(archive.getvalue())
    return Bundle(hashlib.sha256(data).hexdigest(), data, len(entries), {})


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(("../out", tarfile.REGTYPE, ""), id="upwards"),
        pytest.param(("/out", tarfile.REGTYPE, ""), id="absolute"),
        pytest.param((".git/hooks/post-checkout", tarfile.REGTYPE, ""), id="a hook"),
        pytest.param(("link", tarfile.SYMTYPE, "../out"), id="a link outside"),
        pytest.param(("link", tarfile.SYMTYPE, "/etc"), id="an absolute link"),
        pytest.param(("link", tarfile.LNKTYPE, "other"), id="a hard link"),
        pytest.param(("pipe", tarfile.FIFOTYPE, ""), id="a pipe"),
        pytest.param(("disk", tarfile.BLKTYPE, ""), id="a device"),
    ],
)
def test_a_hostile_bundle_writes_nothing(tmp_path: Path, entry: tuple[str, bytes, str]) -> None:
    with pytest.raises(StoreError, match="refused"):
        unpack(_bundle(("good.py", tarfile.REGTYPE, ""), entry), tmp_path / "new")
    assert [*tmp_path.iterdir()] == []


def test_a_link_of_the_bundle_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"new/x": ""})
    bundle = _bundle(("d", tarfile.SYMTYPE, "e"), ("d/f", tarfile.REGTYPE, ""))
    with pytest.raises(OSError, match=r"\w"):
        unpack(bundle, tmp_path / "target")
    assert contents(tmp_path / "target") == {"d": "-> e"}


def test_damaged_bundles_and_existing_directories_are_refused(tmp_path: Path) -> None:
    good = _bundle(("a", tarfile.REGTYPE, ""))
    with pytest.raises(StoreError, match="damaged"):
        unpack(Bundle(good.sha256, good.data[:-1], 1, {}), tmp_path / "new")
    cut = good.data[: len(good.data) // 2]
    with pytest.raises(StoreError, match="damaged"):
        unpack(Bundle(hashlib.sha256(cut).hexdigest(), cut, 1, {}), tmp_path / "new")
    with pytest.raises(InvalidOption, match="exists"):
        unpack(good, tmp_path)

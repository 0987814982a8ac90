from __future__ import annotations

import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.layers import RootDirectory
from pumice.store.files.remove_tree import remove_tree
from tests.patience import PATIENCE
from tests.unit.engines.local.images.archives import (
    E,
    device,
    directory,
    hard_link,
    layer,
    names_in,
    open_files,
    stream,
    symlink,
)


def unpacked(path: Path, *layers: bytes) -> RootDirectory:
    path.mkdir(exist_ok=True)
    # Without owners, so that root and other users get the same result.
    root = RootDirectory(path, keep_owners=False)
    for data in layers:
        root.apply(stream(data))
    root.finish()
    return root


def tree(directory: Path) -> dict[str, str]:
    """Return all paths with `/` for a directory, `-> x` for a link, and the text of a file."""
    found = {}
    for path in sorted(directory.rglob("*")):
        content = "/" if path.is_dir() else "" if path.is_symlink() else path.read_text()
        found[str(path.relative_to(directory))] = f"-> {path.readlink()}" if path.is_symlink() else content
    return found


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        pytest.param([[E("a", b"1")]], {"a": "1"}, id="file"),
        pytest.param([[E("./a", b"1"), directory("./d/")]], {"a": "1", "d": "/"}, id="dotted"),
        pytest.param([[E("/a", b"1")]], {"a": "1"}, id="absolute name"),
        pytest.param([[E("d/e/f", b"1")]], {"d": "/", "d/e": "/", "d/e/f": "1"}, id="missing parents"),
        pytest.param([[E("d/../a", b"1")]], {"a": "1"}, id=".. within the image"),
        pytest.param([[E("a", b"1"), E("a", b"2")]], {"a": "2"}, id="duplicate entry"),
        pytest.param([[E("a", b"1")], [E("a", b"2")]], {"a": "2"}, id="upper layer"),
        pytest.param([[symlink("s", "/etc/passwd")]], {"s": "-> /etc/passwd"}, id="absolute link"),
        pytest.param([[symlink("s", "../../../x")]], {"s": "-> ../../../x"}, id="link with .."),
        pytest.param([[symlink("s", "a")], [E("s", b"1")]], {"s": "1"}, id="a file replaces a link"),
        pytest.param(
            [[directory("d"), symlink("s", "d")], [directory("s"), E("s/a", b"1")]],
            {"d": "/", "s": "/", "s/a": "1"},
            id="a directory replaces a link",
        ),
        pytest.param([[E("d/a", b"1")], [E("d", b"2")]], {"d": "2"}, id="a file replaces a directory"),
        pytest.param([[E("d", b"1")], [directory("d")]], {"d": "/"}, id="a directory replaces a file"),
        pytest.param([[E("d/a", b"1")], [directory("d")]], {"d": "/", "d/a": "1"}, id="directories are merged"),
        pytest.param([[E("a", b"1"), hard_link("b", "a")]], {"a": "1", "b": "1"}, id="hard link"),
        pytest.param([[E("a", b"1")], [hard_link("b", "/a")]], {"a": "1", "b": "1"}, id="hard link to a lower layer"),
        pytest.param([[E("a", b"1"), hard_link("a", "a")]], {"a": "1"}, id="hard link to itself"),
        pytest.param(
            [[symlink("s", "/x"), hard_link("t", "s")]], {"s": "-> /x", "t": "-> /x"}, id="hard link to a link"
        ),
        pytest.param([[E("a", b"1"), E("b", b"2")], [E(".wh.a")]], {"b": "2"}, id="whiteout"),
        pytest.param([[E("d/a", b"1")], [E(".wh.d")]], {}, id="whiteout of a directory"),
        pytest.param([[E("d/a", b"1")], [E("d/.wh.a")]], {"d": "/"}, id="whiteout below"),
        pytest.param([[E("a", b"1")], [E(".wh.b"), E("x/.wh.y")]], {"a": "1"}, id="whiteout of nothing"),
        pytest.param([[E("a", b"1")], [E("a", b"2"), E(".wh.a")]], {"a": "2"}, id="whiteout after a file of its layer"),
        pytest.param(
            [[E("a", b"1")], [E(".wh.a"), E("a", b"2")]], {"a": "2"}, id="whiteout before a file of its layer"
        ),
        pytest.param(
            [[E("d/a", b"1"), E("d/e/b", b"2")], [E("d/.wh..wh..opq"), E("d/c", b"3")]],
            {"d": "/", "d/c": "3"},
            id="opaque",
        ),
        pytest.param(
            [[E("d/a", b"1"), E("d/e/b", b"2")], [E("d/e/c", b"3"), E("d/.wh..wh..opq")]],
            {"d": "/", "d/e": "/", "d/e/c": "3"},
            id="opaque after files of its layer",
        ),
        pytest.param(
            [[E("a", b"1")], [E("a/.wh..wh..opq"), E("b/.wh..wh..opq")]], {"a": "1"}, id="opaque without a directory"
        ),
        pytest.param([[E("a", b"1")], [E(".wh..wh.plnk"), E(".wh..wh.aufs")]], {"a": "1"}, id="bookkeeping"),
        pytest.param([[E("a" * 200, b"1")]], {"a" * 200: "1"}, id="long name"),
        pytest.param([[]], {}, id="empty layer"),
    ],
)
def test_layers(tmp_path: Path, layers: list[list[E]], expected: dict[str, str]) -> None:
    unpacked(tmp_path / "root", *(layer(*entries) for entries in layers))
    assert tree(tmp_path / "root") == expected


def test_applying_a_layer_again_changes_nothing(tmp_path: Path) -> None:
    lower = layer(E("a", b"1"), E("d/x", b"1"), E("gone", b"1"))
    upper = layer(E("d/y", b"2"), E("d/.wh..wh..opq"), E(".wh.gone"), hard_link("l", "d/y"), symlink("s", "d"), E("a"))
    unpacked(tmp_path / "once", lower, upper)
    unpacked(tmp_path / "twice", lower, upper, upper)
    assert tree(tmp_path / "once") == tree(tmp_path / "twice")


def test_modes_and_times(tmp_path: Path) -> None:
    entries = [
        E("su", b"x", mode=0o4755),
        E("none", b"x", mode=0),
        directory("sticky", 0o1777),
        directory("shut", 0o500),
        E("shut/inner", b"1"),
        E("fifo", kind=tarfile.FIFOTYPE, mode=0o640),
    ]
    unpacked(tmp_path / "root", layer(*entries))
    modes = {name: stat.S_IMODE((tmp_path / "root" / name).stat().st_mode) for name in ("su", "none", "sticky", "shut")}
    assert modes == {"su": 0o4755, "none": 0, "sticky": 0o1777, "shut": 0o500}
    assert (tmp_path / "root/su").stat().st_mtime == 1_000_000_000
    assert stat.S_ISFIFO((tmp_path / "root/fifo").stat().st_mode)


def test_a_closed_directory_can_be_changed_by_the_next_layer(tmp_path: Path) -> None:
    layers = [layer(directory("d", 0o000), E("d/a", b"1")), layer(E("d/b", b"2")), layer(directory("e", 0), E(".wh.e"))]
    unpacked(tmp_path / "root", *layers)
    assert stat.S_IMODE((tmp_path / "root/d").stat().st_mode) == 0
    (tmp_path / "root/d").chmod(0o700)
    assert tree(tmp_path / "root")["d/b"] == "2"
    remove_tree(tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_the_mode_of_the_root(tmp_path: Path) -> None:
    unpacked(tmp_path / "root", layer(directory("./", 0o711)))
    assert stat.S_IMODE((tmp_path / "root").stat().st_mode) == 0o711


def test_invalid_times_are_ignored(tmp_path: Path) -> None:
    unpacked(tmp_path / "root", layer(E("a", b"1", mtime=2**62)))
    assert tree(tmp_path / "root") == {"a": "1"}


def test_devices_are_left_out_with_a_warning(tmp_path: Path) -> None:
    root = unpacked(tmp_path / "root", layer(device("dev/null"), device("dev/sda"), E("a", b"1")))
    assert tree(tmp_path / "root") == {"a": "1"}
    assert root.warnings == {"device files are left out; a pod has its own /dev": 2}


def test_file_capabilities_cause_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "pax.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("ping")
        info.pax_headers = {"SCHILY.xattr.security.capability": "x"}
        archive.addfile(info)
    assert unpacked(tmp_path / "root", path.read_bytes()).warnings == {"file capabilities are not kept": 1}


def test_sparse_files_stay_sparse(tmp_path: Path) -> None:
    """A file of a gigabyte with one block of data."""
    header = tarfile.TarInfo("big")
    header.type, header.size = tarfile.GNUTYPE_SPARSE, 512
    block = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    offset, size = 1 << 29, 1 << 30
    block[386:398], block[398:410] = b"%011o\0" % offset, b"%011o\0" % 512
    block[483:495] = b"%011o\0" % size
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block)
    unpacked(tmp_path / "root", bytes(block) + b"x" * 512 + bytes(1024))
    found = (tmp_path / "root/big").stat()
    assert found.st_size == size
    assert found.st_blocks * 512 < 1 << 20
    with (tmp_path / "root/big").open("rb") as file:
        file.seek(offset)
        assert file.read(513) == b"x" * 512 + b"\0"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        pytest.param([E("../x")], "../x: leaves the image", id=".."),
        pytest.param([E("a/../../x")], "a/../../x: leaves the image", id=".. in the middle"),
        pytest.param([E("/../x")], "/../x: leaves the image", id=".. from the root"),
        pytest.param([directory("..")], "..: leaves the image", id="the parent itself"),
        pytest.param(
            [symlink("s", "/"), E("s/x")], "s: is a symbolic link to /, which is not followed", id="through /"
        ),
        pytest.param([symlink("s", ".."), E("s/x")], "s: is a symbolic link to ..", id="through .."),
        pytest.param(
            [symlink("s", "."), E("s/x")], "s: is a symbolic link to .", id="through a link that stays inside"
        ),
        pytest.param([symlink("s", "/"), directory("s/d/e")], "s: is a symbolic link", id="directory through a link"),
        pytest.param([symlink("s", "/"), E("s/.wh.x")], "s: is a symbolic link", id="whiteout through a link"),
        pytest.param([symlink("d/s", "/"), symlink("d/s/t", "x")], "d/s: is a symbolic link", id="link through a link"),
        pytest.param([hard_link("x", "../../etc/passwd")], "leaves the image", id="hard link outside"),
        pytest.param([hard_link("x", "/etc/passwd")], "is not in the image", id="absolute hard link"),
        pytest.param([symlink("s", "/etc"), hard_link("x", "s/passwd")], "s: is a symbolic link", id="link by a link"),
        pytest.param([directory("d"), hard_link("x", "d")], "which is a directory", id="hard link to a directory"),
        pytest.param([E("a/b", b"1"), hard_link("a", "a/b")], "which it would replace", id="hard link into itself"),
        pytest.param([symlink("a", "")], "a: is a symbolic link to nothing", id="empty link"),
        pytest.param([hard_link("x", ".")], "is not in the image", id="hard link to the root"),
        pytest.param([E("a", b"1"), E("a/b")], "a: is not a directory", id="through a file"),
        pytest.param([E(".wh..")], "is not a valid whiteout", id="whiteout of ."),
        pytest.param([E("d/.wh...")], "is not a valid whiteout", id="whiteout of .."),
        pytest.param([E(".wh.")], "is not a valid whiteout", id="whiteout of no name"),
        pytest.param([E("./", b"x")], "root of the image must be a directory", id="the root as a file"),
        pytest.param([E("d/" * 300 + "x")], "is not a valid file name", id="too deep"),
        pytest.param([E("x" * 4000)], "is not a valid file name", id="too long"),
    ],
)
def test_entries_outside_of_the_image_are_refused(tmp_path: Path, entries: list[E], message: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    before = {path: path.lstat().st_mtime_ns for path in (tmp_path, outside, outside / "kept")}
    (tmp_path / "box").mkdir()
    (tmp_path / "box/root").mkdir()
    before[tmp_path] = tmp_path.lstat().st_mtime_ns
    with pytest.raises(ImageError) as caught:
        unpacked(tmp_path / "box/root", layer(*entries))
    assert message in str(caught.value)
    assert names_in(tmp_path / "box") == ["root"]
    assert {path: path.lstat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(layer(E("a", b"x" * 4000))[:1000], "cut short", id="truncated data"),
        pytest.param(layer(E("a", b"1"), E("b", b"2"))[:1200], "cut short", id="truncated header"),
        pytest.param(layer(E("a", b"1"), end=False) + b"garbage" * 200, "damaged", id="invalid header"),
        pytest.param(b"", "empty", id="empty"),
        pytest.param(layer(E("a", b"1", size=2**40)), "unexpected end of data", id="claims a terabyte"),
        pytest.param(layer(E("x", b"y" * 100, tarfile.GNUTYPE_LONGNAME, size=2**35)), "impossible", id="long name"),
        pytest.param(layer(E("x", b"y" * 100, tarfile.GNUTYPE_LONGLINK, size=2**35)), "impossible", id="long link"),
        pytest.param(layer(E("x", b"y" * 100, tarfile.XHDTYPE, size=2**35)), "impossible", id="pax header"),
        pytest.param(layer(E("x", b"y" * 100, tarfile.XGLTYPE, size=2**35)), "impossible", id="global pax header"),
    ],
)
def test_damaged_layers(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        unpacked(tmp_path / "root", data)


def test_a_negative_size_is_refused(tmp_path: Path) -> None:
    block = bytearray(layer(E("a"), end=False))
    block[124:136] = (2**96 - 1024).to_bytes(12, "big")
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block)
    with pytest.raises(ImageError):
        unpacked(tmp_path / "root", bytes(block) + bytes(1024))


def test_unknown_owners_cause_a_warning(tmp_path: Path) -> None:
    """A user namespace with root alone has no other owners."""
    program = """
import sys
from pathlib import Path
from pumice.engines.local.images.layers import RootDirectory
from tests.unit.engines.local.images.archives import E, layer, stream
data = layer(E("a", b"1", uid=4711))
root = RootDirectory(Path(sys.argv[1]), keep_owners=True)
root.apply(stream(data))
print(root.warnings)
"""
    root = Path(__file__).parents[5]
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=root)
    if "unshare" in done.stderr:
        pytest.skip(f"no user namespaces: {done.stderr.strip()}")
    assert done.stdout == "{'owners that do not exist on this machine are not kept': 1}\n"
    assert (tmp_path / "a").read_text() == "1"


def test_thousands_of_entries(tmp_path: Path) -> None:
    entries = [E(f"d{number % 50}/e{number % 7}/f{number}", b"x") for number in range(5000)]
    before = open_files()
    unpacked(tmp_path / "root", layer(*entries))
    assert sum(1 for path in (tmp_path / "root").rglob("f*")) == 5000
    assert open_files() == before


names = st.lists(st.sampled_from(["a", "b", ".", "..", "", ".wh.a", ".wh..wh..opq", "s"]), min_size=1, max_size=4)
entry_kinds = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
entries = st.builds(
    lambda name, kind, link: E("/".join(name), b"x" if kind == tarfile.REGTYPE else b"", kind, "/".join(link)),
    names,
    entry_kinds,
    names,
)


@given(st.lists(st.lists(entries, max_size=6), min_size=1, max_size=3))
def test_no_layer_writes_outside_of_the_image(tmp_path_factory: pytest.TempPathFactory, layers: list[list[E]]) -> None:
    box = tmp_path_factory.mktemp("box")
    (box / "b").mkdir()
    (box / "b/kept").write_text("kept")
    root = RootDirectory(box / "b/root", keep_owners=False)
    (box / "b/root").mkdir()
    try:
        for entries in layers:
            root.apply(stream(layer(*entries)))
        root.finish()
    except ImageError:
        pass
    assert names_in(box / "b") == ["kept", "root"]
    assert names_in(box) == ["b"]
    assert (box / "b/kept").stat().st_nlink == 1
    remove_tree(box)

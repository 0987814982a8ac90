from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from pumice.engines.local.volumes.apply import VolumeFiles
from pumice.engines.local.volumes.data_sources import Entry
from pumice.engines.local.volumes.plan import pod_directory
from pumice.engines.local.volumes.steps import HostPath, MakeDirectory, SubPath, WriteFiles


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch"


@pytest.fixture
def files(scratch: Path) -> VolumeFiles:
    return VolumeFiles(scratch)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def written(place: Path, **entries: Entry) -> WriteFiles:
    return WriteFiles(place, tuple((name.replace("__", "/"), entry) for name, entry in entries.items()))


def test_others_have_no_way_in(scratch: Path, files: VolumeFiles) -> None:
    scratch.mkdir(0o755)
    assert files.prepare([written(scratch / "shared/s", key=Entry(b"secret", 0o444))]) == []
    assert mode(scratch) == 0o700
    assert mode(scratch / "shared") == 0o700
    assert mode(scratch / "shared/s/key") == 0o444


def test_files_are_what_they_should_be(scratch: Path, files: VolumeFiles) -> None:
    place = scratch / "v"
    assert files.prepare([written(place, a=Entry(b"1", 0o600), d__e__f=Entry(b"2", 0o755))]) == []
    assert (place / "a").read_bytes() == b"1"
    assert (place / "d/e/f").read_bytes() == b"2"
    assert [mode(place / path) for path in ("", "a", "d", "d/e", "d/e/f")] == [0o755, 0o600, 0o755, 0o755, 0o755]


def test_files_are_replaced_whole_and_old_ones_go(scratch: Path, files: VolumeFiles) -> None:
    place = scratch / "v"
    files.prepare([written(place, a=Entry(b"1"), d__x=Entry(b"2"))])
    before = (place / "a").open("rb")
    directory = place.stat().st_ino
    assert files.prepare([written(place, a=Entry(b"new", 0o400), b=Entry(b"3"))]) == []
    with before:
        assert before.read() == b"1"
    assert (place / "a").read_bytes() == b"new"
    assert sorted(path.name for path in place.rglob("*")) == ["a", "b"]
    # A pod has this very directory mounted.
    assert place.stat().st_ino == directory


def test_a_volume_is_given_to_the_group_of_the_pod(scratch: Path, files: VolumeFiles) -> None:
    """Our own group, because everyone may give a file to that."""
    place, data = scratch / "claim", scratch / "data"
    files.prepare([MakeDirectory(place, 0o700)])
    (place / "old").mkdir(0o700)
    (place / "old" / "file").touch(0o600)
    outside = scratch / "outside"
    outside.touch(0o600)
    (place / "link").symlink_to(outside)
    os.mkfifo(place / "pipe", 0o600)
    secret = WriteFiles(data, (("k", Entry(b"1", 0o400)),), os.getgid())
    assert files.prepare([MakeDirectory(place, 0o700, os.getgid()), secret]) == []
    assert [mode(place / path) for path in ("", "old", "old/file")] == [0o2770, 0o2770, 0o660]
    assert [mode(outside), mode(place / "pipe")] == [0o600, 0o660]
    assert [mode(data), mode(data / "k")] == [0o2755, 0o440]
    assert {path.stat().st_gid for path in (place, place / "old/file", data / "k")} == {os.getgid()}


def test_a_group_that_cannot_be_given_is_no_problem(
    scratch: Path, files: VolumeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    assert files.prepare([MakeDirectory(scratch / "v", 0o777, 7)]) == []
    assert mode(scratch / "v") == 0o777


def test_the_same_again_touches_nothing(scratch: Path, files: VolumeFiles) -> None:
    step = written(scratch / "v", a=Entry(b"1"))
    files.prepare([step])
    inode = (scratch / "v/a").stat().st_ino
    files.prepare([step])
    assert (scratch / "v/a").stat().st_ino == inode


def test_a_directory_keeps_what_is_in_it(scratch: Path, files: VolumeFiles) -> None:
    step = MakeDirectory(scratch / "a/b", 0o777)
    assert files.prepare([step]) == []
    assert mode(scratch / "a/b") == 0o777
    (scratch / "a/b/kept").touch()
    (scratch / "a/b").chmod(0o750)
    assert files.prepare([step]) == []
    assert mode(scratch / "a/b") == 0o750
    assert (scratch / "a/b/kept").exists()


def test_a_pod_goes_with_its_volumes(scratch: Path, files: VolumeFiles) -> None:
    own = pod_directory(scratch, "u") / "volumes"
    step = written(own / "d", a=Entry(b"1"))
    files.prepare([MakeDirectory(own / "v", 0o777), step, written(scratch / "shared/s", a=Entry(b"1"))])
    (own / "v/link").symlink_to(scratch / "shared")
    files.remove_pod("u")
    assert not pod_directory(scratch, "u").exists()
    assert (scratch / "shared/s/a").exists()
    files.remove_pod("u")
    files.prepare([step])
    assert (own / "d/a").exists()


def test_host_paths(tmp_path: Path, files: VolumeFiles) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "f").touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
    (tmp_path / "link").symlink_to("d")
    kinds = {"d": "Directory", "f": "File", "s": "Socket", "link": "Directory"}
    for name, kind in kinds.items():
        for claimed in ("Directory", "File", "Socket", "BlockDevice", "CharDevice"):
            problems = files.prepare([HostPath(tmp_path / name, claimed, "v")])
            assert [str(problem) for problem in problems] == (
                [] if claimed == kind else [f"volume v: hostPath {tmp_path / name}: is not of type {claimed}"]
            )
    assert files.prepare([HostPath(Path("/dev/null"), "CharDevice", "v")]) == []
    assert files.prepare([HostPath(tmp_path / "f", "", "v"), HostPath(tmp_path / "f", "Odd", "v")]) == []


def test_host_paths_that_are_made(tmp_path: Path, files: VolumeFiles) -> None:
    steps = [
        HostPath(tmp_path / "a/b", "DirectoryOrCreate", "v"),
        HostPath(tmp_path / "c/d", "", "v"),
        HostPath(tmp_path / "a/f", "FileOrCreate", "v"),
    ]
    assert files.prepare(steps) == []
    assert (tmp_path / "a/b").is_dir()
    assert (tmp_path / "c/d").is_dir()
    assert (tmp_path / "a/f").is_file()


def test_host_paths_that_are_not_there(tmp_path: Path, files: VolumeFiles) -> None:
    (tmp_path / "f").touch()
    problems = files.prepare(
        [
            HostPath(tmp_path / "x", "Directory", "v"),
            HostPath(tmp_path / "n/f", "FileOrCreate", "v"),
            HostPath(tmp_path / "f/x", "DirectoryOrCreate", "v"),
        ]
    )
    assert all(problem.fatal for problem in problems)
    assert [problem.message for problem in problems] == [
        f"volume v: hostPath {tmp_path}/x: is not there",
        f"volume v: {tmp_path}/n/f: no such file or directory",
        f"volume v: {tmp_path}/f/x: not a directory",
    ]


def test_parts_are_made_if_they_are_not_there(scratch: Path, files: VolumeFiles) -> None:
    assert files.prepare([MakeDirectory(scratch / "v", 0o777), SubPath(scratch / "v", "a/b", "v")]) == []
    assert (scratch / "v/a/b").is_dir()
    (scratch / "v/file").touch()
    assert files.prepare([SubPath(scratch / "v", "file", "v")]) == []


@pytest.mark.parametrize("within", ["link", "link/x", "d/link"])
def test_a_link_that_a_pod_has_laid_is_not_followed(scratch: Path, files: VolumeFiles, within: str) -> None:
    (scratch / "v/d").mkdir(parents=True)
    (scratch / "v/link").symlink_to("/etc")
    (scratch / "v/d/link").symlink_to("/etc")
    [problem] = files.prepare([SubPath(scratch / "v", within, "v")])
    assert problem.fatal
    assert "is a symbolic link, which is not followed" in problem.message


def test_what_cannot_be_written_is_told(scratch: Path, files: VolumeFiles) -> None:
    scratch.mkdir()
    (scratch / "f").touch()
    [problem] = files.prepare([MakeDirectory(scratch / "f/x", 0o777)])
    assert problem.fatal
    assert problem.message == f"{scratch}/f: file exists"
    assert os.listdir(scratch) == ["f"]  # noqa: PTH208 - names are what is compared

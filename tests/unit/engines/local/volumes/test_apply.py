from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from pumice.engines.local.volumes.apply import VolumeFiles
from pumice.engines.local.volumes.volume_plan import Entry, HostPath, MakeDirectory, SubPath, WriteFiles, pod_directory


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch"


@pytest.fixture
def files(scratch: Path) -> VolumeFiles:
    return VolumeFiles(scratch)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def written(directory: Path, **entries: Entry) -> WriteFiles:
    return WriteFiles(directory, tuple((name.replace("__", "/"), entry) for name, entry in entries.items()))


def test_the_scratch_directory_is_closed_to_other_users(scratch: Path, files: VolumeFiles) -> None:
    scratch.mkdir(0o755)
    assert files.prepare([written(scratch / "shared/s", key=Entry(b"secret", 0o444))]) == []
    assert mode(scratch) == 0o700
    assert mode(scratch / "shared") == 0o700
    assert mode(scratch / "shared/s/key") == 0o444


def test_files_have_their_content_and_mode(scratch: Path, files: VolumeFiles) -> None:
    directory = scratch / "v"
    assert files.prepare([written(directory, a=Entry(b"1", 0o600), d__e__f=Entry(b"2", 0o755))]) == []
    assert (directory / "a").read_bytes() == b"1"
    assert (directory / "d/e/f").read_bytes() == b"2"
    assert [mode(directory / path) for path in ("", "a", "d", "d/e", "d/e/f")] == [0o755, 0o600, 0o755, 0o755, 0o755]


def test_files_are_replaced_by_renaming_and_old_ones_removed(scratch: Path, files: VolumeFiles) -> None:
    directory = scratch / "v"
    files.prepare([written(directory, a=Entry(b"1"), d__x=Entry(b"2"))])
    before = (directory / "a").open("rb")
    inode = directory.stat().st_ino
    assert files.prepare([written(directory, a=Entry(b"new", 0o400), b=Entry(b"3"))]) == []
    with before:
        assert before.read() == b"1"
    assert (directory / "a").read_bytes() == b"new"
    assert sorted(path.name for path in directory.rglob("*")) == ["a", "b"]
    # A pod has this directory mounted.
    assert directory.stat().st_ino == inode


def test_a_volume_belongs_to_the_fs_group(scratch: Path, files: VolumeFiles) -> None:
    """With our own group, which every user may set."""
    directory, data = scratch / "claim", scratch / "data"
    files.prepare([MakeDirectory(directory, 0o700)])
    (directory / "old").mkdir(0o700)
    (directory / "old" / "file").touch(0o600)
    outside = scratch / "outside"
    outside.touch(0o600)
    (directory / "link").symlink_to(outside)
    os.mkfifo(directory / "pipe", 0o600)
    secret = WriteFiles(data, (("k", Entry(b"1", 0o400)),), os.getgid())
    assert files.prepare([MakeDirectory(directory, 0o700, os.getgid()), secret]) == []
    assert [mode(directory / path) for path in ("", "old", "old/file")] == [0o2770, 0o2770, 0o660]
    assert [mode(outside), mode(directory / "pipe")] == [0o600, 0o660]
    assert [mode(data), mode(data / "k")] == [0o2755, 0o440]
    assert {path.stat().st_gid for path in (directory, directory / "old/file", data / "k")} == {os.getgid()}


def test_a_group_that_cannot_be_set_is_no_problem(
    scratch: Path, files: VolumeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    assert files.prepare([MakeDirectory(scratch / "v", 0o777, 7)]) == []
    assert mode(scratch / "v") == 0o777


def test_repeating_a_step_changes_nothing(scratch: Path, files: VolumeFiles) -> None:
    step = written(scratch / "v", a=Entry(b"1"))
    files.prepare([step])
    inode = (scratch / "v/a").stat().st_ino
    files.prepare([step])
    assert (scratch / "v/a").stat().st_ino == inode


def test_an_existing_directory_keeps_mode_and_content(scratch: Path, files: VolumeFiles) -> None:
    step = MakeDirectory(scratch / "a/b", 0o777)
    assert files.prepare([step]) == []
    assert mode(scratch / "a/b") == 0o777
    (scratch / "a/b/kept").touch()
    (scratch / "a/b").chmod(0o750)
    assert files.prepare([step]) == []
    assert mode(scratch / "a/b") == 0o750
    assert (scratch / "a/b/kept").exists()


def test_remove_pod_removes_its_own_volumes(scratch: Path, files: VolumeFiles) -> None:
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
    kinds = {"d": "Directory", "f": "File", "s": "Socket"}
    for name, kind in kinds.items():
        for declared in ("Directory", "File", "Socket", "BlockDevice", "CharDevice"):
            problems = files.prepare([HostPath(tmp_path / name, declared, "v")])
            assert [str(problem) for problem in problems] == (
                [] if declared == kind else [f"volume v: hostPath {tmp_path / name}: is not of type {declared}"]
            )
    assert files.prepare([HostPath(Path("/dev/null"), "CharDevice", "v")]) == []
    assert files.prepare([HostPath(tmp_path / "f", "", "v"), HostPath(tmp_path / "f", "Odd", "v")]) == []


def test_host_paths_that_are_created(tmp_path: Path, files: VolumeFiles) -> None:
    steps = [
        HostPath(tmp_path / "a/b", "DirectoryOrCreate", "v"),
        HostPath(tmp_path / "c/d", "", "v"),
        HostPath(tmp_path / "a/f", "FileOrCreate", "v"),
    ]
    assert files.prepare(steps) == []
    assert (tmp_path / "a/b").is_dir()
    assert (tmp_path / "c/d").is_dir()
    assert (tmp_path / "a/f").is_file()


def test_a_link_in_a_host_path_was_made_by_a_pod(tmp_path: Path, files: VolumeFiles) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "link").symlink_to("d")
    for name in ("link", "link/new", "link/new/deep"):
        for kind in ("", "Directory", "DirectoryOrCreate", "FileOrCreate"):
            [problem] = files.prepare([HostPath(tmp_path / name, kind, "v")])
            message = f"hostPath {tmp_path / name}: a pod has put a symbolic link into the path, which is not followed"
            assert problem.message == f"volume v: {message}"
    assert list((tmp_path / "d").iterdir()) == []


def test_missing_host_paths(tmp_path: Path, files: VolumeFiles) -> None:
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
        f"volume v: hostPath {tmp_path}/x: does not exist",
        f"volume v: {tmp_path}/n/f: no such file or directory",
        f"volume v: {tmp_path}/f/x: not a directory",
    ]


def test_sub_paths_are_created(scratch: Path, files: VolumeFiles) -> None:
    assert files.prepare([MakeDirectory(scratch / "v", 0o777), SubPath(scratch / "v", "a/b", "v")]) == []
    assert (scratch / "v/a/b").is_dir()
    (scratch / "v/file").touch()
    assert files.prepare([SubPath(scratch / "v", "file", "v")]) == []


@pytest.mark.parametrize("within", ["link", "link/x", "d/link"])
def test_a_symbolic_link_in_a_volume_is_not_followed(scratch: Path, files: VolumeFiles, within: str) -> None:
    (scratch / "v/d").mkdir(parents=True)
    (scratch / "v/link").symlink_to("/etc")
    (scratch / "v/d/link").symlink_to("/etc")
    [problem] = files.prepare([SubPath(scratch / "v", within, "v")])
    assert problem.fatal
    assert "is a symbolic link, which is not followed" in problem.message


def test_an_os_error_is_a_problem(scratch: Path, files: VolumeFiles) -> None:
    scratch.mkdir()
    (scratch / "f").touch()
    [problem] = files.prepare([MakeDirectory(scratch / "f/x", 0o777)])
    assert problem.fatal
    assert problem.message == f"{scratch}/f: file exists"
    assert os.listdir(scratch) == ["f"]  # noqa: PTH208 - names are what is compared

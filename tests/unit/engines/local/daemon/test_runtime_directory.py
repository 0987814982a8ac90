from __future__ import annotations

import os
import shutil
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pumice.engines.local.daemon import runtime_files as module
from pumice.engines.local.daemon.runtime_files import (
    control_socket,
    remove_runtime_files,
    runtime_directories,
    secrets_file,
    socket_address,
    sweep_runtime_files,
)
from pumice.store.run_errors import RefusedError


def test_in_the_runtime_directory_of_the_user(tmp_path: Path) -> None:
    [found] = runtime_directories({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert found == tmp_path / "pumice"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


@pytest.mark.parametrize("runtime", ["", "relative", "/does/not/exist"])
def test_otherwise_in_a_directory_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str) -> None:
    monkeypatch.setattr(module, "RUNTIME_PARENT", tmp_path)
    monkeypatch.setattr(module, "_OF_ROOT", tmp_path / "missing")
    environ = {"XDG_RUNTIME_DIR": runtime, "XDG_STATE_HOME": str(tmp_path / "state")}
    assert runtime_directories(environ) == [tmp_path / f"pumice-{os.getuid()}"]
    assert not (tmp_path / "state").exists()


def test_root_uses_a_directory_that_only_root_can_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RUNTIME_PARENT", tmp_path / "shared")
    monkeypatch.setattr(module, "_OF_ROOT", tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    if tmp_path.stat().st_uid != 0:
        pytest.skip("only root owns what it makes")
    assert runtime_directories({}) == [tmp_path / "pumice"]


def test_a_directory_that_others_can_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "pumice").mkdir()
    (tmp_path / "pumice").chmod(0o755)
    [found] = runtime_directories({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


KINDS = pytest.mark.parametrize("kind", ["link", "file", "other user", "open to others"])


def squat(path: Path, kind: str) -> None:
    """Make what another user could make first."""
    if kind == "link":
        (path.parent / "elsewhere").mkdir()
        path.symlink_to(path.parent / "elsewhere")
    elif kind == "file":
        path.touch()
    elif kind == "open to others":
        path.mkdir()
        path.chmod(0o777)
    else:
        if os.getuid() != 0:
            pytest.skip("only root can give a directory to another user")
        path.mkdir()
        os.chown(path, 65534, 65534)


@KINDS
def test_what_another_user_may_have_put_there_is_refused(tmp_path: Path, kind: str) -> None:
    squat(tmp_path / "pumice", kind)
    with pytest.raises(RefusedError, match="XDG_RUNTIME_DIR"):
        runtime_directories({"XDG_RUNTIME_DIR": str(tmp_path)})


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for all users, in place of /tmp; nor is there one for root alone. The state is beside it."""
    directory = tmp_path / "shared"
    directory.mkdir()
    monkeypatch.setattr(module, "RUNTIME_PARENT", directory)
    monkeypatch.setattr(module, "_OF_ROOT", tmp_path / "missing")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return directory


def _identity(path: Path) -> tuple[int, ...]:
    """What a change would change; not when it was read last."""
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_uid, found.st_mtime_ns, found.st_ctime_ns


@KINDS
def test_where_another_user_was_first_there_is_a_directory_with_a_name_that_nobody_could_guess(
    shared: Path, kind: str
) -> None:
    taken = shared / f"pumice-{os.getuid()}"
    squat(taken, kind)
    before = _identity(taken)
    [found] = runtime_directories(os.environ)
    assert found.parent == shared
    assert len(found.name) == len(taken.name) + 17, "64 bits"
    assert (found.stat().st_uid, stat.S_IMODE(found.stat().st_mode)) == (os.getuid(), 0o700)
    assert runtime_directories(os.environ) == [found], "every process finds the same"
    assert _identity(taken) == before, "what is there is left alone"
    assert stat.S_IMODE((shared.parent / "state" / "pumice").stat().st_mode) == 0o700


def test_many_processes_at_once_agree_on_the_directory(shared: Path) -> None:
    squat(shared / f"pumice-{os.getuid()}", "file")
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: runtime_directories(os.environ), range(64)))
    assert all(each == found[0] for each in found)
    assert len(list(shared.iterdir())) == 2


def test_a_second_name_that_another_user_has_taken_is_replaced(shared: Path) -> None:
    squat(shared / f"pumice-{os.getuid()}", "file")
    [first] = runtime_directories(os.environ)
    first.rmdir()  # as a restart of the machine does
    squat(first, "link")
    [second] = runtime_directories(os.environ)
    assert second not in (first, shared / "elsewhere")
    assert runtime_directories(os.environ) == [second]


def test_files_are_found_where_they_were_made_when_the_other_user_has_gone_or_comes(
    shared: Path, tmp_path: Path
) -> None:
    taken = shared / f"pumice-{os.getuid()}"
    squat(taken, "file")
    for path in (early := [control_socket("early"), secrets_file("early")]):
        path.touch()
    taken.unlink()
    assert [control_socket("early"), secrets_file("early")] == early
    assert [control_socket("late"), secrets_file("late")] == [taken / "late.sock", taken / "secrets" / "late"]
    for path in (late := [control_socket("late"), secrets_file("late")]):
        path.touch()
    for path in (*early, *late):
        os.utime(path, (0, 0))
    sweep_runtime_files(tmp_path / "none")
    assert [path for path in (*early, *late) if path.exists()] == []
    for path in (*early, *late):
        path.touch()
    remove_runtime_files("early")
    remove_runtime_files("late")
    assert [path for path in (*early, *late) if path.exists()] == []
    shutil.rmtree(taken)  # as a cleaner of /tmp does
    squat(taken, "file")
    assert control_socket("late").parent == early[0].parent


def test_without_a_state_directory_the_reason_is_given(shared: Path, tmp_path: Path) -> None:
    squat(shared / f"pumice-{os.getuid()}", "file")
    (tmp_path / "state").touch()
    with pytest.raises(RefusedError, match=r"state.*(?s:.)*set XDG_RUNTIME_DIR"):
        runtime_directories(os.environ)


@pytest.mark.parametrize("length", [10, 200])
def test_sockets_at_paths_of_any_length(tmp_path: Path, length: int) -> None:
    directory = tmp_path / ("x" * length)
    directory.mkdir()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        with socket_address(directory / "s") as address:
            server.bind(address)
        server.listen()
        with socket_address(directory / "s") as address:
            client.connect(address)
    assert stat.S_ISSOCK((directory / "s").stat().st_mode)

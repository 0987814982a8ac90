from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from pumice.engines.local.daemon import runtime_directory as module
from pumice.engines.local.daemon.runtime_directory import runtime_directory, socket_address
from pumice.engines.local.run_errors import RefusedError


def test_in_the_runtime_directory_of_the_user(tmp_path: Path) -> None:
    found = runtime_directory({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert found == tmp_path / "pumice"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


@pytest.mark.parametrize("runtime", ["", "relative", "/does/not/exist"])
def test_otherwise_in_a_directory_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str) -> None:
    monkeypatch.setattr(module, "_SHARED", tmp_path)
    monkeypatch.setattr(module, "_OF_ROOT", tmp_path / "missing")
    assert runtime_directory({"XDG_RUNTIME_DIR": runtime}) == tmp_path / f"pumice-{os.getuid()}"


def test_root_uses_a_directory_that_only_root_can_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHARED", tmp_path / "shared")
    monkeypatch.setattr(module, "_OF_ROOT", tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    if tmp_path.stat().st_uid != 0:
        pytest.skip("only root owns what it makes")
    assert runtime_directory({}) == tmp_path / "pumice"


def test_a_directory_that_others_can_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "pumice").mkdir()
    (tmp_path / "pumice").chmod(0o755)
    assert stat.S_IMODE(runtime_directory({"XDG_RUNTIME_DIR": str(tmp_path)}).stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["link", "file", "other user"])
def test_what_another_user_may_have_put_there_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "pumice"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir()
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "file":
        path.touch()
    else:
        if os.getuid() != 0:
            pytest.skip("only root can give a directory to another user")
        path.mkdir()
        os.chown(path, 65534, 65534)
    with pytest.raises(RefusedError, match="XDG_RUNTIME_DIR"):
        runtime_directory({"XDG_RUNTIME_DIR": str(tmp_path)})


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

"""The files of a container without a root of its own, and the paths that are rewritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.plain_processes.files import ContainerFiles
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, RootFs, Tmpfs

# A working directory below a hidden one.
WORK = str(Path("/home") / "project")


def _populated(root: Path, translate: Callable[[str], str] = str, **spec: Any) -> ContainerFiles:
    values = {"id": "a/c", "pod": "a", "argv": ("true",), "env": {}, "cwd": "/", "root": RootFs(), **spec}
    files = ContainerFiles(root, translate)
    files.populate(ContainerSpec(**values))
    return files


@pytest.fixture
def files(tmp_path: Path) -> ContainerFiles:
    config = tmp_path / "config"
    config.mkdir()
    (config / "worker.host").write_text("worker-0\n")
    mounts = (
        Mount(str(config), "/etc/volcano", read_only=True),
        Mount(WORK, WORK),
        Mount(str(config), f"{WORK}/data"),
        Tmpfs("/cache", "v"),
    )
    return _populated(
        tmp_path / "root",
        lambda text: text.replace("worker-0", "127.0.0.1"),
        hidden=("/home", "/root"),
        mounts=mounts,
        files=(File("/usr/local/bin/hello", b"#!/bin/sh\n", 0o755), File("/etc/hosts", b"")),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("cat /etc/volcano/worker.host", "cat ROOT/etc/volcano/worker.host", id="mount"),
        pytest.param("echo x > /home/re;", "echo x > ROOT/home/re;", id="private directory"),
        pytest.param("cd /home && ls", "cd ROOT/home && ls", id="directory itself"),
        pytest.param("A=/root/.ssh:/cache", "A=ROOT/root/.ssh:ROOT/cache", id="list"),
        pytest.param(
            "'/home/re' \"/home/re\" `cat /home/re`", "'ROOT/home/re' \"ROOT/home/re\" `cat ROOT/home/re`", id="quotes"
        ),
        pytest.param(f"python3 {WORK}/train.py", None, id="working directory"),
        pytest.param(f"{WORK}/data/x", f"ROOT{WORK}/data/x", id="mount in the working directory"),
        pytest.param(
            "echo x >/dev/termination-log 2>/dev/null", "echo x >ROOT/dev/termination-log 2>/dev/null", id="dev"
        ),
        pytest.param("/usr/local/bin/hello", "ROOT/usr/local/bin/hello", id="program"),
        pytest.param("/usr/local/bin/other /etc/hosts", None, id="files of the machine"),
        pytest.param("/etc/volcanoes /homes /srv/home/x ./home/x ~/home http://x/home a/root", None, id="other paths"),
    ],
)
def test_rewrite_paths(files: ContainerFiles, text: str, expected: str | None) -> None:
    assert files.rewrite_paths(text).replace(str(files.root), "ROOT") == (text if expected is None else expected)


def test_files_and_links_in_the_root(files: ContainerFiles) -> None:
    assert (files.root / "etc/volcano/worker.host").read_text() == "127.0.0.1\n"
    assert (files.root / "usr/local/bin/hello").stat().st_mode & 0o777 == 0o755
    assert Path(f"{files.root}{WORK}/data").is_symlink()
    assert (files.root / "cache").is_dir()
    assert not (files.root / "etc/hosts").exists()


def test_a_mount_covers_a_private_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_text("here")
    mounts = (Mount(str(data), "/home"), Mount(str(data / "file"), "/dev/termination-log"))
    files = _populated(tmp_path / "root", hidden=("/home",), mounts=mounts)
    assert (files.root / "home/file").read_text() == "here"
    assert (files.root / "dev/termination-log").is_symlink()


def test_memory_is_shared_by_the_containers_of_a_pod(tmp_path: Path) -> None:
    paths = [
        Path(_populated(tmp_path / f"{pod}.{name}", pod=pod, mounts=(Tmpfs("/m", "v"),)).host_path("/m")).resolve()
        for name, pod in (("x", "a"), ("y", "a"), ("z", "b"))
    ]
    assert paths[0] == paths[1] != paths[2]


def test_an_empty_volume_and_a_missing_working_directory_are_created(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    mounts = (Mount(str(tmp_path / "empty"), "/etc/empty", read_only=True),)
    missing = str(tmp_path / "missing" / "one")
    files = _populated(tmp_path / "root", cwd=missing, mounts=mounts)
    assert (tmp_path / "root/etc/empty").is_dir()
    assert files.host_path(missing) == f"{tmp_path}/root{missing}"
    assert Path(files.host_path(missing)).is_dir()
    assert not (tmp_path / "missing").exists()

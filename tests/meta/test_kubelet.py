"""`make kubelet` without a kubelet: what it says where it cannot run, and that it leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from scripts import kubelet, kubelet_packages
from scripts.kubelet_packages import PackagesError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet needs Linux")


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that looks like cgroup v1 with all controllers."""
    root = tmp_path / "cgroup"
    for name in (*kubelet.CONTROLLERS, "systemd"):
        (root / name).mkdir(parents=True)
        (root / name / "cgroup.procs").touch()
    monkeypatch.setattr(kubelet, "CGROUPS", root)
    return root


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def test_an_ordinary_user_reads_that_root_is_needed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert kubelet.missing_for_a_kubelet(cache) == [
        "root: a kubelet mounts file systems and creates control groups; try `sudo make kubelet`"
    ]


def test_everything_that_is_missing_is_named_at_once(
    cache: Path, cgroups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    shutil.rmtree(cgroups / "memory")
    assert kubelet.missing_for_a_kubelet(cache) == [
        "ip: apt-get install iproute2",
        "mount: apt-get install mount",
        "setpriv: apt-get install util-linux",
        "unshare: apt-get install util-linux",
        f"the cgroup controllers memory in {cgroups}",
    ]


@pytest.mark.parametrize("listed", ["cpu memory", "cpuset cpu io memory pids"])
def test_the_controllers_of_cgroup_v2_are_listed_in_a_file(cgroups: Path, listed: str) -> None:
    (cgroups / "cgroup.controllers").write_text(f"{listed}\n")
    assert kubelet.controllers() == listed.split()
    assert kubelet.hierarchies() == [cgroups]


def test_a_facility_that_the_kernel_refuses_is_named_with_its_words(
    cache: Path, cgroups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in kubelet.TOOLS:
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\necho Operation not permitted >&2; exit 1\n")
        program.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = kubelet.missing_for_a_kubelet(cache)
    assert len(found) == len(kubelet.TRIALS)
    assert found[1] == "network devices of type bridge: Operation not permitted"
    assert list(cache.iterdir()) == []


def test_a_run_leaves_nothing_however_it_ends(cache: Path, cgroups: Path) -> None:
    def run() -> None:
        with kubelet.run_directory(cache) as folder:
            for hierarchy in kubelet.hierarchies():
                (hierarchy / folder.name / "kubepods" / "pod1").mkdir(parents=True)
            (folder / "file").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert list(cache.iterdir()) == []
    assert [path for path in cgroups.rglob("*") if path.name.startswith(kubelet.PREFIX)] == []


def test_the_next_run_removes_what_a_killed_one_left_and_no_more(cache: Path, cgroups: Path) -> None:
    dead = cache / f"{kubelet.PREFIX}dead"
    dead.mkdir()
    (cgroups / "memory" / dead.name / "kubepods").mkdir(parents=True)
    (cache / "packages").mkdir()
    with kubelet.run_directory(cache) as alive, kubelet.run_directory(cache) as other:
        assert sorted(cache.iterdir()) == sorted([cache / "packages", alive, other])
        assert not (cgroups / "memory" / dead.name).exists()
    assert list(cache.iterdir()) == [cache / "packages"]


def test_programs_of_the_system_are_taken_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*kubelet_packages.PROGRAMS, *kubelet_packages.PLUGINS):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(kubelet_packages, "PLUGIN_FOLDERS", (str(tmp_path),))
    found = kubelet_packages.find_or_unpack({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found.plugins == str(tmp_path)
    assert not (tmp_path / "cache").exists()


def test_where_nothing_can_be_fetched_the_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet_packages, "PLUGIN_FOLDERS", (str(tmp_path),))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PackagesError, match=r"containerd.* on PATH and the CNI plugins in .*; only on Debian"):
        kubelet_packages.find_or_unpack({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.init import cgroups
from pumice.engines.local.sandbox.init.cgroups import Cgroups, GroupLimits, Hierarchy
from pumice.engines.local.sandbox.specs import ContainerSpec, RootFs

V1 = """\
30 20 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 20 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 20 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V2 = "30 20 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def _v2(parent: str) -> dict[str, Hierarchy]:
    return dict.fromkeys(cgroups.CONTROLLERS, Hierarchy(f"/sys/fs/cgroup{parent}", 2))


@pytest.mark.parametrize(
    ("mountinfo", "membership", "expected"),
    [
        pytest.param(
            V1,
            "4:memory:/user/a\n1:cpu,cpuacct:/\n0::/\n",
            {
                "memory": Hierarchy("/sys/fs/cgroup/memory/user/a", 1),
                "cpu": Hierarchy("/sys/fs/cgroup/cpu,cpuacct", 1),
                "pids": Hierarchy("/sys/fs/cgroup/unified", 2),
            },
            id="version 1 beside an empty version 2",
        ),
        pytest.param(V2, "0::/user.slice/run-1.scope\n", _v2("/user.slice/run-1.scope"), id="version 2"),
        pytest.param(V2, "0::/run-1.scope/pumice-engine\n", _v2("/run-1.scope"), id="engine in its own group"),
        pytest.param(
            "30 20 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            "4:memory:/docker/abc/inner\n",
            {"memory": Hierarchy("/sys/fs/cgroup/memory/inner", 1)},
            id="container",
        ),
        pytest.param("20 1 0:3 / /proc rw - proc proc rw\n", "0::/\n", {}, id="none"),
        pytest.param(
            f"20 1 0:3 / /a\udcff\x85b rw - tmpfs  rw,size=1k\n{V2}", "0::/\n", _v2(""), id="unusual mount point"
        ),
    ],
)
def test_find_hierarchies(mountinfo: str, membership: str, expected: dict[str, Hierarchy]) -> None:
    assert cgroups.find(mountinfo.strip().split("\n"), membership.strip().split("\n")) == expected


def spec(**limits: float) -> ContainerSpec:
    return ContainerSpec(id="c", pod="p", argv=(), env={}, cwd="/", root=RootFs(), **limits)  # type: ignore[arg-type]  # a table of numbers


def files(directory: str) -> dict[str, str]:
    return {name: Path(directory, name).read_text() for name in sorted(os.listdir(directory))}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param(
            1,
            {
                "cpu.cfs_period_us": "100000",
                "cpu.cfs_quota_us": "50000",
                "memory.limit_in_bytes": "1000",
            },
            id="1",
        ),
        pytest.param(2, {"cpu.max": "50000 100000", "memory.max": "1000"}, id="2"),
    ],
)
def test_limits_are_written(tmp_path: Path, version: int, expected: dict[str, str]) -> None:
    groups = Cgroups("job", dict.fromkeys(cgroups.CONTROLLERS, Hierarchy(str(tmp_path), version)))
    group = groups.group(GroupLimits(memory=1000, cpu=0.5, pids=9))
    pod = tmp_path / "pumice-job-pod0"
    # In version 2 a process is in one group only.
    own = tmp_path / "pumice-job-1" if version == 1 else pod / "pumice-job-1"
    assert group.directories == ([str(pod), str(own)] if version == 1 else [str(own)])
    assert files(str(own)) == expected
    assert (pod / "pids.max").read_text() == "9"
    assert (group.limits_memory, group.limits_processes) == (True, True)


def test_no_group_without_limits_or_controllers(tmp_path: Path) -> None:
    groups = Cgroups("job", {"cpu": Hierarchy(str(tmp_path), 2)})
    assert groups.group(GroupLimits()).directories == []
    group = groups.group(GroupLimits(memory=1000, pids=1))
    assert (group.directories, group.limits_memory, group.out_of_memory()) == ([], False, False)
    assert groups.controllers == ["cpu"]


@pytest.mark.parametrize(
    ("version", "file", "content", "expected"),
    [
        pytest.param(1, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", True, id="1, killed"),
        pytest.param(1, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", False, id="1, not"),
        pytest.param(2, "memory.events", "low 0\noom 1\noom_kill 2\n", True, id="2, killed"),
        pytest.param(2, "memory.events", "low 0\noom 0\noom_kill 0\n", False, id="2, not"),
    ],
)
def test_out_of_memory(tmp_path: Path, version: int, file: str, content: str, expected: bool) -> None:
    group = Cgroups("job", {"memory": Hierarchy(str(tmp_path), version)}).group(GroupLimits(memory=1000))
    Path(group.directories[0], file).write_text(content)
    assert group.out_of_memory() is expected


def _tree(parent: Path, controllers: str, enabled: str, processes: str) -> str:
    for name, content in (("controllers", controllers), ("subtree_control", enabled), ("procs", processes)):
        (parent / f"cgroup.{name}").write_text(content)
    return str(parent)


def test_an_engine_that_is_alone_moves_into_a_child_group(tmp_path: Path) -> None:
    parent = _tree(tmp_path, "cpu memory io pids", "", "11\n12\n")
    assert cgroups.delegate(parent, {11, 12}) == {"+cpu", "+memory", "+pids"}  # the kernel drops the +
    assert (tmp_path / "pumice-engine" / "cgroup.procs").read_text() in ("11", "12")


def test_other_processes_are_not_moved(tmp_path: Path) -> None:
    cgroups.delegate(_tree(tmp_path, "memory", "", "11\n12\n99\n"), {11, 12})
    assert not (tmp_path / "pumice-engine").exists()


def test_enabled_controllers_are_kept(tmp_path: Path) -> None:
    parent = _tree(tmp_path, "cpu memory", "cpu memory", "99\n")
    assert cgroups.delegate(parent, {11}) == {"cpu", "memory"}


def test_without_version_2_no_controller_is_enabled(tmp_path: Path) -> None:
    assert cgroups.delegate(str(tmp_path), {1}) == set()


def test_groups_of_a_job_are_removed(tmp_path: Path) -> None:
    for name in ("pumice-job-1", "pumice-job-2", "pumice-other-1", "init.scope"):
        (tmp_path / name).mkdir()
    Cgroups("job", {"memory": Hierarchy(str(tmp_path), 2), "cpu": Hierarchy(str(tmp_path), 2)}).remove_all()
    assert sorted(os.listdir(tmp_path)) == ["init.scope", "pumice-other-1"]

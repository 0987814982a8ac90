from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.engines.local.scheduling.machine import Machine, gpu_devices, read_gpus, read_machine
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU

GIB = 1 << 30


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, "proc/meminfo", "MemTotal: 99 kB\nMemAvailable:   8388608 kB\n")
    return tmp_path


def put(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_this_machine() -> None:
    machine = read_machine()
    assert 0 < machine.cpu_share <= len(machine.cpus)
    assert machine.memory > 0
    free = machine.free()
    assert set(free) == {"cpu", "memory", GPU}
    assert free["memory"].value() == machine.memory


def test_free() -> None:
    free = Machine((0, 1), 1.5, 2 * GIB, ("0",)).free()
    assert {name: str(amount) for name, amount in free.items()} == {"cpu": "1500m", "memory": "2Gi", GPU: "1"}


@pytest.mark.parametrize(
    ("reserved", "free"),
    [
        pytest.param({}, {"cpu": "2", "memory": "6Gi", GPU: "2"}, id="nothing reserved"),
        pytest.param({"cpu": "500m", GPU: 1}, {"cpu": "1500m", "memory": "6Gi", GPU: "1"}, id="some"),
        pytest.param({"cpu": 3, GPU: 9}, {"cpu": "0", "memory": "6Gi", GPU: "0"}, id="more than exists"),
        # Of the 8 GiB, 2 are in use, perhaps by the run that reserved them.
        pytest.param({"memory": "2Gi"}, {"cpu": "2", "memory": "6Gi", GPU: "2"}, id="memory in use"),
        pytest.param({"memory": "5Gi"}, {"cpu": "2", "memory": "3Gi", GPU: "2"}, id="memory not in use yet"),
        pytest.param({"memory": "9Gi"}, {"cpu": "2", "memory": "0", GPU: "2"}, id="more memory than exists"),
    ],
)
def test_reservations_of_others_are_not_free(reserved: dict[str, str | int], free: dict[str, str]) -> None:
    machine = Machine((0, 1), 2, 6 * GIB, ("0", "1"), all_memory=8 * GIB)
    found = machine.free({name: Quantity.parse(amount) for name, amount in reserved.items()})
    assert {name: str(amount) for name, amount in found.items()} == free


def test_all_memory(root: Path) -> None:
    put(root, "proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n")
    assert read_machine(root, {}).all_memory == 16 * GIB
    put(root, "proc/self/cgroup", "0::/me\n")
    put(root, "sys/fs/cgroup/me/memory.max", str(4 * GIB))
    assert read_machine(root, {}).all_memory == 4 * GIB


def test_without_limits(root: Path) -> None:
    machine = read_machine(root, {})
    assert machine.memory == 8 * GIB
    assert machine.cpu_share == len(os.sched_getaffinity(0))
    assert machine.gpus == ()


def test_without_meminfo(tmp_path: Path) -> None:
    put(tmp_path, "proc/meminfo", "nothing of use")
    assert read_machine(tmp_path, {}).memory > 0
    (tmp_path / "proc/meminfo").unlink()
    assert read_machine(tmp_path, {}).memory > 0


def test_control_groups_version_2(root: Path) -> None:
    put(root, "proc/self/cgroup", "0::/user/me\n")
    put(root, "sys/fs/cgroup/user/me/cpu.max", "max 100000")
    put(root, "sys/fs/cgroup/user/cpu.max", "50000 100000")
    put(root, "sys/fs/cgroup/user/me/memory.max", str(4 * GIB))
    put(root, "sys/fs/cgroup/user/me/memory.current", str(3 * GIB))
    put(root, "sys/fs/cgroup/user/me/memory.stat", f"anon 1\ninactive_file {GIB}\n")
    put(root, "sys/fs/cgroup/user/memory.max", "max")
    put(root, "sys/fs/cgroup/user/memory.current", "1")
    machine = read_machine(root, {})
    assert (machine.cpu_share, machine.memory) == (0.5, 2 * GIB)


def test_control_groups_version_1(root: Path) -> None:
    put(root, "proc/self/cgroup", "3:cpu,cpuacct:/job\n2:memory:/\n0::/\n")
    put(root, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "25000\n")
    put(root, "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n")
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", str(GIB))
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", str(2 * GIB))
    put(root, "sys/fs/cgroup/memory/memory.stat", "total_inactive_file odd\n")
    machine = read_machine(root, {})
    assert (machine.cpu_share, machine.memory) == (0.25, 0)


def test_control_groups_version_1_without_limits(root: Path) -> None:
    put(root, "proc/self/cgroup", "3:cpu:/\n2:memory:/\n")
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", str(2**63 - 4096))
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "1")
    assert read_machine(root, {}).memory == 8 * GIB


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        pytest.param(None, ("0", "1", "2"), id="not set"),
        pytest.param("", (), id="none"),
        pytest.param("-1", (), id="none as -1"),
        pytest.param("1, 2", ("1", "2"), id="some"),
        pytest.param("2,7,0", ("2",), id="stops at an unknown id"),
        pytest.param("GPU-1,MIG-2", ("GPU-1", "MIG-2"), id="UUIDs"),
    ],
)
@pytest.mark.parametrize("kind", ["proc", "dev"])
def test_gpus(root: Path, visible: str | None, gpus: tuple[str, ...], kind: str) -> None:
    for number in range(3):
        put(root, f"proc/driver/nvidia/gpus/{number}/information" if kind == "proc" else f"dev/nvidia{number}")
    put(root, "dev/nvidiactl")
    assert read_gpus(root, {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}) == gpus


@pytest.mark.parametrize(
    ("script", "count"),
    [
        pytest.param("echo 'GPU 0: A'; echo 'GPU 1: B'; echo other", 2, id="two"),
        pytest.param("echo 'No devices were found'; exit 6", 0, id="none"),
        pytest.param(None, 0, id="cannot start"),
    ],
)
def test_gpus_counted_by_nvidia_smi(root: Path, script: str | None, count: int) -> None:
    put(root, "bin/nvidia-smi", f"#!/bin/sh\n{script}\n" if script else "#!/no/such/shell\n")
    (root / "bin/nvidia-smi").chmod(0o755)
    assert len(read_gpus(root, {"PATH": f"{root}/bin"})) == count
    assert read_gpus(root, {"PATH": str(root)}) == ()


def test_gpu_devices(root: Path) -> None:
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap1", "dxg", "null"):
        put(root, f"dev/{name}")
    assert gpu_devices(root) == (
        "/dev/dxg",
        "/dev/nvidia-caps/nvidia-cap1",
        "/dev/nvidia-uvm",
        "/dev/nvidia0",
        "/dev/nvidiactl",
    )

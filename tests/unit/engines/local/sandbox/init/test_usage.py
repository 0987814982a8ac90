"""CPU time and memory of containers: from control groups of both versions, and from real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.init.usage import (
    Measured,
    SharedMemory,
    UsageReader,
    cpu_seconds,
    group_cpu,
    group_memory,
)
from pumice.engines.local.sandbox.memory.container_processes import ContainerProcesses, identify, namespace

MIB = 1 << 20
FORKS = """
import os, sys, time
held = bytearray(b"x" * (64 << 20))
for _ in range(3):
    if os.fork() == 0:
        time.sleep(600)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("files", "cpu", "memory"),
    [
        pytest.param(
            {
                "cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
                "memory.current": "5000",
                "memory.stat": "anon 1\ninactive_file 1000\n",
            },
            2.5,
            4000,
            id="version 2",
        ),
        pytest.param(
            {
                "cpu.stat": "nr_periods 7\n",
                "cpuacct.usage": "1500000000",
                "memory.usage_in_bytes": "900",
                "memory.stat": "inactive_file 1\ntotal_inactive_file 300\n",
            },
            1.5,
            600,
            id="version 1",
        ),
        pytest.param({"pids.max": "7"}, None, None, id="neither is counted"),
    ],
)
def test_control_groups_of_both_versions(
    files: dict[str, str], cpu: float | None, memory: int | None, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    directories = ["/nonexistent", str(tmp_path)]
    assert (group_cpu(directories), group_memory(directories)) == (cpu, memory)


def test_memory_that_forked_processes_share_counts_once() -> None:
    process = subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        pids = [process.pid, *map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())]
        assert len(pids) == 4
        reader = SharedMemory()
        assert 64 * MIB < reader.read({"a": pids})["a"] < 128 * MIB
        assert reader.read({"a": pids[:1]})["a"] > 64 * MIB
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_cpu_time_of_children_that_ended_counts() -> None:
    before = cpu_seconds(os.getpid())
    burn = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    # The kernel counts ticks of 10 ms.
    assert cpu_seconds(os.getpid()) >= before + 0.19
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert cpu_seconds(os.getpid()) >= before + 0.25


def test_a_container_without_groups_is_measured_by_its_processes() -> None:
    """The processes of this pid namespace stand for those of a container."""
    own = identify("pod", os.getpid(), namespace(os.getpid(), "pid"))
    assert own is not None
    processes = ContainerProcesses()
    processes.add(own)
    found = UsageReader(processes).read({"pod/c": Measured(own), "pod/ended": Measured(None)})
    assert found["pod/c"][0] > 0
    assert found["pod/c"][1] > 5 * MIB
    assert found["pod/ended"] == (0, 0)

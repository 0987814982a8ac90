"""The servers of a test cluster end with the tests, in whatever way those end; other processes are not affected."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.cluster.api import eventually
from tests.cluster.processes import Daemon, Reaper, start_time
from tests.meta.tree import ROOT

STARTER = """
import pathlib, sys, time
from tests.cluster.processes import Daemon, Reaper
daemon = Daemon("sleep", ["sleep", "600"], pathlib.Path(sys.argv[1]), Reaper())
daemon.start()
print(daemon.pid, flush=True)
time.sleep(600)
"""


def _is_gone(process: int, started: str) -> bool:
    """Whether a process has ended, is a zombie, or its id belongs to another process."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "Z" or start_time(process) != started
    except OSError:
        return True


def test_servers_are_killed_after_the_tests_were_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert starter.stdout is not None
    with starter.stdout as output:
        server = int(output.readline())
    started = start_time(server)
    starter.kill()
    starter.wait()
    eventually("the server is gone", lambda: _is_gone(server, started))


def test_a_process_with_a_reused_id_is_not_killed() -> None:
    other = subprocess.Popen(["sleep", "600"])
    try:
        reaper = Reaper()
        assert reaper._process.stdin is not None
        reaper._process.stdin.write(f"{other.pid} 1\n")
        reaper.close()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    reaper = Reaper()
    server = Daemon("server", ["sh", "-c", "trap '' TERM; echo up; exec sleep 600"], tmp_path / "log", reaper)
    server.start()
    server.wait_ready(lambda: "up" in server.tail())
    server.stop(within=0.2)
    assert server.process is not None
    assert server.process.returncode == -signal.SIGKILL
    reaper.close()

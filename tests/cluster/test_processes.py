"""Nothing of a test cluster outlives the tests, however those end; and nobody else is touched."""

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
    """Gone, or waiting for a parent to ask for its exit code, or another one by now."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "Z" or start_time(process) != started
    except OSError:
        return True


def test_servers_end_when_the_tests_are_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert starter.stdout is not None
    with starter.stdout as told:
        server = int(told.readline())
    started = start_time(server)
    starter.kill()
    starter.wait()
    eventually("the server is gone", lambda: _is_gone(server, started))


def test_a_process_that_has_got_the_number_of_a_server_is_left_alone() -> None:
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        reaper = Reaper()
        assert reaper._process.stdin is not None
        reaper._process.stdin.write(f"{stranger.pid} 1\n")
        reaper.close()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_server_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    reaper = Reaper()
    deaf = Daemon("deaf", ["sh", "-c", "trap '' TERM; echo up; exec sleep 600"], tmp_path / "log", reaper)
    deaf.start()
    deaf.wait_ready(lambda: "up" in deaf.tail())
    deaf.stop(within=0.2)
    assert deaf.process is not None
    assert deaf.process.returncode == -signal.SIGKILL
    reaper.close()

"""Each test runs in a process of its own: a lowered hard limit cannot be raised again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_SOURCES = str(Path(__file__).resolve().parents[5] / "src")


def after(limits: tuple[int, int], call: str) -> str:
    script = f"""
import resource
from pumice.engines.local.scheduling.fit import Unsupported, check_open_files, raise_open_files_limit
resource.setrlimit(resource.RLIMIT_NOFILE, {limits})
try:
    {call}
except Unsupported as error:
    print(error)
else:
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env={"PYTHONPATH": _SOURCES}, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param((500, 4000), "1820 4000\n", id="to what is needed"),
        pytest.param((500, 600), "600 600\n", id="to the hard limit"),
        pytest.param((2000, 4000), "2000 4000\n", id="high enough"),
    ],
)
def test_the_soft_limit_is_raised(limits: tuple[int, int], expected: str) -> None:
    assert after(limits, "raise_open_files_limit(pods=100, containers=100)") == expected


def test_a_job_beyond_the_hard_limit_is_refused() -> None:
    call = "check_open_files(pods=100, containers=200)"
    assert after((500, 1196), call) == "500 1196\n"
    refusal = after((500, 1195), call)
    assert refusal.startswith("100 pods need 1196 open files, and a process may have 1195 here\n")
    assert "scale=" in refusal

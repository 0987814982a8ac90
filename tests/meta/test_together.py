"""Tests that share a cluster stay in one process; runs of pytest at the same time do not disturb each other."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.pathlib import on_rm_rf_error

from tests.meta.tree import ROOT
from tests.together import group_of

TESTS = """
import os, pathlib, pytest
@pytest.mark.parametrize("number", range(12))
def test_one(number: int) -> None:
    with pathlib.Path(os.environ["SEEN"]).open("a") as seen:
        seen.write(f"{pathlib.Path(__file__).name} {os.getpid()}\\n")
"""


@pytest.mark.parametrize(
    ("test", "group"),
    [
        pytest.param("tests/local/test_run.py::test_it[1]", "tests/local/test_run.py::test_it[1]", id="alone"),
        pytest.param("tests/unit/model/test_job.py::test_it[1]", "tests/unit/model/test_job.py", id="a file"),
        pytest.param("tests/page/test_use.py::test_it", "tests/page/", id="a browser"),
        pytest.param("tests/cluster/test_clients.py::test_it", "kubernetes", id="a cluster"),
        pytest.param("tests/cluster/test_faults.py::test_it", "kubernetes, rough", id="a cluster of its own"),
    ],
)
def test_group_of_a_test(test: str, group: str) -> None:
    assert group_of(test) == group


def test_a_group_runs_in_one_process(tmp_path: Path) -> None:
    """In a small project with the same conftest."""
    for folder in ("tests/cluster", "tests/local"):
        (tmp_path / folder).mkdir(parents=True)
    hooks = "from tests.conftest import pytest_xdist_make_scheduler\n"
    (tmp_path / "conftest.py").write_text(hooks)
    for name in ("tests/cluster/test_a.py", "tests/cluster/test_b.py", "tests/local/test_c.py"):
        (tmp_path / name).write_text(TESTS)
    seen = tmp_path / "seen"
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses=3", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "SEEN": str(seen), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    lines = [line.split() for line in seen.read_text().splitlines()]
    assert len(lines) == 36
    assert len({process for name, process in lines if name != "test_c.py"}) == 1
    assert len({process for name, process in lines}) > 1


def test_a_directory_of_another_run_that_cannot_be_removed_fails_no_run() -> None:
    """At its end, pytest removes what older runs left below /tmp. Another one may do so at the same time."""
    on_rm_rf_error(os.rmdir, "left", OSError(errno.ENOTEMPTY, "Directory not empty"), start_path=Path("left"))

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import ordinary_user
from tests.meta.tree import ROOT

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user already")


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A Python in a directory that only its owner may enter, beside a private file."""
    closed = tmp_path / "closed"
    (closed / "environment" / "bin").mkdir(parents=True)
    (closed / "private").write_text("secret")
    python = closed / "environment" / "bin" / "python3"
    python.write_text("#!/bin/sh\nid -u; echo $HOME; ls $(dirname $0)/../..\n")
    python.chmod(0o755)
    closed.chmod(0o700)
    return closed / "environment"


def test_what_bars_the_way_is_the_topmost_directory(environment: Path) -> None:
    gate = ordinary_user.barred(environment)
    assert gate is not None
    assert gate in environment.parents
    assert ordinary_user.barred(Path("/usr/bin")) is None


@as_root
def test_the_user_gets_to_what_is_needed_and_to_nothing_else(environment: Path) -> None:
    python = str(environment / "bin" / "python3")
    mounts = Path("/proc/self/mountinfo").read_text()
    done = subprocess.run(
        [sys.executable, "-m", "scripts.ordinary_user", python],
        cwd=ROOT,
        env={**os.environ, "PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    uid, home, *shown = done.stdout.split()
    assert int(uid) == pwd.getpwnam("nobody").pw_uid
    assert shown == ["environment"]
    assert not Path(home).exists()
    assert Path("/proc/self/mountinfo").read_text() == mounts


@as_root
def test_a_directory_that_is_barred_itself_is_shown_as_a_whole(environment: Path) -> None:
    program = f"""
import os, sys
from pathlib import Path
from pumice.engines.local.sandbox import syscalls
from scripts.ordinary_user import open_up
syscalls.unshare(syscalls.NEWNS)
syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
open_up([Path({str(environment.parent)!r})])
os.setuid(65534)
print(*sorted(os.listdir({str(environment.parent)!r})), Path({str(environment.parent)!r}, "link").readlink())
"""
    (environment.parent / "link").symlink_to("nowhere")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["environment", "link", "private", "nowhere"], done.stderr

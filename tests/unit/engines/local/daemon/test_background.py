from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from pumice.engines.local.daemon.background import (
    allowed_environment,
    report_ready,
    start_in_background,
)
from pumice.engines.local.sandbox.python_start import library_directory

DAEMON = """
import json, os, sys, signal
from pumice.engines.local.daemon.background import detach, report_ready
detach()
mask = os.umask(0)
facts = {
    "pid": os.getpid(), "session": os.getsid(0), "parent": os.getppid(), "directory": os.getcwd(), "umask": mask,
    "environ": dict(os.environ), "open": sorted(os.listdir("/proc/self/fd")),
}
with open(sys.argv[1], "w") as file:
    json.dump(facts, file)
print("a line for the log", flush=True)
report_ready(int(sys.argv[2]))
signal.pause()
"""


def test_a_process_in_the_background(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "AWS_SECRET_ACCESS_KEY": "x", "LC_ALL": "C"}
    facts_file, log = tmp_path / "facts", tmp_path / "logs" / "log"
    command = [sys.executable, "-I", "-X", "utf8", "-c", DAEMON, str(facts_file)]
    assert start_in_background(command, environ, log, 60)
    facts = json.loads(facts_file.read_text())
    try:
        assert facts["session"] not in (facts["pid"], os.getsid(0)), "its own session, which it does not lead"
        assert facts["parent"] != os.getpid()
        assert (facts["directory"], facts["umask"]) == ("/", 0o077)
        assert set(facts["environ"]) == {"PATH", "LC_CTYPE"}
        assert log.read_text() == "a line for the log\n"
        assert log.stat().st_mode & 0o777 == 0o600
    finally:
        os.kill(facts["pid"], signal.SIGKILL)


def test_a_process_that_ends_before_it_is_ready(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-c", "raise SystemExit('no')"]
    assert not start_in_background(command, os.environ, tmp_path / "log", 60)
    assert (tmp_path / "log").read_text() == "no\n"


def test_a_starter_that_does_not_wait() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    report_ready(writing)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(writing)


def test_variables() -> None:
    kept = {"HOME": "/h", "XDG_STATE_HOME": "/s", "https_proxy": "p", "NO_PROXY": "n", "LC_TIME": "C", "LANG": "de_DE"}
    dropped = {"PYTHONPATH": "p", "LD_PRELOAD": "l", "SSH_AUTH_SOCK": "s", "CUDA_VISIBLE_DEVICES": "0", "MY_PATH": "m"}
    assert allowed_environment({**kept, **dropped}) == kept


def test_the_loader_finds_libpython() -> None:
    directory = library_directory()
    expected = {"LD_LIBRARY_PATH": directory} if directory else {}
    assert allowed_environment({"LANG": "de_DE", "LD_LIBRARY_PATH": "/a:/b"}) == {"LANG": "de_DE", **expected}


@pytest.mark.parametrize("environ", [{}, {"LC_ALL": "C"}, {"LANG": "POSIX"}, {"LC_ALL": "C", "LANG": "de_DE.UTF-8"}])
def test_a_process_in_the_background_reads_any_path(environ: dict[str, str]) -> None:
    found = allowed_environment(environ)
    assert (found["LC_CTYPE"], "LC_ALL" in found) == ("C.UTF-8", False)

"""Another user makes /tmp/pumice-UID before a user without XDG_RUNTIME_DIR does: detached runs work all the same."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.sandbox.boxes import need_namespaces
from tests.meta.tree import ROOT

OTHER_USER = 12345
# A /tmp of its own, in which the directory of `nobody` belongs to another user.
MACHINE = f"""
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -m 755 /tmp/pumice-"$1"
chown {OTHER_USER} /tmp/pumice-"$1"
shift
exec "$@"
"""
# As `nobody`. It asks for the end of the other user by a line, and gets one when that has happened.
STORY = """
import os, pathlib, sys
from tests.local.commands import WAITING, Terminal
from tests.local.running import job, task

terminal = Terminal(pathlib.Path(os.environ["HOME"]))
terminal.workspace.environ = {"API_TOKEN": "hunter2"}
waiting = job(task("w", f'test "$API_TOKEN" = hunter2 || exit 1; {WAITING}'))


def reach(run):
    terminal.until(lambda: terminal.phase(run) == "Running")
    assert terminal("exec", f"{run}/w-0", "--", "echo", "reached").out == "reached\\n"


try:
    first = terminal.submit(waiting, flags=("--env", "API_TOKEN"))
    reach(first)
    print("taken", flush=True)
    assert sys.stdin.readline() == "gone\\n"
    reach(first)
    second = terminal.submit(waiting, flags=("--env", "API_TOKEN"))
    reach(second)
    reach(first)
    assert pathlib.Path(f"/tmp/pumice-{os.getuid()}").stat().st_uid == os.getuid()
    (terminal.workspace.directory / "go").touch()
    assert terminal("wait", first, second).out == f"{first} Succeeded\\n{second} Succeeded\\n"
finally:
    terminal("stop", "--all", "--force", code=None)
    terminal("service", "stop", code=None)
left = [str(path) for path in pathlib.Path("/tmp").glob("pumice-*/**/*") if not path.is_dir()]
assert left == [], left
print("done", flush=True)
"""


def test_runs_work_and_stay_reachable_when_the_other_user_has_gone() -> None:
    need_namespaces()
    if os.getuid() != 0:
        pytest.skip("only root can act as two users")
    if ROOT.is_relative_to("/tmp"):
        pytest.skip("the checkout is in /tmp, which is another one in this test")
    user = pwd.getpwnam("nobody").pw_uid
    story = [sys.executable, "-m", "scripts.ordinary_user", sys.executable, "-c", STORY]
    started = subprocess.Popen(
        ["unshare", "--mount", "--propagation=private", "sh", "-ec", MACHINE, "sh", str(user), *story],
        cwd=ROOT,
        env={name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with started:
        assert started.stdin is not None
        assert started.stdout is not None
        assert started.stderr is not None
        try:
            if started.stdout.readline() == "taken\n":
                taken = Path(f"/proc/{started.pid}/root/tmp/pumice-{user}")
                assert taken.stat().st_uid == OTHER_USER
                taken.rmdir()
                started.stdin.write("gone\n")
                started.stdin.flush()
            last, errors = started.stdout.readline(), started.stderr.read()
            assert last == "done\n", errors
        finally:
            started.kill()

"""`pumice exec`: a command in a running pod, with streams or on a terminal, in namespaces and as plain processes."""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fork_server import fork_server
from tests.local.commands import WAITING, Terminal
from tests.local.running import MODULES, job, processes, scripted, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE
from tests.unit.cli.screens import OnTerminal

MAIN = "import sys; from pumice.cli.program import main; sys.exit(main())"
PUMICE = shlex.join([sys.executable, "-c", MAIN])
LARGE = 5_000_000


@pytest.fixture(params=["namespaces", "process"])
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    """A user whose run has started a pod w-0, and a pod two-0 with two containers."""
    if request.param == "namespaces":
        need_namespaces()
    found = Terminal(tmp_path)
    found.workspace.environ["TERM"] = "xterm"
    second = {"name": "second", "image": "any", **scripted("sh", "-c", f"{WAITING} # second")}
    two = task("two", WAITING)
    two["template"]["spec"]["containers"].append(second)
    process = found.workspace.start(job(task("w", WAITING), two), flags=["--isolation", request.param])
    # A pod runs as soon as one of its containers does.
    found.until(lambda: found("logs", "trial", code=None).out.count("up\n") == 3)
    yield found
    (tmp_path / "go").touch()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out, err)
    found.until(lambda: not processes(str(tmp_path)))


def test_streams_are_passed_on_as_they_are(terminal: Terminal) -> None:
    data = os.urandom(1 << 16) * (LARGE >> 16)
    source = terminal.workspace.directory / "data"
    source.write_bytes(data)
    with source.open("rb") as stdin:
        there = terminal("exec", "w-0", "--", "sha256sum", stdin=stdin.fileno())
    assert there.out.split()[0] == hashlib.sha256(data).hexdigest()
    back = terminal.workspace.directory / "back"
    with source.open("rb") as stdin, back.open("wb") as out:
        env = terminal.workspace.env
        cat = fork_server(*MODULES).start(
            ["exec", "w-0", "--", "cat"], cwd=source.parent, env=env, out=out.fileno(), stdin=stdin.fileno()
        )
        assert cat.wait(PATIENCE) == 0
    assert back.read_bytes() == data
    both = terminal("exec", "w-0", "--", "sh", "-c", "echo one; echo two >&2; exit 3", code=3)
    assert (both.out, both.err) == ("one\n", "two\n")
    named = terminal("exec", "two-0", "-c", "second", "--", "sh", "-c", "echo $0; tty; true")
    assert named.out == "sh\nnot a tty\n"
    terminal("exec", "w-0", "--", "sh", "-c", "kill -TERM $$", code=143)
    assert "no-such-program" in terminal("exec", "w-0", "--", "no-such-program", code=127).err
    assert "not executable" in terminal("exec", "w-0", "--", "/etc/passwd", code=126).err
    assert terminal("exec", "w-9", "--", "true", code=2).err.startswith("the job has no pod w-9 now")
    assert terminal("exec", "w-0", "-c", "x", "--", "true", code=2).err == "pod w-0 has no container x\n"


def test_a_command_ends_when_its_reader_or_its_client_has_gone(terminal: Terminal) -> None:
    env, cwd = terminal.workspace.env, terminal.workspace.directory
    reader, writer = os.pipe()
    endless = fork_server(*MODULES).start(["exec", "w-0", "--", "yes", "closed"], cwd=cwd, env=env, out=writer)
    os.close(writer)
    assert os.read(reader, 7) == b"closed\n"
    os.close(reader)
    assert endless.wait(PATIENCE) == 128 + signal.SIGPIPE
    mark = f"98{os.getpid()}"
    script = f"echo started; sleep {mark} & sleep {mark}1"
    reader, writer = os.pipe()
    killed = fork_server(*MODULES).start(["exec", "w-0", "--", "sh", "-c", script], cwd=cwd, env=env, out=writer)
    os.close(writer)
    assert os.read(reader, 8) == b"started\n"
    killed.kill()
    os.close(reader)
    terminal.until(lambda: not processes(f"sleep {mark}"))
    # A process in the background keeps the streams, and the client does not wait for it.
    assert terminal("exec", "w-0", "--", "sh", "-c", "sleep 986 & echo done").out == "done\n"


def test_a_terminal_in_a_pod(terminal: Terminal) -> None:
    script = f"stty -a > before; {PUMICE} exec w-0 -- env PS1='ready> ' sh; echo code $?; stty -a > after; echo over"
    screen = OnTerminal(["sh", "-c", script], terminal.workspace.directory, terminal.workspace.env, columns=100)
    screen.read_until("ready>")
    screen.type(b"tty; stty size; echo $TERM\r")
    screen.read_until("30 100")
    screen.read_until("/dev/pts/")
    screen.read_until("\nxterm")
    screen.type(b"trap 'echo new size $(stty size)' WINCH\r")
    screen.type(b"echo tr''apped\r")
    screen.read_until("trapped")
    screen.resize(40, 90)
    screen.type(b"\r")
    screen.read_until("new size 40 90")
    # Keys are signals of the pod's programs: Ctrl-C ends one, Ctrl-Z stops one, and the shell goes on.
    screen.type(b"sh -c 'echo be\"\"gun; exec cat'\r")
    screen.read_until("begun")
    screen.type(b"\x03")
    screen.read_until("^C\nready>")
    screen.type(b"sh -c 'echo ag\"\"ain; exec cat'\r")
    screen.read_until("again")
    screen.type(b"\x1a")
    screen.read_until("Stopped")
    screen.type(b"jobs; echo sto''pped\r")
    screen.read_until("stopped")
    assert "Stopped" in screen.screen.text
    screen.type(b"kill -9 %1; exit 9\r")
    screen.type(b"exit 9\r")  # the first time, the shell may know of the stopped job only
    screen.read_until("code 9")
    screen.read_until("over")
    assert screen.read_to_end() == 0
    before, after = ((terminal.workspace.directory / name).read_text() for name in ("before", "after"))
    # The window has another size since.
    assert before.partition(";")[2].split(";", 2)[2] == after.partition(";")[2].split(";", 2)[2]


def test_the_terminal_is_restored_when_the_client_is_terminated(terminal: Terminal) -> None:
    directory = terminal.workspace.directory
    command = f"{PUMICE} exec w-0 -- sh -c 'echo $$ here; exec sleep 98{os.getpid()}'"
    script = f"stty -a > before; {command}; echo code $?; stty -a > after; echo over"
    screen = OnTerminal(["sh", "-c", script], directory, terminal.workspace.env)
    screen.read_until(" here")
    (client,) = subprocess.run(
        ["pgrep", "-P", str(screen.process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(client), signal.SIGTERM)
    screen.read_until("code 143")
    screen.read_until("over")
    assert screen.read_to_end() == 0
    assert (directory / "before").read_text() == (directory / "after").read_text()
    terminal.until(lambda: not processes(f"sleep 98{os.getpid()}"))

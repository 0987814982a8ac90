"""`pumice cp`: files and directories into running pods and out of them, and out of kept pods."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.commands import WAITING, Terminal
from tests.local.running import job, processes, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE


@pytest.fixture(params=["namespaces", "process"])
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    """A user whose run has started a pod w-0 with a volume at /data."""
    if request.param == "namespaces":
        need_namespaces()
    found = Terminal(tmp_path)
    pod = {"volumes": [{"name": "data", "emptyDir": {}}]}
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    script = f"mkdir /data/made; echo text > /data/made/file; ln -s file /data/made/link; {WAITING}"
    process = found.workspace.start(
        job(task("w", script, pod=pod, container=mounted)), flags=["--isolation", request.param]
    )
    found.until(lambda: [(each["pods"]["running"]) for each in found.items("--active")] == [1])
    found.until(lambda: found("logs", "trial").out.endswith("up\n"))
    yield found
    (tmp_path / "go").touch()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out, err)
    found.until(lambda: not processes(str(tmp_path)))


def test_files_and_directories_in_both_directions(terminal: Terminal) -> None:
    here = terminal.workspace.directory
    terminal("cp", "w-0:/data/made", "copy")
    assert (here / "copy" / "link").read_text() == "text\n"
    assert (here / "copy" / "link").is_symlink()
    terminal("cp", "trial:1/w-0:/data/made/file", ".")
    assert (here / "file").read_text() == "text\n"
    (here / "own").mkdir()
    (here / "own" / "large").write_bytes(os.urandom(3_000_000))
    os.mkfifo(here / "own" / "pipe")
    into = terminal("cp", "own", "w-0:/data")
    assert into.err == "not copied: pipe: not a file, directory or link\n"
    terminal("cp", "w-0:/data/own/large", "back")
    assert (here / "back").read_bytes() == (here / "own" / "large").read_bytes()
    missing = terminal("cp", "w-0:/data/none", "x", code=2).err
    assert missing.startswith(
        "trial:1/w-0:/data/none: no such file or directory\n  hint: pumice exec trial:1/w-0 -- ls "
    )
    assert terminal("cp", "own/none", "w-0:/data", code=2).err.startswith("own/none: no such file or directory\n")
    into = terminal("cp", "own", "w-0:/data/none/none", code=2)
    assert into.err.startswith("trial:1/w-0:/data/none/none: no such file or directory\n")
    out = terminal("cp", "w-0:/data/made/file", "none/x", code=2)
    assert out.err == "none/x: no such file or directory\n  hint: none does not exist\n"
    assert "one of them must be in a pod" in terminal("cp", "own", "./w-0:/data", code=2).err
    assert terminal("cp", "w-7:/data", "x", code=2).err.startswith("the job has no pod w-7 now")
    assert not (here / "x").exists()


def test_a_pod_that_has_ended_needs_keep(tmp_path: Path) -> None:
    need_namespaces()
    terminal = Terminal(tmp_path)
    pod = {"volumes": [{"name": "data", "emptyDir": {}}]}
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    trial = job(
        task("w", "echo in > /data/volume; mkdir /srv/made; echo on > /srv/made/layer", pod=pod, container=mounted)
    )
    assert terminal.workspace.run(trial).code == 0
    refused = terminal("cp", "w-0:/srv/made", "x", code=1).err
    assert refused.startswith("trial:1/w-0 does not run, and its files are not kept\n  hint: only a run with --keep")
    assert terminal.workspace.run(trial, flags=["--keep"]).code == 0
    terminal("cp", "w-0:/srv/made", "x")
    assert (tmp_path / "x" / "layer").read_text() == "on\n"
    terminal("cp", "w-0:/data/volume", ".")
    assert (tmp_path / "volume").read_text() == "in\n"
    assert "no such file or directory" in terminal("cp", "w-0:/srv/none", "y", code=2).err


# What a pod puts where it can write: links to a directory of the user, at names that a user is likely to give, and a
# directory that becomes such a link again and again.
PLANTS = """
mkdir -p /srv/made real && echo text > /srv/made/file
for link in out above real/made /data/out; do ln -s {victim} $link; done
ln -s {victim}/new file && ln -s {victim}/canary config && echo up
while [ ! -e go ]; do rm -rf swapped; mkdir swapped; rm -rf swapped; ln -s {victim} swapped; done 2> /srv/errors
"""


def test_links_that_a_pod_made_are_not_followed(tmp_path: Path) -> None:
    need_namespaces()
    here, data, own, victim, big = (tmp_path / name for name in ("here", "data", "own", "victim", "big"))
    for directory in (here, data, own, victim, big):
        directory.mkdir()
    (victim / "canary").write_text("sings")
    (own / "data").symlink_to("../big")
    (own / "here").symlink_to(here)
    terminal = Terminal(here)
    pod = {"volumes": [{"name": "data", "hostPath": {"path": str(data)}}]}
    mounted = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    script = PLANTS.format(victim=victim)
    process = terminal.workspace.start(job(task("w", script, pod=pod, container=mounted)), flags=["--network=job"])
    terminal.until(lambda: terminal("logs", "trial", code=None).out.endswith("up\n"))
    wrong: list[object] = []
    for source, target, link in (
        ("w-0:/srv/made", "out", here / "out"),
        ("w-0:/srv/made/file", "out", here / "out"),
        ("w-0:/srv/made/file", "file", here / "file"),
        ("w-0:/srv/made", "above/new", here / "above"),
        ("w-0:/srv/made", "real", here / "real/made"),
        ("w-0:/srv/made", f"{own}/here/out", here / "out"),
        ("w-0:/srv/made", f"{data}/out", data / "out"),
        ("config", "w-0:/srv/config", here / "config"),
    ):
        done = terminal("cp", source, target, code=None)
        message = f"{link} is a symbolic link to {victim}"
        wrong += [(source, target, done)] if done.code != 2 or message not in done.err else []
    for _ in range(10):
        terminal("cp", "w-0:/srv/made", "swapped", code=None)
    terminal("cp", "w-0:/srv/made", f"{own}/data")
    read = terminal("exec", "w-0", "--", "grep", "-r", "sings", "/srv", code=1)
    named = terminal("cp", "w-0:/srv/made", "out", code=2).err.partition("name it instead: ")[2]
    unharmed = [path.name for path in victim.rglob("*")]
    terminal("cp", "w-0:/srv/made", *shlex.split(named))
    (here / "go").touch()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out, err)
    assert (wrong, read.out, unharmed) == ([], "", ["canary"])
    assert [(directory / "made" / "file").read_text() for directory in (big, victim)] == ["text\n"] * 2

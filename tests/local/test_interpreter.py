"""A pod cannot change the Python that Pumice runs from, as CVE-2019-5736 did with the runtime of containers.

Until its command runs, a container is that Python. Attacks harm nothing: they write the mode, the times and the owner
that the file has already.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.client import Sandbox
from pumice.engines.local.sandbox.sandbox_errors import StartError
from pumice.engines.local.sandbox.specs import Mount, SandboxOptions
from tests.local.running import Workspace, job, scripted, task
from tests.local.sandbox.boxes import Box, need_namespaces, python_mounts, run
from tests.moved_python import moved_python
from tests.patience import RUN_TIMEOUT

AS_ROOT = os.geteuid() == 0
# Prints each way to change a file that works.
CHANGE = r"""
import glob, os, sys
ways = {
    "mode": lambda path, found: os.chmod(path, found.st_mode & 0o7777),
    "times": lambda path, found: os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns)),
    "owner": lambda path, found: os.chown(path, found.st_uid, found.st_gid),
    "content": lambda path, found: os.close(os.open(path, os.O_WRONLY)),
    "append": lambda path, found: os.close(os.open(path, os.O_WRONLY | os.O_APPEND)),
    "attribute": lambda path, found: os.removexattr(path, "user.none"),
    "descriptor": lambda path, found: os.fchmod(os.open(path, os.O_RDONLY), found.st_mode & 0o7777),
    "opened": lambda path, found: os.chmod(f"/proc/self/fd/{os.open(path, os.O_PATH)}", found.st_mode & 0o7777),
}
paths = {*glob.glob("/proc/[0-9]*/exe"), "/proc/self/exe", "/proc/1/exe", "/proc/thread-self/exe", sys.executable}
for path in sorted(paths):
    for way, change in ways.items():
        try:
            change(path, os.stat(path))
        except OSError as error:
            if way == "attribute" and error.errno == 61:
                print(way, path)
        else:
            print(way, path)
print("tried", len(paths) > 2)
"""
REFUSED = "leads to the Python of this machine, not to a file of the container"


@pytest.fixture(autouse=True)
def _possible() -> None:
    need_namespaces()


def write_script(path: Path, interpreter: str, text: str = "") -> str:
    path.write_text(f"#!{interpreter}\n{text}")
    path.chmod(0o755)
    return str(path)


def own_python(directory: Path) -> Path:
    """Make a Python that belongs to the user of the tests, as `venv --copies`, conda and uv do."""
    subprocess.run([sys.executable, "-m", "venv", "--copies", "--without-pip", str(directory)], check=True)
    return directory / "bin" / "python"


def test_the_interpreter_of_the_user_cannot_be_changed(tmp_path: Path) -> None:
    """By the link itself, and by the interpreter of an interpreter, which only the kernel looks at."""
    workspace = Workspace(tmp_path / "project")
    workspace.directory.mkdir()
    python = own_python(tmp_path / "venv")
    packages = sysconfig.get_paths()["purelib"]
    workspace.environ |= {
        "PYTHONPATH": f"{workspace.env['PYTHONPATH']}:{packages}",
        "VIRTUAL_ENV": str(tmp_path / "venv"),
    }
    inner = write_script(workspace.directory / "inner", "/proc/self/exe", CHANGE)
    (workspace.directory / "link").symlink_to("/proc/self/exe")
    commands = {
        "exe": ["/proc/self/exe", "-c", CHANGE],
        "thread": ["/proc/thread-self/exe", "-c", CHANGE],
        "link": [str(workspace.directory / "link"), "-c", CHANGE],
        "script": [inner],
        "nested": [write_script(workspace.directory / "outer", inner)],
        "python": ["python3", "-c", CHANGE],
    }
    tasks = [task(name, "", container=scripted(*argv)) for name, argv in commands.items()]
    before = python.stat()
    _, *arguments = workspace.argv(job(*tasks, minAvailable=1), flags=["--network=job", RUN_TIMEOUT])
    done = subprocess.run(
        [str(python), *arguments],
        cwd=workspace.directory,
        env=workspace.env,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if not line.endswith("tried True")]
    assert (lines, done.stdout.count("tried True")) == ([], 2), done.stdout + done.stderr
    assert done.stderr.count(REFUSED) >= 4, done.stderr
    after = python.stat()
    assert (stat.S_IMODE(after.st_mode), after.st_mtime_ns) == (stat.S_IMODE(before.st_mode), before.st_mtime_ns)


def test_a_python_that_only_ld_library_path_finds(tmp_path: Path) -> None:
    """Pods, and the processes of Pumice that start with few variables, such as job-init."""
    workspace = Workspace(tmp_path / "project")
    workspace.directory.mkdir()
    python = moved_python(tmp_path / "moved")
    packages = sysconfig.get_paths()["purelib"]
    workspace.environ |= {
        "PYTHONPATH": f"{workspace.env['PYTHONPATH']}:{packages}",
        "LD_LIBRARY_PATH": str(tmp_path / "moved" / "lib"),
    }
    show = scripted("sh", "-c", "echo found ${LD_LIBRARY_PATH-no variable}")
    _, *arguments = workspace.argv(job(task("only", "", container=show)), flags=["--network=job", RUN_TIMEOUT])
    done = subprocess.run(
        [str(python), *arguments],
        cwd=workspace.directory,
        env=workspace.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "found no variable" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary user has no ids to map")
def test_the_interpreter_of_a_root_without_mapped_ids_cannot_be_changed(tmp_path: Path) -> None:
    """Root of a pod is then root of the machine, who owns the system's Python."""
    inner = write_script(tmp_path / "inner", "/proc/self/exe", CHANGE)
    outer = write_script(tmp_path / "outer", inner)

    async def story() -> None:
        sandbox = await Sandbox.start("unmapped", tmp_path / "scratch", SandboxOptions(shared=["/proc"]))
        made = Box(sandbox)
        try:
            assert sandbox.unmapped
            await made.pod("a")
            mounts = (*python_mounts(), Mount(str(tmp_path), str(tmp_path)))
            ended, text = await made.run(made.spec("a", outer, mounts=mounts))
            assert (ended.code, text) == (0, "tried True\n")
            with pytest.raises(StartError, match=REFUSED):
                await made.start(made.spec("a", "/proc/self/exe", "-c", "", mounts=mounts))
        finally:
            await sandbox.close()
            made.close()

    run(story())


def test_an_image_that_starts_by_the_link_cannot_change_it(tmp_path: Path) -> None:
    """The image has no Python: what runs is that of the machine, by the first line of a script in the image."""
    workspace = Workspace(tmp_path / "project")
    root = workspace.directory / "root"
    (root / "bin").mkdir(parents=True)
    write_script(root / "bin" / "inner", "/proc/self/exe", "")
    result = workspace.run(
        job(task("only", "", container=scripted("/bin/inner"))),
        flags=["--network=job", f"--image=nowhere={root}"],
    )
    assert result.code == 126, result.err
    assert REFUSED in result.err

"""What pods see read-only stays read-only by every path: the Python environment, and what the user mounts so.

A row is a Job that shows the path a second time, or moves what is above it. Whatever it could write, the user would run
later, on this machine and outside of any pod. As root, `make test` runs this file as root and as an ordinary user.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.sandbox.sandbox_errors import StartError
from pumice.engines.local.sandbox.specs import PINNED, READ_ONLY, Guard, Mount
from tests.local.roots import small_root
from tests.local.running import Workspace, extra_object, job, task
from tests.local.sandbox.boxes import Box, in_box, need_namespaces, python_mounts
from tests.local.test_escapes import RENAMEAT2, SWAP
from tests.patience import PATIENCE, RUN_TIMEOUT

Manifest = dict[str, Any]
# Tries to change what is at a path by every means; prints those that work.
CHANGES = """
cd {path} 2>/dev/null || cd /
[ "$PWD" = / ] || {{ touch planted && echo created; }}
for file in {path}/pyvenv.cfg {path}; do
    [ -e $file ] || continue
    chmod a+w $file && echo chmod
    touch $file && echo touch
    [ -d $file ] || sh -c ": >> $file" && [ ! -d $file ] && echo append
    mv $file $file.old && echo rename
    rm -f $file && echo remove
done
cd /
rmdir {path} && echo rmdir
true
"""
PARENTS = """
mv {parent} {parent}-old && echo renamed
mv -T {parent}-old {parent}
python3 -c "import ctypes; ctypes.CDLL(None).syscall({renameat2}, -100, b'{parent}', -100, b'{other}', 2)"
[ -e {parent}/mark ] && echo exchanged
rmdir {parent} && echo removed
true
"""


@pytest.fixture(autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A project that is not in a home, so that what is above it needs no consent."""
    workspace = Workspace(tmp_path / "above" / "project", {"HOME": str(tmp_path / "home")})
    workspace.directory.mkdir(parents=True)
    return workspace


def make_environment(workspace: Workspace, name: str) -> Path:
    """Make the active Python environment of the user."""
    path = workspace.directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    venv.create(path, with_pip=False)
    workspace.environ["VIRTUAL_ENV"] = str(path)
    return path


def state_of(directory: Path) -> list[tuple[str, int, int, int]]:
    """All that a pod could change of a tree, but for the contents of files, which change their times."""
    found = [directory, *directory.rglob("*")]
    stats = [(path, path.lstat()) for path in sorted(found)]
    return [(str(path), stat.st_mode, stat.st_mtime_ns, stat.st_size) for path, stat in stats]


def volume(path: object, **mount: Any) -> tuple[Manifest, Manifest]:
    """The pod and the container of a task with a hostPath at /x."""
    mounted = {"name": "v", "mountPath": "/x", **mount}
    return {"volumes": [{"name": "v", "hostPath": {"path": str(path)}}]}, {"volumeMounts": [mounted]}


def run_with(workspace: Workspace, script: str, volumes: tuple[Manifest, Manifest], flags: Sequence[str] = ()) -> Any:
    pod, container = volumes
    only = task("only", script, container=container)
    only["template"]["spec"] |= pod
    return workspace.run(job(only), flags=["--network=job", "--no-prefix", *flags])


@dataclass(frozen=True)
class Way:
    """A second path to `protected`, which is a path in the project; paths of the machine are relative to `above`."""

    source: str
    seen: str
    mount: Mapping[str, Any] = field(default_factory=dict)
    flags: Sequence[str] = ()


WAYS = [
    pytest.param(Way("project", "/x/PROTECTED"), id="the working directory"),
    pytest.param(Way(".", "/x/project/PROTECTED"), id="a directory above it"),
    pytest.param(Way(".", "/x/PROTECTED", {"subPath": "project"}), id="a subPath"),
    pytest.param(Way("link", "/x/PROTECTED"), id="a link to the working directory"),
    pytest.param(Way(".", "/x/project/PROTECTED", flags=["--allow-host-path=."]), id="consent for what is above"),
]


@pytest.mark.parametrize("protected", [".venv", "envs/venv", "data:ro"])
@pytest.mark.parametrize("way", WAYS)
def test_a_second_mount_shows_it_read_only(way: Way, protected: str, workspace: Workspace) -> None:
    above, flags = workspace.directory.parent, list(way.flags)
    name = protected.removesuffix(":ro")
    if name == protected:
        path = make_environment(workspace, name)
    else:
        path = workspace.directory / name
        path.mkdir()
        (path / "pyvenv.cfg").write_text("data\n")
        flags.append(f"--mount={protected}")
    (above / "link").symlink_to("project")
    before = state_of(path)
    seen = way.seen.replace("PROTECTED", name)
    script = "".join(CHANGES.format(path=each) for each in (seen, path))
    result = run_with(workspace, f"exec 2>/dev/null; {script} echo end", volume(above / way.source, **way.mount), flags)
    assert (result.code, result.out) == (0, "end\n"), result.err
    assert state_of(path) == before


@pytest.mark.parametrize("seen", ["{project}", "/x"])
def test_what_is_above_it_cannot_be_moved(seen: str, workspace: Workspace) -> None:
    """A pod that replaced the directory above would choose what the user's `python` is."""
    path = make_environment(workspace, "deep/envs/venv")
    (workspace.directory / "other").mkdir()
    (workspace.directory / "other" / "mark").touch()
    root = seen.format(project=workspace.directory)
    numbers = {"renameat2": RENAMEAT2[os.uname().machine], "other": f"{root}/other"}
    script = "".join(PARENTS.format(parent=f"{root}/{each}", **numbers) for each in ("deep", "deep/envs"))
    before = state_of(path)
    result = run_with(
        workspace,
        f"exec 2>/dev/null; {script} touch {root}/deep/envs/mine; echo end",
        volume(workspace.directory),
    )
    assert (result.code, result.out) == (0, "end\n"), result.err
    assert state_of(path) == before
    assert (workspace.directory / "deep" / "envs" / "mine").exists()


def test_an_image_does_not_make_it_writable(workspace: Workspace) -> None:
    path = make_environment(workspace, ".venv")
    small_root(workspace.directory / "root", {name: name for name in ("sh", "touch", "chmod", "mv", "rm", "rmdir")})
    before = state_of(path)
    script = f"exec 2>/dev/null; {CHANGES.format(path=path)} {CHANGES.format(path='/x/.venv')} echo end"
    result = run_with(
        workspace, script, volume(workspace.directory), [f"--image=nowhere={workspace.directory / 'root'}"]
    )
    assert (result.code, result.out) == (0, "end\n"), result.err
    assert state_of(path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a directory twice")
def test_a_directory_that_is_mounted_twice_has_the_same_rules(workspace: Workspace) -> None:
    """Neither path is a link to the other."""
    path = make_environment(workspace, ".venv")
    (workspace.directory.parent / "twice").mkdir()
    pod, container = volume(workspace.directory.parent / "twice")
    script = f"exec 2>/dev/null; {CHANGES.format(path='/x/.venv')} echo end"
    only = task("only", script, container=container, pod=pod)
    argv = workspace.argv(job(only), flags=["--network=job", "--no-prefix", RUN_TIMEOUT])
    before = state_of(path)
    mount = f"mount --bind {workspace.directory} {workspace.directory.parent}/twice"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh", *argv],
        cwd=workspace.directory,
        env=workspace.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
    assert state_of(path) == before


def test_a_read_only_working_directory_is_so_below_a_volume(workspace: Workspace) -> None:
    script = "touch /x/project/planted 2>/dev/null && echo created; touch /x/mine && echo end"
    result = run_with(workspace, script, volume(workspace.directory.parent), ["--workdir-read-only"])
    assert (result.code, result.out) == (0, "end\n"), result.err


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def test_a_claim_of_the_job_is_no_way_to_what_is_mounted_read_only(workspace: Workspace) -> None:
    claim = workspace.state / "claims" / "default" / "data"
    claim.mkdir(parents=True)
    (claim / "kept").write_text("data\n")
    pod = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    only = task("only", "echo x > /x/kept", container={"volumeMounts": [{"name": "v", "mountPath": "/x"}]}, pod=pod)
    documents = (job(only), extra_object("PersistentVolumeClaim", "data", spec=CLAIM))
    result = workspace.run(*documents, flags=["--network=job", f"--mount={claim}:ro"])
    assert result.code == 2, result.err
    assert f"{claim} (read/write, mount at /x): is mounted read-only, and needs your consent" in result.err
    assert (claim / "kept").read_text() == "data\n"


@dataclass(frozen=True)
class Named:
    """A writable mount of the environment itself, which the user must have allowed. `asked` is the path to allow."""

    asked: str
    volumes: tuple[Manifest, Manifest] = ({}, {})
    toml: str = ""


def mounted(path: str, **mount: Any) -> tuple[Manifest, Manifest]:
    return volume(f"PROJECT/{path}", **mount)


EXPRESSION = {"subPathExpr": "$(PART)"}
NAMED = [
    pytest.param(Named(".venv", mounted(".venv")), id="hostPath"),
    pytest.param(Named(".venv/lib", mounted(".venv/lib")), id="a part of it"),
    pytest.param(Named(".venv", mounted("", subPath=".venv")), id="subPath"),
    pytest.param(Named(".venv", mounted("", **EXPRESSION)), id="subPathExpr"),
    pytest.param(Named(".venv", toml='[mounts]\n"/x" = "./.venv"\n'), id="pumice.toml"),
]


@pytest.mark.parametrize("named", NAMED)
def test_a_writable_mount_of_it_needs_consent_and_is_writable_with_it(named: Named, workspace: Workspace) -> None:
    path = make_environment(workspace, ".venv")
    pod, container = json.loads(json.dumps(named.volumes).replace("PROJECT", str(workspace.directory)))
    container["env"] = [{"name": "PART", "value": ".venv"}]
    if named.toml:
        (workspace.directory / "pumice.toml").write_text(named.toml)
    before = state_of(path)
    refused = run_with(workspace, "touch /x/planted && echo created", (pod, container))
    asked = workspace.directory / named.asked
    assert (refused.code, refused.out) == (2, ""), refused.err
    assert "the Python environment, and needs your consent" in refused.err
    assert f"--allow-host-path {asked}" in refused.err
    assert state_of(path) == before
    # Consent for the directory above is not consent for this.
    above = run_with(workspace, "true", (pod, container), [f"--allow-host-path={workspace.directory}"])
    assert above.code == 2, above.err
    allowed = run_with(workspace, "touch /x/wanted && echo created", (pod, container), [f"--allow-host-path={asked}"])
    assert (allowed.code, allowed.out) == (0, "created\n"), allowed.err
    assert (asked / "wanted").exists()


def test_a_link_to_it_that_pods_could_replace_is_named(workspace: Workspace) -> None:
    path = make_environment(workspace, "../elsewhere/venv").resolve()
    link = workspace.directory / ".venv"
    link.symlink_to(path)
    workspace.environ["VIRTUAL_ENV"] = str(link)
    result = run_with(workspace, "true", ({}, {}))
    assert f"{link} is a link where pods write: a pod could replace it" in result.err
    assert f"hint: name {path} itself" in result.err


def test_the_environment_that_pumice_runs_from_is_read_only_too(workspace: Workspace) -> None:
    """The next command of the user would run what a pod plants there, whichever Python pods get."""
    above = Path(sys.prefix).parent
    seen = f"/x/{Path(sys.prefix).name}"
    script = f"touch -c -r {seen}/pyvenv.cfg {seen}/pyvenv.cfg 2>/dev/null && echo changed; echo end"
    result = run_with(workspace, script, volume(above), [f"--allow-host-path={above}"])
    assert (result.code, result.out) == (0, "end\n"), result.err


@in_box
async def test_guards_are_below_their_mount_whatever_link_leads_there(box: Box, tmp_path: Path) -> None:
    """Pods mount a directory at a path with a link that another pod swaps: no guard ends up at another directory."""
    shared, project = tmp_path / "shared", tmp_path / "project"
    for name in ("sub/place", "other/place"):
        (shared / name).mkdir(parents=True)
    (shared / "link").symlink_to("other")
    (project / "envs" / "venv").mkdir(parents=True)
    # The swapper exchanges a directory with a link to another one.
    guards = (Guard("envs", PINNED), Guard("envs/venv", READ_ONLY))
    mounts = (Mount(str(shared), "/claim"), Mount(str(project), "/claim/sub/place", guards=guards))
    script = "for each in /claim/*/place; do touch $each/envs/venv/planted 2>/dev/null && echo planted; done; echo end"

    async def start(pod: str) -> str:
        await box.pod(pod)
        try:
            return (await box.shell(pod, script, mounts=mounts))[1]
        except StartError as error:
            return error.kind

    await box.pod("swapper")
    argv = (sys.executable, "-ISuc", SWAP.format(renameat2=RENAMEAT2[os.uname().machine]))
    swapper = await box.start(box.spec("swapper", *argv, mounts=(*python_mounts(), Mount(str(shared), "/claim"))))
    assert await swapper.line() == "swapping"
    seen = Counter(await asyncio.gather(*(start(f"victim-{number}") for number in range(100))))
    assert seen["end\n"] + seen["mount"] == seen.total(), seen
    assert not (project / "envs" / "venv" / "planted").exists()


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX", "PATH"])
def test_every_python_that_the_user_may_start_next_is_read_only(variable: str, workspace: Workspace) -> None:
    """Not only the one that pods get, which a Job can influence by its plugins."""
    path = make_environment(workspace, "env")
    (path / "bin" / "python3").unlink()
    (path / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))
    del workspace.environ["VIRTUAL_ENV"]
    first = f"{path}/bin:" if variable == "PATH" else ""
    workspace.environ["PATH"] = f"{first}{workspace.env['PATH']}"
    if variable != "PATH":
        workspace.environ[variable] = str(path)
    result = run_with(
        workspace,
        f"exec 2>/dev/null; {CHANGES.format(path=path)} echo end",
        ({}, {}),
        [f"--python={sys.executable}"],
    )
    assert (result.code, result.out) == (0, "end\n"), result.err


@pytest.mark.parametrize("below", ["", "lib"])
@pytest.mark.parametrize("with_image", [False, True])
def test_a_working_directory_in_an_environment_is_read_only(below: str, with_image: bool, workspace: Workspace) -> None:
    path = make_environment(workspace, "venv")
    flags = []
    if with_image:
        small_root(workspace.directory / "root", {"sh": "sh", "touch": "touch"})
        flags = [f"--image=nowhere={workspace.directory / 'root'}"]
    inside = Workspace(workspace.directory, workspace.environ, cwd=str(path / below))
    result = run_with(inside, f"touch {path / below}/planted 2>/dev/null && echo created; echo end", ({}, {}), flags)
    assert (result.code, result.out) == (0, "end\n"), result.err
    assert f"the working directory is in the Python environment {path}, and read-only" in result.err


def test_a_link_behind_the_interpreter_that_pods_could_replace_is_named(workspace: Workspace) -> None:
    """The environment itself is read-only, but its interpreter is found by a link beside it."""
    path = make_environment(workspace, ".venv")
    real = Path(os.path.realpath(sys.executable))
    (workspace.directory / "current").symlink_to(real.parents[1])
    (path / "bin" / "python3").unlink()
    (path / "bin" / "python3").symlink_to(f"../../current/bin/{real.name}")
    result = run_with(workspace, "true", ({}, {}))
    assert f"{workspace.directory}/current is a link where pods write: a pod could replace it" in result.err


def test_modules_that_a_pod_could_add_to_pumice_are_named(workspace: Workspace) -> None:
    (workspace.directory / "src").mkdir()
    workspace.environ["PYTHONPATH"] = f"{workspace.env['PYTHONPATH']}:{workspace.directory}/src"
    process = workspace.start_python(job(task("only", "true")), flags=["--network=job"])
    _, err = process.communicate(timeout=PATIENCE)
    assert f"Pumice imports modules from {workspace.directory}/src, where pods write" in err


def test_var_tmp_is_as_private_as_tmp(workspace: Workspace) -> None:
    with tempfile.NamedTemporaryFile(dir="/var/tmp", prefix="pumice-canary-") as canary:
        canary.write(b"sings")
        canary.flush()
        script = f"cat {canary.name} 2>/dev/null; touch /var/tmp/mine && ls /var/tmp"
        result = run_with(workspace, script, ({}, {}))
    assert (result.code, result.out) == (0, "mine\n"), result.err

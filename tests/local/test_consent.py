"""Consent for files of this machine: what a Job gets without asking, what needs a yes, and what stays hidden."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest

from pumice.cli.main import main
from tests.local.running import Workspace, job, task
from tests.local.sandbox.boxes import need_namespaces

Manifest = dict[str, Any]


@pytest.fixture(autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A project in a home that has credentials, with data beside the home."""
    for name in ("home/project", "home/.ssh", "home/.config/gcloud", "data"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("home/.ssh/id", "home/.config/gcloud/token", "home/.netrc"):
        (tmp_path / name).write_text("canary\n")
    (tmp_path / "data" / "set").write_text("data\n")
    return Workspace(tmp_path / "home" / "project", {"HOME": str(tmp_path / "home")})


def with_volume(script: str, path: Path | str, *, read_only: bool = False) -> Manifest:
    mounts = [{"name": "v", "mountPath": "/v", "readOnly": read_only}]
    volumes = [{"name": "v", "hostPath": {"path": str(path)}}]
    return task("only", script, container={"volumeMounts": mounts}, pod={"volumes": volumes})


def refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *flags: str
) -> list[str]:
    """Run job.yaml in this process, because nothing starts; return what it prints."""
    monkeypatch.chdir(workspace.directory)
    for name, value in workspace.env.items():
        monkeypatch.setenv(name, value)
    assert main(["run", "job.yaml", *flags]) == 2
    return capfd.readouterr().err.splitlines()


def test_data_is_mounted_and_shown_in_the_header(workspace: Workspace) -> None:
    data = workspace.directory.parents[1] / "data"
    only = with_volume("cat /v/set; echo new > /v/new; df /shm | tail -1 | cut -d' ' -f1", data)
    only["template"]["spec"]["volumes"].append({"name": "shm", "hostPath": {"path": "/dev/shm"}})
    only["template"]["spec"]["containers"][0]["volumeMounts"].append({"name": "shm", "mountPath": "/shm"})
    result = workspace.run(job(only), flags=["--network=job", "--no-prefix"])
    assert (result.code, result.out) == (0, "data\ntmpfs\n"), result.err
    assert f"  uses {data} (read/write, hostPath of volume v)\n" in result.err
    assert (data / "new").read_text() == "new\n"


@pytest.mark.parametrize("way", ["hostPath", "mounts", "files", "programs", "images", "entrypoints"])
def test_a_home_needs_consent(
    way: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The last line is the command with the flag."""
    home = workspace.directory.parent
    path, mode, origin = home / ".ssh" / "id", "read-only", f"pumice.toml [{way}]"
    tables = {
        "mounts": 'paths = ["../.ssh/id:ro"]',
        "files": 'nowhere = { "/stolen" = "../.ssh/id" }',
        "programs": 'nowhere = ["../.ssh/id"]',
        "images": 'nowhere = "../.ssh/id"',
        "entrypoints": 'nowhere = "./../.ssh/id"',
    }
    if way == "hostPath":
        path, mode, origin = home, "read/write", "hostPath of volume v"
        workspace.write(job(with_volume("true", home)))
    else:
        (workspace.directory / "pumice.toml").write_text(f"[{way}]\n{tables[way]}\n")
        workspace.write(job(task("only", "true")))
    *lines, last = refused(workspace, monkeypatch, capfd, "--timeout", "1m")
    why = "is a home directory" if way == "hostPath" else "holds credentials"
    shown = path if way == "hostPath" else f"{workspace.directory}/../.ssh/id -> {path}"
    assert f"{shown} ({mode}, {origin}): {why}, and needs your consent" in lines
    assert last == f"pumice run job.yaml --timeout 1m --allow-host-path {path}"


def test_an_environment_beside_the_job_that_leads_elsewhere_needs_consent(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is named by the project, which anybody may have written; it is read, and never run."""
    elsewhere = workspace.directory.parent / "elsewhere"
    (elsewhere / "bin").mkdir(parents=True)
    python = elsewhere / "bin" / "python3"
    python.write_text(f"#!/bin/sh\ntouch {elsewhere}/was-run\n")
    python.chmod(0o755)
    (elsewhere / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.1\n")
    (workspace.directory / ".venv").symlink_to(elsewhere)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    workspace.write(job(task("only", "true")))
    *lines, last = refused(workspace, monkeypatch, capfd)
    assert any(f"{elsewhere}" in line and line.endswith("needs your consent") for line in lines), lines
    assert last == f"pumice run job.yaml --allow-host-path {elsewhere}"
    allowed = workspace.run(job(task("only", "echo ran")), flags=["--no-prefix", "--allow-host-path", str(elsewhere)])
    assert (allowed.code, allowed.out) == (0, "ran\n"), allowed.err
    assert "  python ~/project/.venv/bin/python3 3.12\n" in allowed.err
    assert not (elsewhere / "was-run").exists()


def test_credentials_stay_hidden_where_a_home_is_shown(workspace: Workspace) -> None:
    """Also after a pod has tried to move them, and for Pumice's own directories."""
    home = workspace.directory.parent
    read = "cat {0}/.ssh/id {0}/.netrc {0}/.config/gcloud/token 2>/dev/null"
    own = "find {0}/state/pumice {0}/.config/pumice -mindepth 1"
    move = "mv {0}/.config {0}/.moved 2>/dev/null; mv {0}/.ssh {0}/.moved 2>/dev/null; ls -d {0}/.moved 2>/dev/null"
    script = f"{read}; {own}; {move}; echo {{0}}"
    at_home = Workspace(home, {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")})
    only = with_volume(f"{script.format(home)}; {script.format('/v')}; echo new > /v/new", home)
    result = at_home.run(job(only), flags=["--network=job", "--no-prefix", "--allow-host-path", str(home)])
    assert (result.code, result.out) == (0, f"{home}\n/v\n"), result.err
    assert f"working directory {home} (read/write) has a home: its credentials are hidden" in result.err
    assert (home / "new").read_text() == "new\n"


def test_a_yes_on_a_terminal_is_remembered(workspace: Workspace) -> None:
    home = workspace.directory.parent
    argv = workspace.argv(job(with_volume("ls -a /v | grep -c ssh", home, read_only=True)), flags=["--network=job"])
    answers = [b"n\n", b"y\n", b""]
    ends = []
    for answer in answers:
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(workspace.directory)
            os.execve(sys.executable, argv, dict(workspace.env))
        shown = b""
        while True:
            try:
                shown += os.read(terminal, 4096)
            except OSError:
                break
            if shown.endswith(b"[y/N] "):
                os.write(terminal, answer)
        ends.append((os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), b"[y/N] " in shown))
        os.close(terminal)
    assert ends == [(2, True), (0, True), (0, False)]
    # Consent to read is no consent to write.
    result = workspace.run(job(with_volume("true", home)))
    assert (result.code, result.err.splitlines()[-1].endswith(f"--allow-host-path {home}")) == (2, True), result.err


def test_what_is_shared_on_purpose(workspace: Workspace) -> None:
    """--mount is consent, at another path too; the working directory may be read-only; data is not shown by itself."""
    home, data = workspace.directory.parent, workspace.directory.parents[1] / "data"
    script = f"cat /d/set /k/id; touch /d/x here 2>/dev/null; ls /d . ; ls {data} /srv /mnt 2>/dev/null"
    flags = ["--mount", f"{data}:/d:ro", "--mount", f"{home / '.ssh'}:/k:ro", "--workdir-read-only"]
    result = workspace.run(job(task("only", script)), flags=[*flags, "--network=job", "--no-prefix"])
    assert result.out == "data\ncanary\n.:\njob.yaml\nstate\n\n/d:\nset\n/mnt:\n\n/srv:\n", result.err


def test_a_job_file_in_a_home_shows_only_what_its_pumice_toml_names(workspace: Workspace, tmp_path: Path) -> None:
    home, elsewhere = workspace.directory.parent, tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / "train.sh").write_text(f"ls -A {home}\n")
    (home / "pumice.toml").write_text('[entrypoints]\nnowhere = "sh ./train.sh"\n')
    only = task("only", "")
    del only["template"]["spec"]["containers"][0]["command"]
    in_home = Workspace(home, {"HOME": str(home), "XDG_STATE_HOME": str(tmp_path / "state")}, cwd=str(elsewhere))
    result = in_home.run(job(only), flags=["--network=job", "--no-prefix"])
    assert (result.code, result.out) == (0, "train.sh\n"), result.err


def test_the_verdict_names_the_path_that_is_not_shared(workspace: Workspace) -> None:
    data = workspace.directory.parents[1] / "data" / "set"
    result = workspace.run(job(task("only", f"cat {data}")), flags=["--network=job"])
    assert f"--mount {data}:ro     {data} exists here, and pods do not see it" in result.verdict[-1]


# Each leads to `.ssh/id` in the home, or to Pumice's own directories, by a way that is no plain path.
INDIRECT = [
    pytest.param("{relative}/.ssh", "must be an absolute path", id="a relative path"),
    pytest.param("/{home}/.ssh", "holds credentials, and needs your consent", id="two slashes"),
    pytest.param("{home}/./.ssh/.", "holds credentials, and needs your consent", id="dots"),
    pytest.param("/tmp/pumice-{uid}", "Pumice keeps its own files there", id="the directory of sockets and secrets"),
    pytest.param("{tickets}", "holds credentials, and needs your consent", id="a file that the environment names"),
]


@pytest.mark.parametrize(("path", "reason"), INDIRECT)
def test_no_spelling_of_a_path_needs_less_consent(
    path: str,
    reason: str,
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    home, tickets = workspace.directory.parent, workspace.directory.parents[1] / "data" / "tickets"
    tickets.write_text("canary\n")
    workspace.environ["KRB5CCNAME"] = f"FILE:{tickets}"
    # Another file in the place that a relative path seems to lead to.
    (workspace.directory / str(home)[1:] / ".ssh").mkdir(parents=True)
    names = {"home": home, "relative": str(home)[1:], "uid": os.getuid(), "tickets": tickets}
    directory = Path(f"/tmp/pumice-{os.getuid()}")
    made = not directory.exists()
    if made:
        directory.mkdir(mode=0o700)
    try:
        workspace.write(job(with_volume("cat /v/id /v", path.format(**names))))
        lines = refused(workspace, monkeypatch, capfd)
    finally:
        if made:
            directory.rmdir()
    assert reason in "\n".join(lines), lines


def test_a_link_that_an_init_container_makes_is_not_followed_by_any_spelling(workspace: Workspace) -> None:
    """Consent is for where a path led when the run started; `//` is no other path."""
    home, project = workspace.directory.parent, workspace.directory
    (project / "d").mkdir()
    swap = {
        "name": "swap",
        "image": "nowhere",
        "command": ["sh", "-c", f"cd {project} && mv d e && ln -s {home}/.ssh d"],
    }
    only = with_volume("cat /v/id", f"/{project}/d")
    only["template"]["spec"]["initContainers"] = [swap]
    result = workspace.run(job(only), flags=["--network=job", "--no-prefix"])
    assert "canary" not in result.out, result.out
    assert "symbolic link" in result.err


def test_a_task_without_pods_needs_the_same_consent(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It could be scaled later, without a further question."""
    later = with_volume("cat /v/id", workspace.directory.parent / ".ssh") | {"name": "later", "replicas": 0}
    workspace.write(job(task("only", "true"), later))
    assert "holds credentials, and needs your consent" in "\n".join(refused(workspace, monkeypatch, capfd))


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        pytest.param('[mounts]\n"/z" = "./.ssh"', "holds credentials, and needs your consent", id="mounts"),
        pytest.param('[mounts]\npaths = [".netrc:ro"]', "holds credentials, and needs your consent", id="read-only"),
        pytest.param('[files]\nnowhere = { "/z" = ".ssh/id" }', "holds credentials", id="files"),
        pytest.param('[mounts]\n"/z" = "./state/pumice"', "Pumice keeps its own files there", id="Pumice's own"),
    ],
)
def test_a_pumice_toml_in_a_home_needs_consent_for_what_is_hidden_there(
    table: str, reason: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A pod that runs in a home could plant such a file for the next run."""
    home = Workspace(workspace.directory.parent, workspace.environ)
    home.state.mkdir(parents=True)
    (home.directory / "pumice.toml").write_text(f"{table}\n")
    home.write(job(task("only", "true")))
    assert reason in "\n".join(refused(home, monkeypatch, capfd))

"""The flags of `pumice run`, on real jobs."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.local.running import Workspace, job, scripted, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE, RUN_TIMEOUT

# Listens on the ports that half of all jobs use, and leaves only when both jobs are there.
PORTS = """
import pathlib, socket, sys, time
listeners = [socket.create_server(("", port)) for port in (22, 23456)]
pathlib.Path(sys.argv[1]).touch()
while not all(pathlib.Path(name).exists() for name in sys.argv[1:]):
    time.sleep(0.05)
print("both", flush=True)
"""


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_two_jobs_at_once_with_the_same_ports(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    marks = [str(tmp_path / "shared" / name) for name in ("a", "b")]
    processes = []
    for number, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir()
        own = [*marks[number:], *marks[:number]]
        only = task("only", "", container=scripted("python3", "-c", PORTS, *own))
        workspace = Workspace(tmp_path / name, {"XDG_STATE_HOME": str(tmp_path / "state")})
        processes.append(workspace.start(job(only), flags=["--mount", str(tmp_path / "shared"), RUN_TIMEOUT]))
    for process in processes:
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert "both" in out


def test_env_is_for_all_containers_and_wins_over_the_job(workspace: Workspace) -> None:
    own = {"name": "OWN", "value": "own"}
    first = {"name": "first", "image": "nowhere", "command": ["sh", "-c", "echo first $WORD $PATH"]}
    only = task("only", "echo main $WORD $OWN $PATH", container={"env": [own]})
    only["template"]["spec"]["initContainers"] = [first]
    path = f"/opt/words:{os.environ['PATH']}"
    flags = ["--env", "WORD=a b", "--env", "OWN=other", "--env", f"PATH={path}", "--no-prefix"]
    result = workspace.run(job(only), flags=flags)
    assert result.code == 0, result.err
    assert result.out.splitlines() == [f"first a b {path}", f"main a b other {path}"]


def test_entrypoint_for_an_image_by_another_of_its_names(workspace: Workspace) -> None:
    only = task("only", "", container={"command": None, "args": ["c"]})
    result = workspace.run(job(only), flags=["--entrypoint", "docker.io/library/nowhere=echo 'a  b'"])
    assert result.code == 0, result.err
    assert result.out == "only-0  a  b c\n"


@pytest.mark.parametrize(
    ("available", "replicas", "flag"),
    [
        pytest.param(3, 3, "only=2", id="below minAvailable"),
        pytest.param(1, 1, "only=2", id="more than written"),
        pytest.param(0, 2, "only=2", id="as written"),
    ],
)
def test_scale(workspace: Workspace, available: int, replicas: int, flag: str) -> None:
    only = task("only", "echo pod", replicas, minAvailable=available or None)
    spec = {"minAvailable": available} if available else {}
    result = workspace.run(job(only, **spec), flags=["--scale", flag])
    assert result.code == 0, result.err
    assert result.out.splitlines() in (["only-0  pod", "only-1  pod"], ["only-1  pod", "only-0  pod"])


@pytest.mark.parametrize(
    ("mode", "answer"),
    [pytest.param("", "written", id="writable"), pytest.param(":ro", "refused", id="read-only")],
)
def test_mount(tmp_path: Path, mode: str, answer: str) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "there" / "word").write_text("seen\n")
    workspace = Workspace(tmp_path / "here")
    there = tmp_path / "there"
    script = f"cat {there}/word; (echo x > {there}/new) 2>/dev/null && echo written || echo refused"
    hidden = workspace.run(job(task("only", f"cat {there}/word || true")))
    assert "seen" not in hidden.out
    result = workspace.run(job(task("only", script)), flags=["--mount", f"../there{mode}", "--no-prefix"])
    assert result.out.splitlines() == ["seen", answer], result.err
    assert (there / "new").exists() is (answer == "written")


def test_keep_says_where_the_layers_are(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", "echo treasure > /opt/found", 2)), flags=["--keep"])
    assert result.code == 0, result.err
    kept = [Path(line.removeprefix("kept: ")) for line in result.err.splitlines() if line.startswith("kept: ")]
    assert len(kept) == 2
    assert all([path.read_text() for path in each.rglob("opt/found")] == ["treasure\n"] for each in kept)


def test_without_keep_nothing_of_the_layers_is_left(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", "echo treasure > /opt/found")))
    assert "kept" not in result.err
    assert not list(workspace.directory.rglob("found"))


def test_publish_leads_into_the_pod(workspace: Workspace) -> None:
    serve = (
        "import socket; s = socket.create_server(('', 80)); print('up', flush=True); s.accept()[0].sendall(b'hello')"
    )
    process = workspace.start(
        job(task("only", "", container=scripted("python3", "-c", serve))), flags=["--publish", "only-0:80"]
    )
    line = process.stderr.readline()
    while "is published on" not in line:
        line = process.stderr.readline()
        assert line
    host, _, port = line.rpartition(" ")[2].strip().rpartition(":")
    assert "up" in process.stdout.readline()
    deadline = time.monotonic() + PATIENCE
    data = b""
    while data != b"hello" and time.monotonic() < deadline:
        with socket.create_connection((host, int(port)), PATIENCE) as connection:
            data = connection.recv(5)
    assert data == b"hello"
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_the_limits_of_the_default_network_are_a_warning_once_per_machine(workspace: Workspace) -> None:
    workspace.configure("")
    runs = [workspace.run(job(task("only", "true"))) for _ in range(2)]
    assert [run.code for run in runs] == [0, 0]
    assert "warning" not in runs[1].err
    plain = [workspace.run(job(task("only", "true")), flags=["--isolation=process", "--network=job"]) for _ in range(2)]
    assert all("--network job has no effect" in run.err for run in plain)


def test_timeout_that_is_long_enough_changes_nothing(workspace: Workspace) -> None:
    assert workspace.run(job(task("only", "exit 3"), maxRetry=1), flags=["--timeout=1h"]).code == 3


def test_a_job_from_standard_input(workspace: Workspace) -> None:
    argv = workspace.argv(job(task("only", "echo hello")))
    text = (workspace.directory / "job.yaml").read_text()
    (workspace.directory / "job.yaml").unlink()
    argv[-1] = "-"
    done = subprocess.run(
        argv,
        cwd=workspace.directory,
        env=workspace.env,
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "only-0  hello\n"


def test_directories_in_files_variables_passed_on_and_what_the_header_says(workspace: Workspace) -> None:
    workspace.environ["TOKEN"] = "from the shell"
    (workspace.directory / "src" / "lib").mkdir(parents=True)
    (workspace.directory / "src" / "lib" / "part.txt").write_text("a part\n")
    (workspace.directory / "pumice.toml").write_text('[files]\nnowhere = { "/workspace" = "./src" }\n')
    script = "cat lib/part.txt; echo $TOKEN $EPOCHS; echo x > /cache/x; ls /cache"
    container = {
        "workingDir": "/workspace",
        "env": [{"name": "EPOCHS", "value": "90"}],
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
    }
    only = task("only", script, container=container, pod={"volumes": [{"name": "cache", "emptyDir": {}}]})
    result = workspace.run(job(only), flags=["--no-prefix", "--env", "TOKEN", "--env", "EPOCHS=1"])
    assert (result.code, result.out) == (0, "a part\nfrom the shell 1\nx\n"), result.err
    header = result.err.partition("Pending")[0]
    assert "  --env EPOCHS overrides the job's EPOCHS=90\n" in header
    # What the job does not set is nothing to warn about, and its value may be a secret.
    assert "TOKEN" not in header
    assert "from the shell" not in header
    assert re.search(
        rf"  volume cache: {re.escape(str(workspace.state))}\S+/cache \(removed with its pod\), at /cache\n", header
    )


def test_a_variable_that_is_not_set_here_is_not_passed_on(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", "true")), flags=["--env", "NOT_SET_ANYWHERE"])
    assert (result.code, result.err.splitlines()[0]) == (2, "--env: NOT_SET_ANYWHERE: is not set here")

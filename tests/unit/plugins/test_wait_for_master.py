"""The script is run for real, in every shell that an image may have, with no other programs than that image's.

Only the loopback device is used. Upper bounds are generous: they tell a probe that hangs from one that does not.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pumice.admission.podtemplate import check_pod_spec
from pumice.model.findings import ROOT
from pumice.plugins.wait_for_master import NAME, waiting_container

HOST = "127.0.0.1"
# What an image brings along: the name in its PATH, and the program behind it.
SMALL = {"sh": "busybox", "nc": "busybox", "sleep": "busybox", "date": "busybox", "true": "busybox"}
DEBIAN = {"sh": "dash", "bash": "bash", "timeout": "timeout", "sleep": "sleep"}
IMAGES = {
    "busybox with nc": SMALL,
    "dash, bash and timeout": DEBIAN,
    "dash, bash and the timeout of busybox": {**DEBIAN, "timeout": "busybox"},
    "dash and bash": {"sh": "dash", "bash": "bash", "sleep": "sleep"},
    "bash under the name sh": {"sh": "bash", "sleep": "sleep"},
    "an nc that has no -z, and bash": {**DEBIAN, "nc": "false"},
}
ENOUGH = 100.0  # seconds; a probe or connection that hangs takes longer: the kernel tries to connect for 127
LIMIT = 90  # seconds that a master may take which answers as soon as it is asked

pytestmark = pytest.mark.needs("busybox", "bash", "dash")
every_image = pytest.mark.parametrize("programs", IMAGES.values(), ids=IMAGES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def fill(path: Path, programs: dict[str, str]) -> None:
    for name, program in programs.items():
        found = shutil.which(program)
        assert found is not None, program
        (path / name).symlink_to(found)


def started(path: Path, port: int, limit: int) -> subprocess.Popen[str]:
    command = waiting_container(HOST, port, limit, "any", None)["command"]
    return subprocess.Popen(
        command,
        executable=path / "sh",
        env={"PATH": str(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process: subprocess.Popen[str]) -> tuple[int, list[str], list[str]]:
    try:
        out, err = process.communicate(timeout=ENOUGH)
    finally:
        process.kill()
    return process.returncode, out.splitlines(), err.splitlines()


@contextmanager
def reserved_port() -> Iterator[tuple[socket.socket, int]]:
    """A port that no other process gets, and on which none listens yet."""
    with closing(socket.socket()) as server:
        server.bind((HOST, 0))
        yield server, server.getsockname()[1]


def gave_up(port: int, limit: int, out: list[str], err: list[str]) -> int:
    """Assert the words of a time-out; the seconds that it claims to have waited."""
    assert out == [f"waiting for {HOST}:{port} (up to {limit}s)"]
    assert len(err) == 2
    found = re.fullmatch(rf"gave up on {HOST}:{port}: no answer in (\d+)s", err[0])
    assert found is not None
    assert err[1] == (
        f"check that the master runs and listens on port {port}, or raise --wait-master-timeout (now {limit})"
    )
    return int(found[1])


@every_image
def test_it_passes_when_the_master_answers(path: Path, programs: dict[str, str]) -> None:
    fill(path, programs)
    with reserved_port() as (server, port):
        server.listen()
        code, out, err = result(started(path, port, LIMIT))
    assert (code, err, out[0]) == (0, [], f"waiting for {HOST}:{port} (up to {LIMIT}s)")
    assert re.fullmatch(r"master answered after \d+s", out[1])
    assert len(out) == 2


@every_image
def test_it_waits_until_a_late_master_answers(path: Path, programs: dict[str, str]) -> None:
    fill(path, programs)
    with reserved_port() as (server, port):
        process = started(path, port, LIMIT)
        assert process.stdout is not None
        assert process.stdout.readline() == f"waiting for {HOST}:{port} (up to {LIMIT}s)\n"
        time.sleep(0.3)
        assert process.poll() is None
        server.listen()
        code, out, err = result(process)
    assert (code, err, len(out)) == (0, [], 1)
    assert re.fullmatch(r"master answered after \d+s", out[0])


@every_image
def test_it_gives_up_in_time(path: Path, programs: dict[str, str]) -> None:
    fill(path, programs)
    with reserved_port() as (_, port):
        code, out, err = result(started(path, port, 1))
    assert code == 1
    assert gave_up(port, 1, out, err) < ENOUGH


SLEEPS = "exec sleep 1000"


@pytest.mark.parametrize(
    ("shell", "sleeper"),
    [
        pytest.param("busybox", SLEEPS, id="busybox"),
        pytest.param("dash", SLEEPS, id="dash"),
        pytest.param("bash", SLEEPS, id="bash"),
        pytest.param("dash", f"trap '' TERM\n{SLEEPS}", id="a stubborn probe"),
    ],
)
def test_a_probe_that_hangs_does_not_stretch_the_time(path: Path, shell: str, sleeper: str) -> None:
    fill(path, {**DEBIAN, "sh": shell})
    nc = path / "nc"
    nc.write_text(f"#!{path}/sh\n{sleeper}\n")
    nc.chmod(0o755)
    with reserved_port() as (_, port):
        begun = time.monotonic()
        code, out, err = result(started(path, port, 1))
    assert code == 1
    assert gave_up(port, 1, out, err) < ENOUGH
    assert time.monotonic() - begun < ENOUGH


@contextmanager
def full_port() -> Iterator[int]:
    """A port whose listener accepts no connection: a connection to it is neither made nor refused."""
    with reserved_port() as (server, port):
        server.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        try:
            for client in waiting:
                client.setblocking(False)
                client.connect_ex((HOST, port))
            with closing(socket.socket()) as probe:
                probe.settimeout(0.5)
                if probe.connect_ex((HOST, port)) == 0:
                    pytest.skip("this kernel connects beyond a listener's backlog")
            yield port
        finally:
            for client in waiting:
                client.close()


@pytest.mark.parametrize(
    "programs", [IMAGES[name] for name in ("busybox with nc", "dash, bash and timeout", "bash under the name sh")]
)
def test_a_connection_that_hangs_does_not_stretch_the_time(path: Path, programs: dict[str, str]) -> None:
    fill(path, programs)
    with full_port() as port:
        begun = time.monotonic()
        code, out, err = result(started(path, port, 1))
    assert code == 1
    assert gave_up(port, 1, out, err) < ENOUGH
    assert time.monotonic() - begun < ENOUGH


def test_an_image_without_means_fails_at_once(path: Path) -> None:
    fill(path, {"sh": "dash", "sleep": "sleep", "timeout": "timeout"})
    begun = time.monotonic()
    code, out, err = result(started(path, 1, 600))
    assert (code, out) == (1, [])
    assert err == [
        f"cannot wait for {HOST}:1: this image has neither nc nor bash",
        "choose another image, such as --wait-master-image=busybox:1.36.1",
    ]
    assert time.monotonic() - begun < ENOUGH


def test_without_a_kernel_s_uptime_the_date_serves(path: Path) -> None:
    fill(path, SMALL)
    with reserved_port() as (_, port):
        command = waiting_container(HOST, port, 1, "any", None)["command"]
        command[2] = command[2].replace("/proc/uptime", "/no/such/file")
        process = subprocess.run(
            command,
            executable=path / "sh",
            env={"PATH": str(path)},
            capture_output=True,
            text=True,
            timeout=ENOUGH,
            check=False,
        )
    assert process.returncode == 1
    gave_up(port, 1, process.stdout.splitlines(), process.stderr.splitlines())


@pytest.mark.parametrize(
    ("pull_policy", "field"),
    [
        pytest.param("Never", {"imagePullPolicy": "Never"}, id="the pod's pull policy"),
        pytest.param(None, {}, id="none"),
        pytest.param("", {}, id="empty"),
    ],
)
def test_defect_22_the_container_keeps_to_quotas_and_the_restricted_level(
    pull_policy: str | None, field: dict[str, str]
) -> None:
    """Volcano's has neither resources nor a security context: refused for ever where either is asked for."""
    container = waiting_container("a.b", 1, 2, "example.com/box:1", pull_policy)
    script = container["command"][2]
    assert container == {
        "name": NAME,
        "image": "example.com/box:1",
        "command": ["sh", "-c", script],
        **field,
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
        "securityContext": {
            "runAsUser": 65534,
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    assert script.startswith("host=a.b\nport=1\nlimit=2\n")
    spec = {"containers": [{"name": "main", "image": "x"}], "initContainers": [container], "restartPolicy": "Never"}
    assert [finding for finding in check_pod_spec(spec, ROOT) if finding.is_error] == []


def test_nothing_in_the_script_is_a_variable_of_kubernetes() -> None:
    """Kubernetes replaces `$(NAME)` in a command by the value of a variable of the container."""
    script = waiting_container("a.b", 1, 2, "x", None)["command"][2]
    assert re.findall(r"\$\([A-Za-z_]", script) == []


def test_a_host_that_is_no_host_is_not_run(path: Path, tmp_path: Path) -> None:
    fill(path, DEBIAN)
    command = waiting_container("x; touch y", 1, 1, "any", None)["command"]
    subprocess.run(
        command,
        executable=path / "sh",
        env={"PATH": str(path)},
        cwd=tmp_path,
        capture_output=True,
        timeout=ENOUGH,
        check=False,
    )
    assert not (tmp_path / "y").exists()

"""`exec`, `cp` and `forward` on a cluster: through the API server to a kubelet that runs processes of this machine."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import socket
import socketserver
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import pumice as api_of_pumice
from pumice import AsyncClient
from pumice.client.backends import open_backend
from tests.cluster.api import eventually
from tests.cluster.cluster import Cluster
from tests.cluster.pod_server import V4, PodServer
from tests.cluster.pod_shell import Shell
from tests.cluster.staged_jobs import StagedJob
from tests.meta.tree import ROOT
from tests.patience import PATIENCE

TERMINAL = 'until [ "$(stty size)" = "30 90" ]; do sleep 0.1; done; echo sized; read word; echo [$word]; exit 5'
ROLES = ROOT / "examples" / "roles" / "cluster-user.yaml"


@pytest.fixture
def job(job_with_pods: StagedJob) -> StagedJob:
    return job_with_pods


def _folder(pods: PodServer, index: int = 0) -> Path:
    return pods.pod_folder(f"train-worker-{index}")


def test_a_command_has_input_output_errors_and_code(shell: Shell) -> None:
    done = shell("exec", "train/worker-0", "--", "sh", "-c", "cat; echo wrong >&2; exit 7", stdin=b"in" * 100_000)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"in" * 100_000, b"wrong\n")


def test_much_output_arrives_whole(shell: Shell) -> None:
    done = shell("exec", "train/worker-0", "--", "python3", "-c", "import sys; sys.stdout.write('x' * 5_000_000)")
    assert (done.returncode, len(done.stdout), done.stderr) == (0, 5_000_000, b"")


def test_a_command_that_is_missing(shell: Shell) -> None:
    done = shell("exec", "train/worker-0", "--", "nvidia-smi")
    assert (done.returncode, done.stdout) == (127, b"")
    assert done.stderr == b"train/worker-0: nvidia-smi: not found in the container\n"


def test_an_old_api_server_says_no_end_of_the_input(shell: Shell, pods: PodServer) -> None:
    pods.protocols = (V4,)
    done = shell("exec", "train/worker-0", "--", "sh", "-c", "read line; echo got $line", stdin=b"one\n")
    assert (done.returncode, done.stdout) == (0, b"got one\n")
    assert pods.started[0][0] == V4


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(("train/worker-9",), 2, "train/worker-9: no such pod\n  hint: it has worker-0, worker-1\n"),
        pytest.param(
            ("train/worker-0", "-c", "side"), 2, "train/worker-0 has no container side\n  hint: it has main\n"
        ),
        pytest.param(("other/worker-0",), 2, "other: no such Job in admin/"),
    ],
)
def test_what_does_not_exist(shell: Shell, words: tuple[str, ...], code: int, said: str) -> None:
    done = shell("exec", *words, "--", "true")
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.decode().startswith(said)


def test_a_pod_that_does_not_run(shell: Shell, job: StagedJob) -> None:
    from tests.cluster.staged_jobs import terminated

    job.pod(1, "Failed", terminated(3))
    done = shell("exec", "train/worker-1", "--", "true")
    assert done.returncode == 1
    assert done.stderr.decode().startswith("train/worker-1: container main does not run: the pod is Failed\n  hint: ")


def test_no_right(pumice_cluster: Cluster, namespace: str, home: Path, job: StagedJob) -> None:
    del job
    resources = "--resource=jobs.batch.volcano.sh,pods,events"
    pumice_cluster.kubectl("-n", namespace, "create", "role", "reader", "--verb=get,list,watch", resources)
    pumice_cluster.kubectl("-n", namespace, "create", "rolebinding", "reader", "--role=reader", "--user=plain")
    shell = Shell(pumice_cluster, namespace, home, "plain")
    done = shell("exec", "train/worker-0", "--", "true")
    assert done.returncode == 1
    first, hint = done.stderr.decode().splitlines()
    assert first.startswith('plain: pods "train-worker-0" is forbidden: User "plain" cannot ')
    assert hint == "  hint: ask an administrator for a Role with get and create of pods/exec"
    done = shell("forward", "train/worker-0", "80")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines()[1].endswith("get and create of pods/portforward")


def test_the_roles_of_the_examples_suffice(pumice_cluster: Cluster, namespace: str, home: Path, job: StagedJob) -> None:
    del job
    pumice_cluster.kubectl("apply", "-f", str(ROLES))
    for role in ("pumice-viewer", "pumice-runner"):
        pumice_cluster.kubectl("-n", namespace, "create", "rolebinding", role, f"--clusterrole={role}", "--user=plain")
    plain, path = pumice_cluster.api("plain-token"), f"/api/v1/namespaces/{namespace}/secrets"
    # The authorizer learns of a right from a watch.
    eventually("the rights are in force", lambda: plain.ask("GET", path).status == 200)
    shell = Shell(pumice_cluster, namespace, home, "plain")
    (home / "notes").write_text("one\n")
    try:
        assert shell("exec", "train/worker-0", "--", "echo", "hello").stdout == b"hello\n"
        assert shell("cp", "notes", "train/worker-0:notes").returncode == 0
        assert shell("exec", "train/worker-0", "--", "cat", "notes").stdout == b"one\n"
        argv = shell.argv("forward", "train/worker-0", "80")
        with subprocess.Popen(argv, env=shell.env, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"127.0.0.1:")
            process.terminate()
    finally:
        pumice_cluster.kubectl("delete", "-f", str(ROLES))


def test_a_terminal(shell: Shell, pods: PodServer) -> None:
    """It has the size of this one, follows it, and its keys go to the command."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    import fcntl
    import struct
    import termios

    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    argv = shell.argv("exec", "train/worker-0", "--", "sh", "-c", TERMINAL)
    process = subprocess.Popen(argv, env=shell.env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = bytearray()

    def has(text: bytes) -> Callable[[], bool]:
        def ask() -> bool:
            with suppress(OSError):
                shown.extend(os.read(ours, 1 << 16))
            return text in shown

        return ask

    eventually("it has its size", has(b"sized\r\n"))
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
    os.kill(process.pid, __import__("signal").SIGWINCH)
    eventually("the size follows", lambda: "20x60" in pods.signals)
    os.write(ours, b"hello\r")
    eventually("it prints", has(b"[hello]\r\n"))
    assert process.wait(PATIENCE) == 5
    os.close(ours)


def test_the_command_ends_with_its_client(shell: Shell, pods: PodServer) -> None:
    argv = shell.argv("exec", "train/worker-0", "--", "sh", "-c", "echo up; sleep 600")
    process = subprocess.Popen(argv, env=shell.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.terminate()
    assert process.wait(PATIENCE) == 143
    eventually("the kubelet sees it", lambda: "left" in pods.signals)
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()


# --- cp ---------------------------------------------------------------------------------------------------------------


def _make_tree(folder: Path) -> None:
    (folder / "data" / "sub").mkdir(parents=True)
    (folder / "data" / "one.txt").write_text("1")
    (folder / "data" / "sub" / "big").write_bytes(os.urandom(700_001))
    (folder / "data" / ("long" * 40)).write_text("a long name")
    (folder / "data" / "link").symlink_to("one.txt")
    os.link(folder / "data" / "one.txt", folder / "data" / "zhard")


def _tree(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else "directory"
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("without", ["", "tar"])
@pytest.mark.parametrize("protocols", [("v5.channel.k8s.io", V4), (V4,)])
def test_trees_there_and_back(
    shell: Shell, pods: PodServer, home: Path, without: str, protocols: tuple[str, ...]
) -> None:
    pods.protocols = protocols
    if without:
        (_folder(pods) / "bin" / without).unlink()
    _make_tree(home)
    done = shell("cp", "data", "train/worker-0:.")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert _tree(_folder(pods) / "data") == _tree(home / "data")
    done = shell("cp", "train/worker-0:data", "back")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert _tree(home / "back") == _tree(home / "data")
    done = shell("cp", f"train/worker-0:{_folder(pods)}/data/sub/big", ".")
    assert (done.returncode, done.stderr) == (0, b"")
    assert (home / "big").read_bytes() == (home / "data" / "sub" / "big").read_bytes()
    done = shell("cp", "data/one.txt", "train/worker-0:other.txt")
    assert (done.returncode, done.stderr) == (0, b"")
    assert (_folder(pods) / "other.txt").read_text() == "1"


def test_a_path_that_is_a_link(shell: Shell, pods: PodServer, home: Path) -> None:
    _make_tree(_folder(pods))
    (_folder(pods) / "current").symlink_to("data")
    (_folder(pods) / "latest").symlink_to("data/sub/big")
    assert shell("cp", "train/worker-0:current", ".").returncode == 0
    assert _tree(home / "current") == _tree(_folder(pods) / "data")
    assert shell("cp", "train/worker-0:latest", "model").returncode == 0
    assert (home / "model").read_bytes() == (_folder(pods) / "data" / "sub" / "big").read_bytes()


def test_what_cannot_be_copied(shell: Shell, pods: PodServer, home: Path) -> None:
    done = shell("cp", "train/worker-0:nothing", ".")
    assert done.returncode == 2
    assert b"train/worker-0:nothing: " in done.stderr
    assert b"no such file or directory" in done.stderr
    done = shell("cp", "nothing", "train/worker-0:.")
    assert (done.returncode, done.stderr) == (2, b"nothing: no such file or directory\n")
    (home / "file").write_text("")
    done = shell("cp", "file", "train/worker-0:no/such/")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, b"train/worker-0:no/such/: no such directory")
    for name in ("tar", "python3"):
        (_folder(pods) / "bin" / name).unlink()
    for words in (("train/worker-0:nothing", "."), ("file", "train/worker-0:.")):
        done = shell("cp", *words)
        assert done.returncode == 1
        assert b"train/worker-0: container main has neither tar nor python3" in done.stderr
    assert sorted(each.name for each in home.iterdir()) == ["file"]


def _hostile(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    return found


@pytest.mark.parametrize(
    "names",
    [["../outside"], ["/outside"], ["./data/../../outside"], ["./other"], ["./data", "./data/a/../../../outside"]],
)
def test_a_hostile_container_writes_nowhere_else(
    shell: Shell, pods: PodServer, home: Path, tmp_path: Path, names: list[str]
) -> None:
    members = [(_member(each, tarfile.DIRTYPE if each == "./data" else tarfile.REGTYPE), b"") for each in names]
    pods.answers["tar"] = _hostile(*members)
    done = shell("cp", "train/worker-0:data", "target")
    assert done.returncode == 1
    assert done.stderr.startswith(b"train/worker-0:data: the copy ended too early: ")
    assert not list(tmp_path.rglob("outside"))
    assert not (home / "other").exists()


def test_links_of_a_hostile_container_lead_nowhere(shell: Shell, pods: PodServer, home: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    pods.answers["tar"] = _hostile(
        (_member("./data", tarfile.DIRTYPE), b""),
        (_member("./data/out", tarfile.SYMTYPE, str(tmp_path)), b""),
        (_member("./data/out/secret"), b"overwritten"),
        (_member("./data/hard", tarfile.LNKTYPE, "./data/out/secret"), b""),
        (_member("./data/device", tarfile.CHRTYPE), b""),
        (_member("./data/good"), b"good"),
    )
    done = shell("cp", "train/worker-0:data", "target")
    assert done.returncode == 1
    assert secret.read_text() == "secret"
    assert (home / "target" / "good").read_text() == "good"
    assert not (home / "target" / "hard").exists() or (home / "target" / "hard").read_text() != "secret"
    assert b"not copied: device" in done.stderr


# --- forward ----------------------------------------------------------------------------------------------------------


class _Upper(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data.upper())


@pytest.fixture
def service(pods: PodServer) -> Iterator[socketserver.ThreadingTCPServer]:
    """A program in the pods that listens on port 6006."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Upper)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pods.ports[6006] = server.server_address[1]
    yield server
    server.shutdown()
    server.server_close()


def _ask(port: int, text: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(text)
        found = b""
        while len(found) < len(text):
            found += connection.recv(1 << 16)
    return found


@pytest.mark.usefixtures("service")
def test_a_port(shell: Shell, pods: PodServer) -> None:
    process = subprocess.Popen(
        shell.argv("forward", "train/worker-0", "6006"), env=shell.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline().decode()
    assert line.startswith("127.0.0.1:")
    port = int(line.rpartition(":")[2])
    assert pods.started == []  # the program there sees only connections of users
    with socket.create_connection(("127.0.0.1", port)) as first:
        assert _ask(port, b"second" * 50_000) == b"SECOND" * 50_000
        first.sendall(b"first")
        assert first.recv(100) == b"FIRST"
    del pods.ports[6006]
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as refused:
        assert refused.recv(100) == b""
    process.terminate()
    process.wait(PATIENCE)
    said = process.stderr.read()
    assert b"it leads to port 6006 of train/worker-0; Ctrl-C ends it\n" in said
    assert b"train/worker-0: a connection ended: dial tcp4 127.0.0.1:6006: connect: connection refused" in said
    process.stdout.close()
    process.stderr.close()


def test_a_local_port_that_is_taken(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        done = shell("forward", "train/worker-0", f"6006:{number}")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(f"port {number} of 127.0.0.1 is taken\n")


# --- Python -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("service", "job")
def test_python(
    pumice_cluster: Cluster, namespace: str, pods: PodServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(pumice_cluster.kubeconfig(namespace=namespace)))
    with api_of_pumice.connect("admin") as client:
        run = client.get("train")
        done = run.exec("worker-0", ["sh", "-c", "echo out; echo err >&2; exit 3"])
        assert (done.returncode, sorted(done.stdout.split())) == (3, [b"err", b"out"])
        with pytest.raises(api_of_pumice.WrongState, match=r"has not ended within 0\.5 s"):
            run.exec("worker-0", ["sleep", "600"], timeout=0.5)
        (home / "config").write_text("x")
        assert run.copy_to(home / "config", "worker-0", ".") == []
        assert (_folder(pods) / "config").read_text() == "x"
        assert run.copy_from("worker-0", "config", home / "back") == []
        assert (home / "back").read_text() == "x"
        with run.forward("worker-1", 6006) as port:
            assert _ask(port.port, b"hello") == b"HELLO"

    async def asynchronous() -> None:
        async with AsyncClient(backend=open_backend("admin")) as client:
            run = await client.get("train")
            assert (await run.exec("worker-0", ["echo", "a"])).stdout == b"a\n"
            assert await run.copy_from("worker-0", "config", home / "async") == []
            async with await run.forward("worker-1", 6006) as port:
                assert await asyncio.to_thread(_ask, port.port, b"hello") == b"HELLO"

    asyncio.run(asynchronous())
    assert (home / "async").read_text() == "x"

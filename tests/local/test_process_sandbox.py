"""Containers as plain processes: the same calls as the sandbox with namespaces, over loopback."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.network.addresses import loopback_interface
from pumice.engines.local.plain_processes.process_sandbox import ProcessSandbox
from pumice.engines.local.sandbox.client import Ended
from pumice.engines.local.sandbox.entered import Program
from pumice.engines.local.sandbox.sandbox_errors import StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, RootFs
from tests.local.running import Workspace, job, processes, scripted, task
from tests.local.sandbox.boxes import PATH, as_test, run
from tests.patience import PATIENCE, RUN_TIMEOUT

HOSTS = File("/etc/hosts", b"127.0.0.1 localhost\n10.77.0.10 job-a-0.job job-a-0\n10.77.0.11 job-b-0.job job-b-0\n")
LISTEN = """
import os, socket
listener = socket.create_server(("0.0.0.0", int(os.environ["MASTER_PORT"])))
print("up", flush=True)
listener.accept()[0].sendall(b"hello")
"""
ASK = """
import os, socket
with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), timeout=100) as connection:
    print(connection.makefile().read())
"""
MASTER = {"MASTER_ADDR": "job-a-0.job", "MASTER_PORT": "23456"}


def in_sandbox(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine whose first parameter is a sandbox with two pods; the others are fixtures."""

    def run_with(test: Callable[[ProcessSandbox], Awaitable[None]]) -> None:
        with tempfile.TemporaryDirectory() as directory:

            async def story() -> None:
                sandbox = await ProcessSandbox.start("job", Path(directory), warn=lambda _: None)
                try:
                    await sandbox.create_pod("job-a-0", "10.77.0.10", "job-a-0")
                    await sandbox.create_pod("job-b-0", "10.77.0.11", "job-b-0")
                    await test(sandbox)
                finally:
                    await sandbox.close()

            run(story())
            assert [path.name for path in Path(directory).iterdir()] == ["lock"]

    return as_test(test, run_with)


def _spec(pod: str, *argv: str, env: dict[str, str] | None = None, **more: Any) -> ContainerSpec:
    variables = {"PATH": PATH, **(env or {})}
    return ContainerSpec(id=f"{pod}/main", pod=pod, argv=argv, env=variables, cwd="/", root=RootFs(), **more)


async def _start(sandbox: ProcessSandbox, spec: ContainerSpec) -> asyncio.StreamReader:
    reader, writer = os.pipe()
    try:
        await sandbox.start_container(spec, writer, writer)
    finally:
        os.close(writer)
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reader, "rb"))
    return stream


@in_sandbox
async def test_pods_find_each_other_by_the_master_variables(sandbox: ProcessSandbox) -> None:
    python = (sys.executable, "-I", "-c")
    master = await _start(sandbox, _spec("job-a-0", *python, LISTEN, env=MASTER, files=(HOSTS,)))
    assert await master.readline() == b"up\n"
    worker = await _start(sandbox, _spec("job-b-0", *python, ASK, env=MASTER, files=(HOSTS,)))
    assert await worker.read() == b"hello\n"
    assert [await sandbox.ended(f"job-{pod}-0/main") for pod in "ab"] == [Ended(0, 0, oom=False)] * 2


@in_sandbox
async def test_the_engine_connects_where_the_pod_listens(sandbox: ProcessSandbox) -> None:
    spec = _spec("job-a-0", sys.executable, "-I", "-c", LISTEN, env=MASTER, files=(HOSTS,))
    assert await (await _start(sandbox, spec)).readline() == b"up\n"
    with await sandbox.connect("job-a-0", 23456) as connection:
        assert await asyncio.get_running_loop().sock_recv(connection, 100) == b"hello"


@in_sandbox
async def test_paths_are_rewritten_with_warnings(sandbox: ProcessSandbox, tmp_path: Path) -> None:
    config = tmp_path / "config"
    (config / "..data").mkdir(parents=True)
    (config / "..data" / "b.host").write_text("job-b-0.job\n")
    (config / "b.host").symlink_to("..data/b.host")
    warnings: list[str] = []
    sandbox._warn = warnings.append
    mounts = (Mount(str(config), "/etc/volcano", read_only=True), Mount(str(tmp_path), str(tmp_path)))
    script = "cat /etc/volcano/b.host $PUMICE_ROOT/etc/volcano/b.host; echo $GLOO_SOCKET_IFNAME"
    spec = _spec("job-a-0", "sh", "-c", script, files=(HOSTS,), mounts=mounts, memory=1 << 30)
    found = await (await _start(sandbox, spec._replace(root=RootFs(read_only=True)))).read()
    address = sandbox._translation.loopback("10.77.0.11")
    assert found.decode().split() == [address, address, loopback_interface()]
    assert [warning.partition(" ")[0] for warning in warnings] == [
        "/etc/volcano",
        "limits.memory",
        "readOnlyRootFilesystem",
    ]


@in_sandbox
async def test_a_pod_knows_its_own_name(sandbox: ProcessSandbox, tmp_path: Path) -> None:
    """Jobs take their index from its end."""
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod" / "name").write_text("job-a-0\n")
    mounts = (Mount(str(tmp_path / "pod"), "/etc/pod", read_only=True),)
    script = "cat /etc/pod/name; echo ${POD##*-}"
    spec = _spec("job-a-0", "sh", "-c", script, env={"POD": "job-a-0"}, files=(HOSTS,), mounts=mounts)
    assert await (await _start(sandbox, spec)).read() == b"job-a-0\n0\n"
    await sandbox.ended(spec.id)


@in_sandbox
async def test_background_processes_end_with_the_container(sandbox: ProcessSandbox) -> None:
    spec = _spec("job-a-0", "sh", "-c", "sleep 1000 & setsid sleep 1000 & echo $!; wait")
    output = await _start(sandbox, spec)
    await output.readline()
    await sandbox.signal(spec.id, signal.SIGTERM)
    assert await sandbox.ended(spec.id) == Ended(143, 15, oom=False)
    # The pipe is at its end when no process holds it.
    assert await output.read() == b""
    await sandbox.signal(spec.id, signal.SIGKILL)


@in_sandbox
async def test_private_directories_are_kept_where_asked(sandbox: ProcessSandbox, tmp_path: Path) -> None:
    """/home, with the working directory in it, belongs to the container."""
    own = tmp_path / "own"
    own.mkdir()
    script = f"pwd; echo result > /home/re; echo mine > {own}/file; echo $HOME; echo $GLOO_SOCKET_IFNAME"
    spec = _spec(
        "job-a-0",
        *("sh", "-c", script),
        env={"HOME": "/root", "GLOO_SOCKET_IFNAME": "wlan0"},
        hidden=("/home", "/root", str(tmp_path)),
        mounts=(Mount(str(own), str(own)),),
    )
    spec = spec._replace(cwd="/home/new", root=RootFs(upper=str(tmp_path / "kept")))
    output = (await (await _start(sandbox, spec)).read()).decode().split()
    kept = tmp_path / "kept"
    assert output == [str(kept / "home/new"), str(kept / "root"), "wlan0"]
    assert (await sandbox.ended(spec.id)).code == 0
    assert (tmp_path / "kept/home/re").read_text() == "result\n"
    assert (own / "file").read_text() == "mine\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds processes to CPUs")
@in_sandbox
async def test_cpu_affinity(sandbox: ProcessSandbox) -> None:
    own = min(os.sched_getaffinity(0))
    spec = _spec("job-a-0", "sleep", "1000", cpus=(own,))
    await _start(sandbox, spec)
    pid = sandbox._containers[spec.id].process.pid
    assert os.sched_getaffinity(pid) == {own}


@in_sandbox
async def test_exec(sandbox: ProcessSandbox) -> None:
    spec = _spec("job-a-0", "sleep", "1000", env={"A": "1"})
    await _start(sandbox, spec)
    assert await sandbox.exec(spec.id, ["sh", "-c", "echo $A; exit 3"], {}, PATIENCE) == (3, b"1\n")
    with pytest.raises(TimeoutError):
        await sandbox.exec(spec.id, ["sleep", "1000"], {}, 0.1)
    await sandbox.remove_pod("job-a-0")
    assert (await sandbox.ended(spec.id)).signal == signal.SIGKILL
    with pytest.raises(StartError):
        await sandbox.exec(spec.id, ["true"], {}, 1)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        pytest.param({"argv": ("no-such-command",)}, "command-not-found", id="no command"),
        pytest.param({"argv": ("/etc/passwd",)}, "not-executable", id="not executable"),
        pytest.param({"argv": ("./etc/passwd",)}, "not-executable", id="relative to the working directory"),
        pytest.param({"argv": ("./no-such-command",)}, "command-not-found", id="no file"),
        pytest.param({"root": RootFs("/somewhere")}, "image", id="image"),
        pytest.param({"pod": "job-c-0"}, "gone", id="no pod"),
    ],
)
@in_sandbox
async def test_a_container_that_cannot_start(sandbox: ProcessSandbox, changes: dict[str, Any], kind: str) -> None:
    values = {"id": "x/main", "pod": "job-a-0", "argv": ("true",), "env": {"PATH": PATH}, "cwd": "/"}
    with pytest.raises(StartError) as caught:
        await _start(sandbox, ContainerSpec(**{**values, "root": RootFs(), **changes}))
    assert caught.value.kind == kind


@in_sandbox
async def test_commands_in_a_container_end_with_it(sandbox: ProcessSandbox) -> None:
    spec = _spec("job-a-0", "sh", "-c", "echo up; exec sleep 1000")
    output = await _start(sandbox, spec)
    assert await output.readline() == b"up\n"
    entered = await sandbox.enter(spec.id, Program(("sleep", "1000"), {}))
    entered.close()
    probe = asyncio.create_task(sandbox.exec(spec.id, ("sh", "-c", "sleep 1000 & sleep 1000"), {}, 0.1))
    with pytest.raises(TimeoutError):
        await probe
    await sandbox.remove_pod("job-a-0")
    assert await entered.code == 128 + signal.SIGKILL


ENGINE = """
import asyncio, os, pathlib, sys
from pumice.engines.local.plain_processes.process_sandbox import ProcessSandbox
from pumice.engines.local.sandbox.specs import ContainerSpec, RootFs
async def story():
    sandbox = await ProcessSandbox.start("job", pathlib.Path(sys.argv[1]), warn=print)
    await sandbox.create_pod("a", "10.77.0.10", "a")
    argv = ("sh", "-c", "sleep 1000 & setsid sleep 1000 & echo up; wait")
    spec = ContainerSpec(id="a/a", pod="a", argv=argv, env={"PATH": os.defpath}, cwd="/", root=RootFs())
    await sandbox.start_container(spec, 1, 1)
    await sandbox.ended("a/a")
asyncio.run(story())
"""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("scratch", id="usual"),
        pytest.param("line\nbreak", id="line break"),
        pytest.param(os.fsdecode(b"caf\xe9"), id="not UTF-8"),
    ],
)
def test_every_process_ends_with_the_engine(tmp_path: Path, name: str) -> None:
    engine = subprocess.Popen([sys.executable, "-c", ENGINE, str(tmp_path / name)], stdout=subprocess.PIPE)
    assert engine.stdout is not None
    assert engine.stdout.readline() == b"up\n"
    engine.kill()
    # The container and its children hold the pipe, also the one that left the process group.
    assert engine.communicate(timeout=PATIENCE)[0] == b""


@in_sandbox
async def test_the_job_goes_on_without_the_reaper(sandbox: ProcessSandbox) -> None:
    os.kill(sandbox.pid, signal.SIGKILL)
    spec = _spec("job-a-0", "sh", "-c", "echo up; exit 3")
    output = await _start(sandbox, spec)
    assert await output.read() == b"up\n"
    assert (await sandbox.ended(spec.id)).code == 3


@in_sandbox
async def test_an_exhausted_process_limit_is_named(sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    with pytest.raises(StartError, match="see ulimit -u"):
        await _start(sandbox, _spec("job-a-0", "true"))


LEAVES = """
import os, sys, time
# Without a parent, a session, a group and the variables of the container.
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
    os._exit(0)
os.wait()
print("left", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
@pytest.mark.parametrize("end", ["itself", "stopped", "kill -9 of the engine"])
def test_what_leaves_its_session_ends_with_the_run(end: str, tmp_path: Path) -> None:
    workspace, mark = Workspace(tmp_path), f"{os.getpid()}{len(end)}9"
    container = scripted(sys.executable, "-c", LEAVES, mark, "0" if end == "itself" else "1000")
    process = workspace.start(job(task("only", "", container=container)), flags=["--isolation=process", RUN_TIMEOUT])
    assert process.stdout is not None
    assert process.stdout.readline() == "only-0  left\n"
    if end != "itself":
        while not processes(f"sleep {mark}"):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL if end.startswith("kill") else signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while processes(f"sleep {mark}") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert processes(f"sleep {mark}") == []

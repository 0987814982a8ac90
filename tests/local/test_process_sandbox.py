"""Containers as plain processes: the same calls as the real sandbox, on one machine's loopback."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.network.network_env import loopback_interface
from pumice.engines.local.plain_processes.process_sandbox import ProcessSandbox
from pumice.engines.local.sandbox.client import Ended
from pumice.engines.local.sandbox.sandbox_errors import StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, RootFs
from tests.local.sandbox.boxes import PATH, run

HOSTS = File("/etc/hosts", b"127.0.0.1 localhost\n10.77.0.10 job-a-0.job job-a-0\n10.77.0.11 job-b-0.job job-b-0\n")
LISTEN = """
import os, socket
listener = socket.create_server(("0.0.0.0", int(os.environ["MASTER_PORT"])))
print("up", flush=True)
listener.accept()[0].sendall(b"hello")
"""
ASK = """
import os, socket
with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), timeout=20) as connection:
    print(connection.makefile().read())
"""
MASTER = {"MASTER_ADDR": "job-a-0.job", "MASTER_PORT": "23456"}


@asynccontextmanager
async def _sandbox(place: Path, warnings: list[str] | None = None) -> AsyncIterator[ProcessSandbox]:
    told: list[str] = [] if warnings is None else warnings
    sandbox = await ProcessSandbox.start("job", place / "stage", warn=told.append)
    try:
        await sandbox.create_pod("job-a-0", "10.77.0.10", "job-a-0")
        await sandbox.create_pod("job-b-0", "10.77.0.11", "job-b-0")
        yield sandbox
    finally:
        await sandbox.close()
    assert [path.name for path in (place / "stage").iterdir()] == ["lock"]


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


def test_pods_find_each_other_by_the_master_variables(tmp_path: Path) -> None:
    async def story() -> None:
        async with _sandbox(tmp_path) as sandbox:
            python = (sys.executable, "-I", "-c")
            master = await _start(sandbox, _spec("job-a-0", *python, LISTEN, env=MASTER, files=(HOSTS,)))
            assert await master.readline() == b"up\n"
            worker = await _start(sandbox, _spec("job-b-0", *python, ASK, env=MASTER, files=(HOSTS,)))
            assert await worker.read() == b"hello\n"
            assert [await sandbox.ended(f"job-{pod}-0/main") for pod in "ab"] == [Ended(0, 0, oom=False)] * 2

    run(story())


def test_the_engine_connects_where_the_pod_listens(tmp_path: Path) -> None:
    async def story() -> None:
        async with _sandbox(tmp_path) as sandbox:
            spec = _spec("job-a-0", sys.executable, "-I", "-c", LISTEN, env=MASTER, files=(HOSTS,))
            assert await (await _start(sandbox, spec)).readline() == b"up\n"
            with await sandbox.connect("job-a-0", 23456) as connection:
                assert await asyncio.get_running_loop().sock_recv(connection, 100) == b"hello"

    run(story())


def test_host_files_are_rewritten_and_commands_led_to_them(tmp_path: Path) -> None:
    config = tmp_path / "config"
    (config / "..data").mkdir(parents=True)
    (config / "..data" / "b.host").write_text("job-b-0.job\n")
    (config / "b.host").symlink_to("..data/b.host")

    async def story() -> None:
        warnings: list[str] = []
        async with _sandbox(tmp_path, warnings) as sandbox:
            mounts = (Mount(str(config), "/etc/volcano", read_only=True), Mount(str(tmp_path), str(tmp_path)))
            script = "cat /etc/volcano/b.host $PUMICE_ROOT/etc/volcano/b.host; echo $GLOO_SOCKET_IFNAME"
            spec = _spec("job-a-0", "sh", "-c", script, files=(HOSTS,), mounts=mounts, memory=1 << 30)
            spec = replace(spec, root=RootFs(read_only=True))
            found = await (await _start(sandbox, spec)).read()
            address = sandbox._translation.loopback("10.77.0.11")
            assert found.decode().split() == [address, address, loopback_interface()]
            await sandbox.ended(spec.id)
        assert [warning.partition(" ")[0] for warning in warnings] == [
            "/etc/volcano",
            "limits.memory",
            "readOnlyRootFilesystem",
        ]

    run(story())


def test_a_pod_knows_its_own_name(tmp_path: Path) -> None:
    """Its index is the end of it."""
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod" / "name").write_text("job-a-0\n")

    async def story() -> None:
        async with _sandbox(tmp_path) as sandbox:
            mounts = (Mount(str(tmp_path / "pod"), "/etc/pod", read_only=True),)
            script = "cat /etc/pod/name; echo ${POD##*-}"
            spec = _spec("job-a-0", "sh", "-c", script, env={"POD": "job-a-0"}, files=(HOSTS,), mounts=mounts)
            assert await (await _start(sandbox, spec)).read() == b"job-a-0\n0\n"
            await sandbox.ended(spec.id)

    run(story())


def test_signals_and_what_the_first_process_leaves_behind(tmp_path: Path) -> None:
    async def story() -> None:
        async with _sandbox(tmp_path) as sandbox:
            spec = _spec("job-a-0", "sh", "-c", "sleep 1000 & setsid sleep 1000 & echo $!; wait")
            output = await _start(sandbox, spec)
            await output.readline()
            await sandbox.signal(spec.id, signal.SIGTERM)
            assert await sandbox.ended(spec.id) == Ended(143, 15, oom=False)
            # The pipe ends when the last who holds it is gone.
            assert await output.read() == b""
            await sandbox.signal(spec.id, signal.SIGKILL)

    run(story())


def test_directories_of_its_own_are_kept_where_asked(tmp_path: Path) -> None:
    """/home and the working directory in it are the container's, and so is what it writes there."""
    own = tmp_path / "own"
    own.mkdir()

    async def story() -> None:
        async with _sandbox(tmp_path) as sandbox:
            script = f"pwd; echo result > /home/re; echo mine > {own}/file; echo $HOME; echo $GLOO_SOCKET_IFNAME"
            spec = _spec(
                "job-a-0",
                *("sh", "-c", script),
                env={"HOME": "/root", "GLOO_SOCKET_IFNAME": "wlan0"},
                hidden=("/home", "/root", str(tmp_path)),
                mounts=(Mount(str(own), str(own)),),
            )
            spec = replace(spec, cwd="/home/new", root=RootFs(upper=str(tmp_path / "kept")))
            output = (await (await _start(sandbox, spec)).read()).decode().split()
            kept = tmp_path / "kept"
            assert output == [str(kept / "home/new"), str(kept / "root"), "wlan0"]
            assert (await sandbox.ended(spec.id)).code == 0
        assert (tmp_path / "kept/home/re").read_text() == "result\n"
        assert (own / "file").read_text() == "mine\n"

    run(story())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds processes to processors")
def test_whole_processors(tmp_path: Path) -> None:
    own = min(os.sched_getaffinity(0))

    async def story() -> None:
        async with _sandbox(tmp_path) as sandbox:
            spec = _spec("job-a-0", "sleep", "1000", cpus=(own,))
            await _start(sandbox, spec)
            pid = sandbox._containers[spec.id].process.pid
            assert os.sched_getaffinity(pid) == {own}

    run(story())


def test_exec(tmp_path: Path) -> None:
    async def story() -> None:
        async with _sandbox(tmp_path) as sandbox:
            spec = _spec("job-a-0", "sleep", "1000", env={"A": "1"})
            await _start(sandbox, spec)
            assert await sandbox.exec(spec.id, ["sh", "-c", "echo $A; exit 3"], {}, 20) == (3, b"1\n")
            with pytest.raises(TimeoutError):
                await sandbox.exec(spec.id, ["sleep", "1000"], {}, 0.1)
            await sandbox.remove_pod("job-a-0")
            assert (await sandbox.ended(spec.id)).signal == signal.SIGKILL
            with pytest.raises(StartError):
                await sandbox.exec(spec.id, ["true"], {}, 1)

    run(story())


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        pytest.param({"argv": ("no-such-command",)}, "command-not-found", id="no command"),
        pytest.param({"argv": ("/etc/passwd",)}, "not-executable", id="not executable"),
        pytest.param({"argv": ("./etc/passwd",)}, "not-executable", id="seen from the working directory"),
        pytest.param({"argv": ("./no-such-command",)}, "command-not-found", id="no file"),
        pytest.param({"root": RootFs("/somewhere")}, "image", id="image"),
        pytest.param({"pod": "job-c-0"}, "gone", id="no pod"),
    ],
)
def test_what_cannot_start(tmp_path: Path, changes: dict[str, Any], kind: str) -> None:
    async def story() -> None:
        async with _sandbox(tmp_path) as sandbox:
            values = {"id": "x/main", "pod": "job-a-0", "argv": ("true",), "env": {"PATH": PATH}, "cwd": "/"}
            with pytest.raises(StartError) as caught:
                await _start(sandbox, ContainerSpec(**{**values, "root": RootFs(), **changes}))
            assert caught.value.kind == kind

    run(story())


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
        pytest.param("stage", id="usual"),
        pytest.param("line\nbreak", id="line break"),
        pytest.param(os.fsdecode(b"caf\xe9"), id="not UTF-8"),
    ],
)
def test_everything_dies_with_the_engine(tmp_path: Path, name: str) -> None:
    engine = subprocess.Popen([sys.executable, "-c", ENGINE, str(tmp_path / name)], stdout=subprocess.PIPE)
    assert engine.stdout is not None
    assert engine.stdout.readline() == b"up\n"
    engine.kill()
    # The pipe is held by the container and by its children, one of which has left its group: all of them are gone.
    assert engine.communicate(timeout=30)[0] == b""


def test_somebody_kills_the_last_resort(tmp_path: Path) -> None:
    """The job goes on, and ends as it would have."""

    async def story() -> None:
        async with _sandbox(tmp_path) as sandbox:
            os.kill(sandbox.pid, signal.SIGKILL)
            spec = _spec("job-a-0", "sh", "-c", "echo up; exit 3")
            output = await _start(sandbox, spec)
            assert await output.read() == b"up\n"
            assert (await sandbox.ended(spec.id)).code == 3

    run(story())


def test_no_further_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    async def story() -> None:
        async with _sandbox(tmp_path) as sandbox:
            monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
            with pytest.raises(StartError, match="see ulimit -u"):
                await _start(sandbox, _spec("job-a-0", "true"))

    run(story())

"""`pumice forward`: a port of a running pod on this machine, also after restarts, until the pod has ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import pumice
from tests.local.commands import Terminal
from tests.local.running import job, scripted, task
from tests.local.sandbox.boxes import need_namespaces

# Answers only after the client has closed its side, with the number of its start.
SERVER = """
import os, socket, threading
with open("starts", "a") as file:
    file.write("x")
start = len(open("starts").read())
listener = socket.create_server(("0.0.0.0", 6006))
def serve(connection):
    with connection:
        said = connection.makefile("rb").read()
        if said == b"end":
            os._exit(3)
        if said == b"done":
            os._exit(0)
        connection.sendall(b"start %d: %d bytes" % (start, len(said)))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
SERVING = scripted("python3", "-c", SERVER)
RESTART = [{"event": "PodFailed", "action": "RestartJob"}]


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@contextmanager
def forwarding(terminal: Terminal, *words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield the process of the command, and its port."""
    process = subprocess.Popen(
        [Path(sys.executable).with_name("pumice"), "forward", *words],
        cwd=terminal.workspace.directory,
        env={**os.environ, **terminal.workspace.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        host, _, port = process.stdout.readline().strip().partition(":")
        assert host == "127.0.0.1", process.stderr.read()
        yield process, int(port)
        if process.poll() is None:
            process.kill()


def ask(port: int, words: bytes = b"") -> str:
    """Return the answer; empty if the connection is reset."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(words)
            client.shutdown(socket.SHUT_WR)
            return client.makefile("rb").read().decode()
    except ConnectionError:
        return ""


@pytest.mark.parametrize("isolation", ["namespaces", "process"])
def test_many_connections_at_once_until_it_is_interrupted(terminal: Terminal, isolation: str) -> None:
    run = terminal.submit(job(task("w", "", container=SERVING)), flags=("--isolation", isolation))
    terminal.until(lambda: terminal.phase(run) == "Running")
    with forwarding(terminal, f"{run}/w-0", "6006") as (process, port):
        terminal.until(lambda: ask(port) == "start 1: 0 bytes")
        with ThreadPoolExecutor(64) as threads:
            answers = list(threads.map(lambda number: ask(port, b"x" * number * 1000), range(200)))
        assert answers == [f"start 1: {number * 1000} bytes" for number in range(200)]
        taken = terminal("forward", "w-0", f"6006:{port}", code=2)
        assert taken.err.startswith(f"port {port} is taken by ")
        assert f"(pid {process.pid})" in taken.err
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr is not None
        assert process.stderr.read() == f"it leads to port 6006 of {run}/w-0; Ctrl-C ends it\n"


def test_a_new_connection_goes_to_the_restarted_pod(terminal: Terminal) -> None:
    run = terminal.submit(job(task("w", "", container=SERVING, policies=RESTART)))
    terminal.until(lambda: terminal.phase(run) == "Running")
    with socket.create_server(("127.0.0.1", 0)) as free:
        local = free.getsockname()[1]
    with forwarding(terminal, f"{run}/w-0", f"6006:{local}") as (process, port):
        assert port == local
        terminal.until(lambda: ask(port).startswith("start 1"))
        assert ask(port, b"end") == ""
        terminal.until(lambda: ask(port).startswith("start 2"))
        terminal("stop", run)
        assert process.wait(60) == 1
        assert process.stderr is not None
        assert process.stderr.read().endswith(f"{run} Stopped: the port is closed\n")


def test_it_goes_on_when_another_process_continues_the_run(terminal: Terminal) -> None:
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    run = terminal.submit(job(task("w", "", container=SERVING), policies=policies))
    terminal.until(lambda: terminal.phase(run) == "Running")
    with forwarding(terminal, f"{run}/w-0", "6006") as (process, port):
        terminal.until(lambda: ask(port).startswith("start 1"))
        os.kill(terminal.owner(run), signal.SIGKILL)
        terminal.until(lambda: ask(port).startswith("start 2"))
        ask(port, b"done")
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert f"\n{run} Succeeded: the port is closed\n" in process.stderr.read()


def test_it_ends_with_a_pod_that_is_not_replaced(terminal: Terminal) -> None:
    other = task("other", "while [ ! -e go ]; do sleep 0.2; done")
    run = terminal.submit(job(task("w", "", container=SERVING), other, minAvailable=1))
    terminal.until(lambda: terminal.phase(run) == "Running")
    with forwarding(terminal, "w-0", "6006") as (process, port):
        terminal.until(lambda: ask(port).startswith("start 1"))
        ask(port, b"done")
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read().endswith(f"{run}/w-0 Succeeded: the port is closed\n")
    (terminal.workspace.directory / "go").touch()
    terminal("wait", run)
    refused = terminal("forward", "w-0", "6006", code=1)
    assert refused.err == f"{run} is not running: Succeeded\n"


def test_a_pod_that_does_not_exist(terminal: Terminal) -> None:
    run = terminal.submit(job(task("w", "sleep 600")))
    terminal.until(lambda: terminal.phase(run) == "Running")
    refused = terminal("forward", f"{run}/w-1", "6006", code=2)
    assert refused.err == f"{run}/w-1: no such pod\n  hint: it has w-0\n"


def test_python(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in terminal.workspace.env.items():
        monkeypatch.setenv(name, value)
    name = terminal.submit(job(task("w", "", container=SERVING)))
    terminal.until(lambda: terminal.phase(name) == "Running")
    run = pumice.Client(state=terminal.workspace.state.parent).get(name)
    with run.forward("w-0", 6006) as forwarded:
        terminal.until(lambda: ask(forwarded.port).startswith("start 1"))
        with pytest.raises(pumice.InvalidOption, match=f"port {forwarded.port} is taken by"):
            run.forward("w-0", 6006, local=forwarded.port)
    assert ask(forwarded.port) == ""

"""The life of a container, in real namespaces."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.kubelet import restart_policy
from pumice.engines.local.kubelet.container import Container
from tests.local.lives import ADDRESS, Harness, shell
from tests.local.sandbox import boxes
from tests.local.sandbox.boxes import Box, in_box

# Hears SIGTERM, says so, and goes.
POLITE = "trap 'echo farewell; exit 0' TERM; echo up; while :; do sleep 0.05; done"
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.05; done"


@pytest.fixture(autouse=True)
def _possible() -> None:
    boxes.need_namespaces()


async def until(harness: Harness, line: str) -> None:
    while line not in harness.lines:  # noqa: ASYNC110 - every test has an end
        await asyncio.sleep(0.01)


async def up(harness: Harness, container: Container) -> None:
    """What it prints may be heard before it is known that it was started."""
    await until(harness, "up")
    while not container.running:  # noqa: ASYNC110 - every test has an end
        await asyncio.sleep(0.01)


async def harness_in(box: Box) -> Harness:
    await box.pod("pod", ADDRESS)
    return Harness(box)


@pytest.mark.parametrize(
    ("script", "code", "signal", "last"),
    [
        pytest.param("echo well", 0, 0, "well", id="well"),
        pytest.param("echo one; echo two >&2; exit 3", 3, 0, "two", id="a code; errors say more"),
        pytest.param("sh -c 'kill -9 $$'; exit $?", 137, 0, "", id="a child was killed"),
        pytest.param("exec no-such-program", 127, 0, "sh: 1: exec: no-such-program: not found", id="not found"),
    ],
)
def test_how_it_ends(tmp_path: Path, script: str, code: int, signal: int, last: str) -> None:
    async def story() -> None:
        async with boxes.box(tmp_path / "stage") as box:
            harness = await harness_in(box)
            end = await harness.container(shell(script)).run("Never")
            assert (end.container, end.exit_code, end.signal, end.reason) == ("c", code, signal, "")
            assert last in end.last_line

    boxes.run(story())


@in_box
async def test_a_kill_is_a_signal(box: Box) -> None:
    harness = await harness_in(box)
    container = harness.container(shell("echo up; sleep 60"))
    life = asyncio.create_task(container.run("Never"))
    await up(harness, container)
    await container.kill()
    end = await life
    assert (end.exit_code, end.signal) == (137, 9)
    await container.kill()


@in_box
async def test_what_cannot_be_started_says_why(box: Box) -> None:
    harness = await harness_in(box)
    end = await harness.container({"name": "c", "command": ["no-such-program"]}).run("Never")
    assert (end.exit_code, end.reason) == (127, "StartError")
    assert "no-such-program: command not found" in end.last_line


def test_it_is_started_again_after_a_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_policy.BackOff, "after", lambda _self, _ran: 0.05)

    async def story() -> None:
        async with boxes.box(tmp_path / "stage") as box:
            harness = await harness_in(box)
            container = harness.container(shell("exit 5"))
            life = asyncio.create_task(container.run("OnFailure"))
            while len(harness.restarts) < 2:  # noqa: ASYNC110 - every test has an end
                await asyncio.sleep(0.01)
            await container.stop(1)
            await life
            assert harness.restarts[:2] == [1, 2]
            assert all(end.exit_code in (5, 143) for end in container.ends)

    boxes.run(story())


@in_box
async def test_a_wait_before_a_restart_ends_with_the_container(box: Box) -> None:
    harness = await harness_in(box)
    container = harness.container(shell("exit 5"))
    life = asyncio.create_task(container.run("Always"))
    while not container.waiting_for:  # noqa: ASYNC110 - every test has an end
        await asyncio.sleep(0.01)
    assert container.waiting_for == "CrashLoopBackOff"
    await container.stop(20)
    assert (await life).exit_code == 5
    assert harness.restarts == [1]  # announced before the wait


@pytest.mark.parametrize(
    ("script", "grace", "code"),
    [
        pytest.param(POLITE, 30, 0, id="in peace"),
        pytest.param(STUBBORN, 0.2, 137, id="when the grace is over"),
        pytest.param(POLITE, 0, None, id="no grace"),
    ],
)
def test_it_is_ended(tmp_path: Path, script: str, grace: float, code: int | None) -> None:
    async def story() -> None:
        async with boxes.box(tmp_path / "stage") as box:
            harness = await harness_in(box)
            container = harness.container(shell(script))
            life = asyncio.create_task(container.run("Always"))
            await up(harness, container)
            await container.stop(grace)
            end = await life
            assert code is None or end.exit_code == code
            assert not container.running
            assert ("farewell" in harness.lines) is (code == 0)

    boxes.run(story())


@in_box
async def test_who_cannot_hear_the_signal_ends_after_the_hook_and_not_after_the_grace(box: Box) -> None:
    harness = await harness_in(box)
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hooked > /proc/1/fd/1"]}}}
    container = harness.container(shell("echo up; sleep 1000; true", lifecycle=hook))
    life = asyncio.create_task(container.run("Never"))
    await up(harness, container)
    await container.stop(600)
    end = await life
    assert (end.exit_code, end.signal) == (143, 15)
    assert harness.lines == ["up", "hooked"]


@in_box
async def test_the_signal_of_its_choice_ends_it(box: Box) -> None:
    harness = await harness_in(box)
    script = "trap 'exit 7' USR1; echo up; while :; do sleep 0.05; done"
    container = harness.container(shell(script))
    container.stop_signal = signal.SIGUSR1
    life = asyncio.create_task(container.run("Never"))
    await up(harness, container)
    await container.stop(30)
    assert (await life).exit_code == 7


@in_box
async def test_hooks_come_before_the_end_and_after_the_start(box: Box) -> None:
    harness = await harness_in(box)
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo begun > /tmp/hook"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo ending > /tmp/hook"]}},
    }
    script = "trap 'cat /tmp/hook; exit 0' TERM; until cat /tmp/hook 2>/dev/null; do sleep 0.05; done; "
    container = harness.container(shell(script + "while :; do sleep 0.2; done", lifecycle=hooks))
    life = asyncio.create_task(container.run("Never"))
    await until(harness, "begun")
    while not container.ready:  # noqa: ASYNC110 - every test has an end
        await asyncio.sleep(0.01)
    await container.stop(30)
    assert (await life).exit_code == 0
    assert harness.lines == ["begun", "ending"]
    assert harness.warnings == []


@in_box
async def test_a_hook_that_fails_at_the_start_ends_the_container(box: Box) -> None:
    harness = await harness_in(box)
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "echo no luck; exit 4"]}}}
    container = harness.container(shell(POLITE, lifecycle=hook))
    end = await container.run("Never")
    why = "the postStart hook failed: exit code 4: no luck"
    assert (end.reason, end.last_line) == ("PostStartHookError", why)
    assert harness.warnings == [f"container c: {why}; the container is stopped"]
    assert not container.ready


@in_box
async def test_a_prestop_hook_that_fails_is_a_warning(box: Box) -> None:
    harness = await harness_in(box)
    hook = {"preStop": {"httpGet": {"port": 80}}}
    container = harness.container(shell(POLITE, lifecycle=hook))
    life = asyncio.create_task(container.run("Never"))
    await up(harness, container)
    await container.stop(30)
    assert (await life).exit_code == 0
    assert harness.warnings == ["container c: the preStop hook failed: connection refused"]


@in_box
async def test_an_end_during_a_long_hook_is_noticed(box: Box) -> None:
    harness = await harness_in(box)
    hook = {"postStart": {"sleep": {"seconds": 600}}}
    end = await harness.container(shell("exit 6", lifecycle=hook)).run("Never")
    assert end.exit_code == 6


@in_box
async def test_a_long_hook_at_the_end_has_the_grace_and_no_longer(box: Box) -> None:
    harness = await harness_in(box)
    container = harness.container(shell(POLITE, lifecycle={"preStop": {"sleep": {"seconds": 600}}}))
    life = asyncio.create_task(container.run("Never"))
    await up(harness, container)
    await container.stop(0.3)
    assert (await life).exit_code == 137


_SERVER = """exec python3 -S -c '
import socket
listener = socket.create_server(("", 80))
open("/tmp/listens", "w").close()
while True:
    connection = listener.accept()[0]
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 404 Not Found\\r\\n\\r\\n")
    connection.close()
'"""
_UNTIL_IT_LISTENS = "until [ -e /tmp/listens ]; do sleep 0.2; done"
_FAST = {"periodSeconds": 0.05, "failureThreshold": 1, "timeoutSeconds": 20}


@pytest.mark.parametrize(
    ("handler", "failure"),
    [
        pytest.param({"exec": {"command": ["sh", "-c", "echo stuck; exit 2"]}}, "exit code 2: stuck", id="exec"),
        pytest.param({"tcpSocket": {"port": 81}}, "connection refused", id="tcp"),
        pytest.param({"httpGet": {"port": "web", "path": "/missing"}}, "HTTP status 404", id="http"),
    ],
)
@pytest.mark.parametrize("kind", ["startup", "liveness"])
def test_probes_end_a_container(tmp_path: Path, handler: dict[str, Any], failure: str, kind: str) -> None:
    probe = {**_FAST, **handler, "terminationGracePeriodSeconds": 1}
    # The server takes its time to listen; no probe is to meet it before.
    listening = {"postStart": {"exec": {"command": ["sh", "-c", _UNTIL_IT_LISTENS]}}}
    ports = [{"name": "web", "containerPort": 80}]

    async def story() -> None:
        async with boxes.box(tmp_path / "stage") as box:
            harness = await harness_in(box)
            manifest = shell(_SERVER, ports=ports, lifecycle=listening, **{f"{kind}Probe": probe})
            end = await harness.container(manifest).run("Never")
            assert end.reason == f"{kind.capitalize()}ProbeFailed"
            assert end.last_line == f"the {kind} probe failed: {failure}"
            assert harness.warnings == [f"container c: the {kind} probe failed: {failure}; the container is stopped"]

    boxes.run(story())


@in_box
async def test_readiness_follows_its_probe(box: Box) -> None:
    harness = await harness_in(box)
    probe = {**_FAST, "exec": {"command": ["test", "-e", "/tmp/ready"]}}
    script = "trap 'rm /tmp/ready; echo gone' USR1; trap 'touch /tmp/ready' USR2; echo up; while :; do sleep 0.05; done"
    container = harness.container(shell(script, readinessProbe=probe))
    life = asyncio.create_task(container.run("Never"))
    await up(harness, container)
    assert container.started
    assert not container.ready
    for number, expected in ((12, True), (10, False)):
        await container.kill(number)
        while container.ready is not expected:  # noqa: ASYNC110 - every test has an end
            await asyncio.sleep(0.01)
    await container.stop(0)
    await life


@in_box
async def test_a_container_with_a_startup_probe_has_not_started_before_it_says_so(box: Box) -> None:
    harness = await harness_in(box)
    probe = {**_FAST, "failureThreshold": 2000, "exec": {"command": ["test", "-e", "/tmp/begun"]}}
    container = harness.container(shell("trap 'touch /tmp/begun' USR1; echo up; while :; do sleep 0.05; done"))
    container.manifest["startupProbe"] = probe
    life = asyncio.create_task(container.run("Never"))
    await up(harness, container)
    assert (container.running, container.started, container.ready) == (True, False, False)
    await container.kill(10)
    while not container.ready:  # noqa: ASYNC110 - every test has an end
        await asyncio.sleep(0.01)
    assert container.started
    await container.stop(0)
    await life


def test_last_words_are_those_of_its_file(tmp_path: Path) -> None:
    async def story() -> None:
        async with boxes.box(tmp_path / "stage") as box:
            harness = await harness_in(box)
            harness.messages = tmp_path / "words"
            harness.messages.touch()
            harness.messages.chmod(0o666)
            script = "echo printed; echo 'it was\n the disk' > /tmp/words; exit 1"
            end = await harness.container(shell(script, terminationMessagePath="/tmp/words")).run("Never")
            assert end.last_line == "it was the disk"

    boxes.run(story())


def test_a_file_for_last_words_that_cannot_be_read_is_no_failure(tmp_path: Path) -> None:
    async def story() -> None:
        async with boxes.box(tmp_path / "stage") as box:
            harness = await harness_in(box)
            harness.messages = tmp_path / "words"
            harness.messages.touch()
            container = harness.container(shell(POLITE, terminationMessagePath="/tmp/words"))
            life = asyncio.create_task(container.run("Never"))
            await up(harness, container)
            harness.messages.unlink()
            await container.stop(20)
            end = await life
            assert (end.exit_code, end.last_line) == (0, "farewell")

    boxes.run(story())


@in_box
async def test_one_that_was_stopped_before_it_began_does_not_begin(box: Box) -> None:
    harness = await harness_in(box)
    container = harness.container(shell("echo up"))
    began = time.monotonic()
    await container.stop(600)
    assert (await container.run("Always")).exit_code == 143
    assert harness.lines == []
    assert time.monotonic() - began < 300


def test_a_lack_of_descriptors_does_not_grow_with_each_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two pipes cannot be had: then the first one goes, too."""
    pipe, made = os.pipe, 0

    def fails_every_second_time() -> tuple[int, int]:
        nonlocal made
        made += 1
        if made % 2 == 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return pipe()

    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def story() -> None:
        async with boxes.box(tmp_path / "stage") as box:
            harness = await harness_in(box)
            before = opened()
            with monkeypatch.context() as patches:
                patches.setattr(os, "pipe", fails_every_second_time)
                for _ in range(3):
                    end = await harness.container(shell("true")).run("Never")
                    assert (end.exit_code, end.reason) == (128, "StartError")
            while opened() > before:  # noqa: ASYNC110 - every test has an end
                await asyncio.sleep(0.01)

    boxes.run(story())

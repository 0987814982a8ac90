"""SIGTERM ends a container at once if its first process has no handler, and is left to that process otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from pumice.engines.local.sandbox.client import Ended
from pumice.engines.local.sandbox.init.pid1_signals import Delivery, delivery
from tests.local.sandbox.boxes import Box, in_box, python_mounts

pytestmark = pytest.mark.usefixtures("namespaces")

SHELL = ("sh", "-c")
ENDED_BY_SIGTERM = Ended(143, 15, oom=False)
SIGWAIT = (
    "import signal; signal.pthread_sigmask(0, [15]); print('up', flush=True); print(signal.sigwait([15]), flush=True)"
)


@pytest.mark.parametrize(
    ("command", "output", "end"),
    [
        pytest.param((*SHELL, "echo up; sleep 1000; true"), "", ENDED_BY_SIGTERM, id="shell that waits for a child"),
        pytest.param((*SHELL, "echo up; exec sleep 1000"), "", ENDED_BY_SIGTERM, id="program without a handler"),
        pytest.param(
            (*SHELL, "trap 'exit 7' USR1 INT; echo up; sleep 1000; true"), "", ENDED_BY_SIGTERM, id="other handlers"
        ),
        pytest.param(
            (*SHELL, "trap '' TERM; trap - TERM; echo up; sleep 1000; true"), "", ENDED_BY_SIGTERM, id="ignored before"
        ),
        pytest.param(
            (*SHELL, "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep .05; done"),
            "bye\n",
            Ended(7, 0, oom=False),
            id="handler",
        ),
        pytest.param((sys.executable, "-ISc", SIGWAIT), "15\n", Ended(0, 0, oom=False), id="sigwait"),
    ],
)
@in_box
async def test_sigterm(box: Box, command: tuple[str, ...], output: str, end: Ended) -> None:
    await box.pod("a")
    container = await box.start(box.spec("a", *command, mounts=python_mounts()))
    assert await container.line() == "up"
    await box.sandbox.signal(container.container, signal.SIGTERM)
    assert (await container.rest(), await container.ended()) == (output, end)


@pytest.mark.parametrize(
    ("number", "end"),
    [
        pytest.param(signal.SIGINT, Ended(130, 2, oom=False), id="SIGINT"),
        pytest.param(signal.SIGUSR1, Ended(138, 10, oom=False), id="SIGUSR1"),
        pytest.param(signal.SIGRTMIN + 3, Ended(165, 37, oom=False), id="SIGRTMIN+3"),
        pytest.param(signal.SIGKILL, Ended(137, 9, oom=False), id="SIGKILL"),
    ],
)
@in_box
async def test_other_stop_signals_end_a_container(box: Box, number: int, end: Ended) -> None:
    await box.pod("a")
    # Without a shell, which handles SIGINT itself.
    output = await box.start(box.spec("a", "/bin/sleep", "1000"))
    for harmless in (signal.SIGWINCH, signal.SIGCONT, signal.SIGCHLD):
        await box.sandbox.signal(output.container, harmless)
    await box.sandbox.signal(output.container, number)
    assert await output.ended() == end


@in_box
async def test_a_process_that_ignores_sigterm_keeps_running(box: Box) -> None:
    await box.pod("a")
    output = await box.start(box.spec("a", *SHELL, "trap '' TERM; echo up; sleep 1000; true"))
    assert await output.line() == "up"
    await box.sandbox.signal(output.container, signal.SIGTERM)
    assert await box.exec(output.container, "echo", "alive") == (0, b"alive\n")
    await box.sandbox.signal(output.container, signal.SIGKILL)
    assert await output.ended() == Ended(137, 9, oom=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@in_box
async def test_a_container_in_a_shared_pid_namespace_ends_alone(box: Box, number: signal.Signals) -> None:
    """It is not the first process there; the processes that it started end with it."""
    await box.pod("a")
    first = await box.start(box.spec("a", *SHELL, "echo up; sleep 1000; true"))
    assert await first.line() == "up"
    script = "cat /proc/1/comm; sleep 1000 & sleep 1000; true"
    second = await box.start(box.spec("a", *SHELL, script, share_pid_with=first.container))
    assert await second.line() == "sh"
    await box.sandbox.signal(second.container, number)
    assert await second.ended() == Ended(128 + number, number, oom=False)
    # The pipe is at its end when no process holds it.
    assert await second.rest() == ""
    assert await box.exec(first.container, "true") == (0, b"")


def test_other_processes_get_every_signal() -> None:
    process = subprocess.Popen(["sleep", "1000"])
    pidfd = os.pidfd_open(process.pid)
    try:
        assert delivery(pidfd, signal.SIGTERM) is Delivery.NORMAL
        process.kill()
        process.wait()
        assert delivery(pidfd, signal.SIGTERM) is Delivery.NORMAL
    finally:
        os.close(pidfd)

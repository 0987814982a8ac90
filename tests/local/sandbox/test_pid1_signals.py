"""SIGTERM ends a container at once if its first process could not hear it, and is left to that process otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.client import Ended
from pumice.engines.local.sandbox.init.pid1_signals import Delivery, delivery
from tests.local.sandbox.boxes import Box, box, in_box, python_mounts, run

pytestmark = pytest.mark.usefixtures("namespaces")

SHELL = ("sh", "-c")
PYTHON = (sys.executable, "-ISc")
ENDED_BY_SIGTERM = Ended(143, 15, oom=False)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param((*SHELL, "echo up; sleep 1000; true"), id="shell that waits for a child"),
        pytest.param((*SHELL, "echo up; exec sleep 1000"), id="program without a handler"),
        pytest.param((*SHELL, "trap 'exit 7' USR1 INT; echo up; sleep 1000; true"), id="handlers of other signals"),
        pytest.param((*SHELL, "trap '' TERM; trap - TERM; echo up; sleep 1000; true"), id="ignored no longer"),
    ],
)
def test_who_has_no_handler_is_ended_at_once_as_outside_of_a_container(tmp_path: Path, command: list[str]) -> None:
    async def story() -> None:
        async with box(tmp_path) as made:
            await made.pod("a")
            output = await made.start(made.spec("a", *command))
            assert await output.line() == "up"
            await made.sandbox.signal(output.container, signal.SIGTERM)
            assert await output.ended() == ENDED_BY_SIGTERM

    run(story())


WAITS = (
    "import signal; signal.pthread_sigmask(0, [15]); print('up', flush=True); print(signal.sigwait([15]), flush=True)"
)


@pytest.mark.parametrize(
    ("command", "said", "end"),
    [
        pytest.param(
            (*SHELL, "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep .05; done"),
            "bye\n",
            Ended(7, 0, oom=False),
            id="handler",
        ),
        pytest.param((*PYTHON, WAITS), "15\n", Ended(0, 0, oom=False), id="blocked and waited for"),
    ],
)
def test_who_can_hear_it_decides_how_to_end(tmp_path: Path, command: list[str], said: str, end: Ended) -> None:
    async def story() -> None:
        async with box(tmp_path) as made:
            await made.pod("a")
            output = await made.start(made.spec("a", *command, mounts=python_mounts()))
            assert await output.line() == "up"
            await made.sandbox.signal(output.container, signal.SIGTERM)
            assert (await output.rest(), await output.ended()) == (said, end)

    run(story())


@pytest.mark.parametrize(
    ("number", "end"),
    [
        pytest.param(signal.SIGINT, Ended(130, 2, oom=False), id="SIGINT"),
        pytest.param(signal.SIGUSR1, Ended(138, 10, oom=False), id="SIGUSR1"),
        pytest.param(signal.SIGRTMIN + 3, Ended(165, 37, oom=False), id="one for real time"),
        pytest.param(signal.SIGKILL, Ended(137, 9, oom=False), id="SIGKILL"),
    ],
)
def test_other_signals_end_it_as_well(tmp_path: Path, number: int, end: Ended) -> None:
    """A container may choose the signal that it is ended by."""

    async def story() -> None:
        async with box(tmp_path) as made:
            await made.pod("a")
            # Not by way of a shell, which has an answer of its own to SIGINT. What is started is what was asked for.
            output = await made.start(made.spec("a", "/bin/sleep", "1000"))
            for harmless in (signal.SIGWINCH, signal.SIGCONT, signal.SIGCHLD):
                await made.sandbox.signal(output.container, harmless)
            await made.sandbox.signal(output.container, number)
            assert await output.ended() == end

    run(story())


@in_box
async def test_who_ignores_it_on_purpose_is_left_alone(box: Box) -> None:
    await box.pod("a")
    output = await box.start(box.spec("a", *SHELL, "trap '' TERM; echo up; sleep 1000; true"))
    assert await output.line() == "up"
    await box.sandbox.signal(output.container, signal.SIGTERM)
    code, text = await box.sandbox.exec(output.container, ["echo", "alive"], {"PATH": os.defpath}, 10)
    assert (code, text) == (0, b"alive\n")
    await box.sandbox.signal(output.container, signal.SIGKILL)
    assert await output.ended() == Ended(137, 9, oom=False)


@in_box
async def test_a_container_in_another_s_pid_namespace_gets_the_signal_itself(box: Box) -> None:
    """It is not the first process there; what it started is cleared away after it."""
    await box.pod("a")
    first = await box.start(box.spec("a", *SHELL, "echo up; sleep 1000; true"))
    assert await first.line() == "up"
    second = await box.start(box.spec("a", *SHELL, "echo up; sleep 1000; true", share_pid_with=first.container))
    assert await second.line() == "up"
    await box.sandbox.signal(second.container, signal.SIGTERM)
    assert await second.ended() == ENDED_BY_SIGTERM
    code, _ = await box.sandbox.exec(first.container, ["true"], {"PATH": os.defpath}, 10)
    assert code == 0


def test_a_process_that_is_not_the_first_or_has_ended_hears() -> None:
    process = subprocess.Popen(["sleep", "1000"])
    pidfd = os.pidfd_open(process.pid)
    try:
        assert delivery(pidfd, signal.SIGTERM) is Delivery.NORMAL
        process.kill()
        process.wait()
        assert delivery(pidfd, signal.SIGTERM) is Delivery.NORMAL
    finally:
        os.close(pidfd)

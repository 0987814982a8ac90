"""What signals do to `run` on a cluster: they stop the Job or leave it, and the last line says which."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster.api import Api, eventually
from tests.cluster.controllers import MAIN, Controllers
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.typed_commands import JOB
from tests.meta.tree import ROOT
from tests.patience import PATIENCE

LEFT = "train keeps running; reattach with pumice attach train --on admin, end it with pumice stop train --on admin"


class Typed:
    """`pumice run` on a terminal, or without one. `text` is all that it wrote."""

    def __init__(self, folder: Path, kubeconfig: Path, *flags: str, terminal: bool, **environ: str) -> None:
        words = [sys.executable, "-c", MAIN, "run", "job.yaml", "--on", "admin", *flags]
        own = {"PATH": os.defpath, "HOME": str(folder), "PYTHONPATH": str(ROOT / "src"), "KUBECONFIG": str(kubeconfig)}
        near, far = pty.openpty() if terminal else os.pipe()
        self.process = subprocess.Popen(
            words,
            cwd=folder,
            env={**own, **environ},
            stdin=far if terminal else subprocess.DEVNULL,
            stdout=far,
            stderr=far,
            start_new_session=True,
        )
        self._near = near
        os.close(far)
        self.text = ""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._near, 65536)
            except OSError:
                return
            if not data:
                return
            self.text += data.decode()

    def until(self, words: str) -> None:
        eventually(f"it prints {words!r}, not {self.text}", lambda: words in self.plain)

    @property
    def plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", self.text).replace("\r", "")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def type(self, text: str) -> None:
        os.write(self._near, text.encode())

    def code(self) -> int:
        code = self.process.wait(PATIENCE)
        self._thread.join(PATIENCE)
        return code


class Story(NamedTuple):
    """Starts the command, and says what became of the Job."""

    start: Callable[..., Typed]
    phase: Callable[[], str]


@pytest.fixture
def story(controllers: Controllers, api: Api, namespace: str, tmp_path: Path) -> Iterator[Story]:
    """The command is started when both pods run."""
    tmp_path.joinpath("job.yaml").write_text(JOB)
    kubeconfig = controllers.cluster.kubeconfig(namespace=namespace)
    controllers.start(namespace)
    started: list[Typed] = []

    def start(*flags: str, terminal: bool = False, **environ: str) -> Typed:
        typed = Typed(tmp_path, kubeconfig, *flags, terminal=terminal, **environ)
        started.append(typed)
        typed.until("Running    2/2")
        return typed

    with FakeKubelet(controllers.cluster, namespace):
        yield Story(start, lambda: str(api.get("Job", namespace, "train")["status"]["state"]["phase"]))
        for each in started:
            each.process.kill()
            each.process.wait()


@pytest.mark.parametrize(
    ("number", "flags", "code"),
    [
        pytest.param(signal.SIGTERM, (), 143, id="terminated"),
        pytest.param(signal.SIGHUP, (), 129, id="hung up"),
        pytest.param(signal.SIGQUIT, (), 0, id="quit"),
        pytest.param(signal.SIGINT, ("--on-interrupt", "detach"), 130, id="interrupted, by request"),
    ],
)
def test_it_leaves_the_job(story: Story, number: signal.Signals, flags: tuple[str, ...], code: int) -> None:
    typed = story.start(*flags)
    typed.send(number)
    assert typed.code() == code
    assert typed.plain.splitlines()[-2:] == [LEFT, "train"]
    assert story.phase() == "Running"


@pytest.mark.parametrize(
    ("number", "flags", "environ", "code"),
    [
        pytest.param(signal.SIGINT, (), {}, 130, id="interrupted"),
        pytest.param(signal.SIGTERM, (), {"CI": "true"}, 143, id="terminated in CI"),
        pytest.param(signal.SIGTERM, ("--on-interrupt", "stop"), {}, 143, id="terminated, by request"),
    ],
)
def test_it_stops_the_job(
    story: Story,
    number: signal.Signals,
    flags: tuple[str, ...],
    environ: dict[str, str],
    code: int,
) -> None:
    typed = story.start(*flags, **environ)
    typed.send(number)
    assert typed.code() == code
    assert story.phase() == "Terminated"


QUESTION = "stop, detach or continue? [s/d/c]"


@pytest.mark.parametrize(
    ("answer", "code", "phase"),
    [
        pytest.param("s\n", 130, "Terminated", id="stop"),
        pytest.param("d\n", 0, "Running", id="detach"),
        pytest.param("\x04", 130, "Running", id="end of input"),
        pytest.param("\x03", 130, "Running", id="a second interrupt"),
    ],
)
def test_on_a_terminal_it_asks(story: Story, answer: str, code: int, phase: str) -> None:
    typed = story.start(terminal=True)
    typed.send(signal.SIGINT)
    typed.until(QUESTION)
    if answer == "\x03":
        typed.send(signal.SIGINT)
    else:
        typed.type(answer)
    assert typed.code() == code
    assert story.phase() == phase
    assert (LEFT in typed.plain) == (phase == "Running")


def test_it_can_go_on(story: Story) -> None:
    typed = story.start(terminal=True)
    for answer in ("what\n", "c\n"):
        typed.send(signal.SIGINT) if answer[0] == "w" else None
        typed.until(QUESTION)
        typed.type(answer)
    eventually("it asks no more", lambda: typed.process.poll() is None)
    typed.send(signal.SIGQUIT)
    assert typed.code() == 0
    assert story.phase() == "Running"

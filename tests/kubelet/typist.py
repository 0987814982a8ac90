"""Types the same commands on this machine and on the cluster, and writes down what they say."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from tests.cluster.api import eventually
from tests.cluster.cluster import Cluster
from tests.patience import PATIENCE

PUMICE = str(Path(sys.executable).with_name("pumice"))
# What is written alike before it is compared: every run has its own.
ALIKE = (
    (re.compile(r"\b(train|serve):\d+"), r"\1"),  # runs of this machine have numbers
    (re.compile(r"\b(\d+h)?(\d+m)?\d+(\.\d+)?s\b"), "TIME"),
    (re.compile(r"\b(\d+h|\d+m)\b"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "DIGEST"),
    (re.compile(r"\b\d+ B\b"), "SIZE"),
    (re.compile(r"-(terminatejob|abortjob)-[0-9a-f]{6}\b"), r"-\1-NUMBER"),
    (re.compile(r"\bPATH=\S+"), "PATH=FOLDERS"),
    (re.compile(r" +"), " "),
)


@dataclass(slots=True)
class Typist:
    """`context` is empty for this machine."""

    folder: Path
    environ: dict[str, str]
    context: str = ""
    namespace: str = ""
    said: dict[str, list[str]] = field(default_factory=dict)  # by step

    @classmethod
    def here(cls, folder: Path) -> Typist:
        return cls(folder, _environ(folder))

    @classmethod
    def there(cls, folder: Path, cluster: Cluster, namespace: str) -> Typist:
        config = str(cluster.kubeconfig(namespace=namespace))
        return cls(folder, {**_environ(folder), "KUBECONFIG": config}, "admin", namespace)

    def argv(self, *words: str) -> list[str]:
        flags = ["--on", self.context] if self.context else []
        at = words.index("--") if "--" in words else len(words)
        return [PUMICE, *words[:at], *flags, *words[at:]]

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words),
            cwd=self.folder,
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def type(self, step: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command and write down what it prints, how it ends, and nothing that differs from run to run."""
        done = self.run(*words, stdin=stdin)
        self.note(step, done.returncode, done.stdout, done.stderr)
        return done

    def note(self, step: str, code: int | None, out: str, err: str = "") -> None:
        # Of lines that several pods print at the same time, any may be the first.
        lines = sorted(self.alike(out)) + self.alike(err) + ([] if code is None else [f"exit {code}"])
        self.said.setdefault(step, []).extend(lines)

    def alike(self, text: str) -> list[str]:
        text = text.replace(str(self.folder), "FOLDER").replace(f"admin/{self.namespace}", "admin/NAMESPACE")
        for pattern, word in ALIKE:
            text = pattern.sub(word, text)
        return [line.rstrip() for line in text.splitlines() if line.strip()]

    def until(self, text: str, *words: str, count: int = 1) -> str:
        """Repeat a command until its output has a text so many times, and return the output."""

        def ask() -> str:
            done = self.run(*words)
            return done.stdout if done.stdout.count(text) >= count else ""

        return eventually(f"{text!r} in `{' '.join(words)}`", ask)

    @contextmanager
    def started(self, *words: str) -> Iterator[Typed]:
        """Start a command. What still runs at the end is killed."""
        process = subprocess.Popen(
            self.argv(*words),
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        typed = Typed(process)
        try:
            yield typed
        finally:
            process.kill()
            typed.ended()

    def on_terminal(self, typed: str, *words: str, after: str) -> tuple[int, str]:
        """Run a command on a terminal of 30 x 90 characters, type a line once it has printed a text, and return all."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
        process = subprocess.Popen(
            self.argv(*words),
            cwd=self.folder,
            env=self.environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        guard = threading.Timer(PATIENCE, process.kill)
        guard.start()
        printed, is_typed = b"", False
        with suppress(OSError):  # the terminal has ended
            while piece := os.read(ours, 4096):
                printed += piece
                if not is_typed and after.encode() in printed:
                    is_typed = True
                    os.write(ours, f"{typed}\r".encode())
        os.close(ours)
        code = process.wait()
        guard.cancel()
        return code, printed.decode().replace("\r", "")


class Typed:
    """A command that runs. What it prints is read while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.out: list[str] = []
        self.err: list[str] = []
        self._news = threading.Condition()
        assert process.stdout is not None
        assert process.stderr is not None
        streams = ((process.stdout, self.out), (process.stderr, self.err))
        self._readers = [threading.Thread(target=self._read, args=each) for each in streams]
        for each in self._readers:
            each.start()

    def until(self, text: str) -> str:
        """Return the first line with this text, on either stream."""

        def found() -> str:
            return next((line for line in (*self.out, *self.err) if text in line), "")

        with self._news:
            assert self._news.wait_for(found, PATIENCE), f"{text!r} in {self.out} {self.err}"
        return found()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        code = self.process.wait(PATIENCE)
        for each in self._readers:
            each.join(PATIENCE)
        return code

    def _read(self, stream: TextIO, lines: list[str]) -> None:
        with stream:
            for line in stream:
                with self._news:
                    lines.append(line)
                    self._news.notify_all()


def _environ(folder: Path) -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": str(folder), "TERM": "dumb", "LANG": "C.UTF-8"}

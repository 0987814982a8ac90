"""Terminals for tests: what a person would see of what was written, and a program that runs on a real one."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.patience import PATIENCE

_PART = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\x1b.|\r|\n|[^\x1b\r\n]+")
_UNFINISHED = re.compile(r"\x1b(\[[0-9;]*)?$")


class SeenScreen:
    """As much of a terminal as is used: no scrolling, and lines of any length."""

    def __init__(self) -> None:
        self._lines: list[str] = [""]
        self._row = self._column = 0
        self._rest = ""
        self.moments: list[list[str]] = []  # what was seen after each piece of output

    def feed(self, text: str) -> None:
        text = self._rest + text
        # What is read may end in the middle of a sequence.
        cut = _UNFINISHED.search(text)
        self._rest = cut[0] if cut is not None else ""
        text = text.removesuffix(self._rest)
        for part in _PART.finditer(text):
            self._take(part)
        self.moments.append(self.lines)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._lines]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n")

    def _take(self, part: re.Match[str]) -> None:
        if part[0] == "\r":
            self._column = 0
        elif part[0] == "\n":
            self._row += 1
            self._lines += [""] * (self._row + 1 - len(self._lines))
        elif part[2] == "A":
            self._row -= int(part[1] or 1)
            assert self._row >= 0, "the cursor left the terminal"
        elif part[2] == "J":
            self._lines[self._row] = self._lines[self._row][: self._column]
            del self._lines[self._row + 1 :]
        elif part[2] is None:
            assert not part[0].startswith("\x1b"), f"unknown to this terminal: {part[0]!r}"
            line = self._lines[self._row].ljust(self._column)
            self._lines[self._row] = line[: self._column] + part[0] + line[self._column + len(part[0]) :]
            self._column += len(part[0])
        else:
            assert part[2] == "m", f"unknown to this terminal: {part[0]!r}"


class OnTerminal:
    """A program whose stdin, stdout and stderr are a terminal of its own."""

    def __init__(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], columns: int = 100) -> None:
        self.screen = SeenScreen()
        self.raw = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=far,
            stdout=far,
            stderr=far,
            start_new_session=True,
            # Only of the terminal that controls it does a session get signals for keys.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - nothing is locked that it needs
        )
        os.close(far)

    def read_until(self, words: str) -> None:
        """Until this is to be seen at this moment."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.screen.text:
            assert self._read(deadline - time.monotonic()), f"ended without {words!r}:\n{self.screen.text}"

    def read_to_end(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline - time.monotonic()):
            pass
        os.close(self._near)
        return self.process.wait(timeout=PATIENCE)

    def resize(self, lines: int, columns: int) -> None:
        """The program in the foreground gets SIGWINCH."""
        fcntl.ioctl(self._near, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def hang_up(self) -> int:
        """Close the terminal, as a user closes its window."""
        os.close(self._near)
        return self.process.wait(timeout=PATIENCE)

    def type(self, keys: bytes) -> None:
        os.write(self._near, keys)

    def _read(self, seconds: float) -> bool:
        waiting = select.poll()
        waiting.register(self._near, select.POLLIN)
        assert waiting.poll(max(seconds, 0) * 1000), f"nothing for too long:\n{self.screen.text}"
        try:
            data = os.read(self._near, 65536)
        except OSError:
            # How Linux tells that no process has the other end open any more.
            return False
        self.raw += data
        self.screen.feed(self._decoder.decode(data))
        return bool(data)

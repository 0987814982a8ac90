"""The terminal whose last lines stay in place."""

from __future__ import annotations

import io
import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from pumice.client.view.screen import Screen, clipped
from tests.unit.cli.screens import SeenScreen


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def _seen(out: io.StringIO) -> str:
    seen = SeenScreen()
    # A terminal goes to the beginning of the next line.
    seen.feed(out.getvalue().replace("\n", "\r\n"))
    return seen.text


def test_printed_lines_scroll_above_the_last_lines() -> None:
    out = _Tty()
    screen = Screen(out, out, out)
    screen.draw(["state 0"])
    screen.print(["one", "two"])
    screen.draw(["bar", "state 1"])
    screen.print(["three"], message=True)
    screen.draw(["state 2"])
    assert _seen(out) == "one\ntwo\nthree\nstate 2"
    screen.draw([])
    assert _seen(out) == "one\ntwo\nthree"


def test_unchanged_lines_are_not_drawn_again() -> None:
    out = _Tty()
    screen = Screen(out, out, out)
    screen.draw(["state"])
    before = out.getvalue()
    screen.draw(["state"])
    assert out.getvalue() == before


def test_a_last_line_never_wraps() -> None:
    out = _Tty()
    screen = Screen(out, out, out)
    screen.draw(["x" * 500])
    assert len(out.getvalue()) == screen.size()[0] - 1


@contextmanager
def _terminal() -> Iterator[TextIO]:
    near, far = pty.openpty()
    with os.fdopen(far, "w", encoding="utf-8") as stream:
        yield stream
    os.close(near)


@pytest.mark.parametrize(
    ("data", "live"),
    [
        pytest.param("terminal", True, id="terminal"),
        pytest.param("file", True, id="file"),
        pytest.param("pipe", False, id="pipe"),
    ],
)
def test_last_lines_are_drawn_unless_a_stream_is_a_pipe(
    data: str, live: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    reading, writing = os.pipe()
    with (
        _terminal() as terminal,
        (tmp_path / "out").open("w") as file,
        os.fdopen(writing, "w") as pipe,
        os.fdopen(reading),
    ):
        stream = {"terminal": terminal, "file": file, "pipe": pipe}[data]
        assert (Screen.of(stream, terminal).terminal is not None) is live
        # The other way round, where only the logs are on the terminal.
        assert (Screen.of(terminal, stream).terminal is not None) is live
        assert (Screen.of(stream, file).terminal is not None) is (data == "terminal")
        monkeypatch.setenv("TERM", "dumb")
        assert Screen.of(stream, terminal).terminal is None


@pytest.mark.parametrize("on_terminal", [True, False], ids=["terminal", "elsewhere"])
def test_log_lines_are_escaped_on_a_terminal_only(on_terminal: bool) -> None:
    out = _Tty() if on_terminal else io.StringIO()
    Screen(out, io.StringIO()).print(["\x1b[31mred\u202e", "\x1b]0;title\x07"])
    written = "\x1b[31mred\u202e\n\x1b]0;title\x07\n"
    assert out.getvalue() == ("\x1b[31mred\\u202e\x1b[0m\n\\x1b]0;title\\x07\n" if on_terminal else written)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("abcdef", "abcd", id="letters"),
        pytest.param("世界世界", "世界", id="wide letters"),
        pytest.param("a\u0301bcde", "a\u0301bcd", id="accents take no room"),
        pytest.param("\x1b[31mabcdef\x1b[0m", "\x1b[31mabcd\x1b[0m", id="colours take no room"),
        pytest.param("a\tb", "a   ", id="tabs take more"),
        pytest.param("ab", "ab", id="short"),
    ],
)
def test_clipped(text: str, shown: str) -> None:
    assert clipped(text, 4) == shown

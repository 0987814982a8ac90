"""The streams of the program on a terminal: text is shown, and only what the program marks is obeyed."""

from __future__ import annotations

import io
import re

import pytest

from pumice.client.view.output import ProgressLine, style_for
from pumice.client.view.screen import Screen
from pumice.client.view.terminal import Terminal
from tests.meta.tree import SOURCE, source_modules

# Modules that write what no Terminal escapes: it is their own, or checked, or not for a terminal.
PAST_THE_TERMINAL = {
    "cli/control/archives.py",  # an archive, which is refused on a terminal
    "cli/control/relay.py",  # what a command in a pod writes
    "cli/program.py",  # a message without any value
    "cli/runs/logs.py",  # log lines in a pipe
    "cli/runs/ps.py",  # the cursor
    "client/view/output.py",  # the cursor
    "client/view/screen.py",  # the cursor, and log lines after `escaped_log`
}


class _Device(io.BytesIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> _Device:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return _Device()


@pytest.fixture
def terminal(device: _Device) -> Terminal:
    return Terminal.in_place_of(io.TextIOWrapper(device, "utf-8", "surrogateescape", write_through=True))


def test_text_is_escaped_however_it_is_printed(terminal: Terminal, device: _Device) -> None:
    assert terminal.write("a\x1b[31m\r\n") == 8
    print("b\u202e", "c\x9b", sep="\t", file=terminal)
    terminal.writelines(["d\x07", "\n"])
    assert device.getvalue().decode() == "a\\x1b[31m\\r\nb\\u202e\tc\\u009b\nd\\x07\n"


def test_a_byte_that_is_not_utf8_is_escaped_whatever_the_stream_does_with_it(
    terminal: Terminal, device: _Device
) -> None:
    print(b"name\x9b".decode("utf-8", "surrogateescape"), file=terminal)
    assert device.getvalue() == b"name\\udc9b\n"


def test_only_colours_of_the_program_are_obeyed(terminal: Terminal, device: _Device) -> None:
    style = style_for(terminal)
    forged = ("\x1b[1;31mjob\x1b[0m", "\x1b[1;1;31mjob\x1b[1;0m")
    print(style.error(f"failed {forged[0]}"), forged[1], file=terminal)
    shown = [text.replace("\x1b", "\\x1b") for text in forged]
    assert device.getvalue().decode() == f"\x1b[1;31mfailed {shown[0]}\x1b[0m {shown[1]}\n"
    assert terminal.mark not in device.getvalue().decode()


def test_the_cursor_of_the_program_is_obeyed(terminal: Terminal, device: _Device) -> None:
    screen = Screen(terminal, terminal, terminal)
    screen.draw(["state\x1b[A"])
    screen.print(["\x1b[31mlog\x1b]0;t\x07"])
    screen.print(["\x1b[31mmessage"], message=True)
    line = ProgressLine(terminal)
    line.replace("50 %\x1b[A")
    line.end()
    assert device.getvalue().decode() == (
        "state\r\x1b[J\x1b[31mlog\\x1b]0;t\\x07\x1b[0m\n\\x1b[31mmessage\n\r\x1b[K50 %\\x1b[A\n"
    )


def test_the_stream_stays_what_it_was(device: _Device) -> None:
    stream = io.TextIOWrapper(device, "latin-1", "replace", line_buffering=True)
    stream.write("before ")
    terminal = Terminal.in_place_of(stream)
    terminal.write("é 中\n")
    assert (terminal.encoding, terminal.errors, terminal.isatty()) == ("latin-1", "replace", True)
    assert device.getvalue() == b"before \xe9 ?\n"


def test_no_other_module_writes_past_the_terminal() -> None:
    past = re.compile(r"\bwrite_own\(|\bstd(?:out|err)\.buffer\b|\bos\.write\(")
    packages = [SOURCE / name for name in ("cli", "client/view", "client/run_options")]
    modules = [each for each in source_modules() if any(each.is_relative_to(package) for package in packages)]
    found = {str(each.relative_to(SOURCE)) for each in modules if past.search(each.read_text())}
    assert found - {"client/view/terminal.py"} == PAST_THE_TERMINAL

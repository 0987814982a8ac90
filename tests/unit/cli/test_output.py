from __future__ import annotations

import io

import pytest

from pumice.cli.output import Style, fit, style_for, table


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours() -> None:
    style = Style(coloured=True)
    assert [style.bold("a"), style.warning("b")] == ["\x1b[1ma\x1b[0m", "\x1b[33mb\x1b[0m"]
    assert style.bold("") == ""


def test_no_colours() -> None:
    style = Style(coloured=False)
    assert style.bold("a") + style.warning("b") == "ab"


@pytest.mark.parametrize(
    ("stream", "env", "coloured"),
    [
        pytest.param(Screen(), {"TERM": "xterm"}, True, id="terminal"),
        pytest.param(io.StringIO(), {"TERM": "xterm"}, False, id="pipe"),
        pytest.param(Screen(), {"TERM": "xterm", "NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param(Screen(), {"TERM": "xterm", "NO_COLOR": ""}, True, id="empty NO_COLOR"),
        pytest.param(Screen(), {"TERM": "dumb"}, False, id="dumb terminal"),
    ],
)
def test_when_colours_are_used(
    stream: io.StringIO, env: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert style_for(stream) == Style(coloured)


def test_tables() -> None:
    assert table([("a", "bb", ""), ("ccc", "d", "e"), ("", "", "")], "  ") == ["  a    bb", "  ccc  d   e", ""]
    assert table([]) == []


def test_lines_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "  --port   23456   port that rank 0 listens on"
    monkeypatch.delenv("COLUMNS", raising=False)
    assert [fit(line, stream) for stream in (io.StringIO(), Screen())] == [line, line]
    monkeypatch.setenv("COLUMNS", "30")
    assert fit(line, io.StringIO()) == line
    assert fit(line, Screen()) == "  --port   23456   port that\n      rank 0 listens on"
    assert fit("short", Screen()) == "short"
    monkeypatch.setenv("COLUMNS", "no number")
    assert fit(line, Screen()) == line

from __future__ import annotations

import io

import pytest

from pumice.client.view.output import ProgressLine, Style, broken, fit, style_for, table, visible


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
    assert fit(line, Screen()) == "  --port   23456   port that\n           rank 0 listens on"
    assert fit("short", Screen()) == "short"
    monkeypatch.setenv("COLUMNS", "no number")
    assert fit(line, Screen()) == line


@pytest.mark.parametrize(
    ("line", "width", "lines"),
    [
        pytest.param("a b c", 5, ["a b c"], id="fits"),
        pytest.param("aaa bbb ccc", 7, ["aaa bbb", "    ccc"], id="between words"),
        pytest.param("  aaa bbb ccc", 9, ["  aaa bbb", "      ccc"], id="indented more than the first line"),
        pytest.param("0.3s  worker-1 failed", 14, ["0.3s  worker-1", "      failed"], id="below the text of a label"),
        pytest.param("aaaaaaaaaa bbbbbbbbbb", 5, ["aaaaaaaaaa", "    bbbbbbbbbb"], id="a word is never cut"),
        pytest.param("\x1b[1maa\x1b[0m bb", 5, ["\x1b[1maa\x1b[0m bb"], id="colours take no columns"),
        pytest.param("工作 工作", 8, ["工作", "    工作"], id="characters of two columns"),
        pytest.param("aaa bbb", None, ["aaa bbb"], id="no terminal"),
    ],
)
def test_lines_are_broken_between_words(line: str, width: int | None, lines: list[str]) -> None:
    assert broken(line, width) == lines


def test_columns_of_a_text() -> None:
    assert [visible(text) for text in ("abc", "\x1b[1;31mab\x1b[0m", "工作", "e\u0301")] == [3, 2, 4, 1]


def test_the_last_column_of_a_narrow_table_is_broken() -> None:
    rows = [("--port", "int", "port that rank 0 listens on"), ("--x", "string", "-")]
    assert table(rows, "  ", 37) == [
        "  --port  int     port that rank 0",
        "                  listens on",
        "  --x     string  -",
    ]


def test_a_long_cell_widens_its_own_row_only() -> None:
    rows = [("name", "a-very-long-value-of-30-columns", "where it is from"), ("b", "2", "why")]
    assert table(rows, "", 40) == [
        "name  a-very-long-value-of-30-columns",
        "      where it is from",
        "b     2  why",
    ]


def test_progress_is_one_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "10")
    stream = Screen()
    line = ProgressLine(stream)
    line.print("begin")
    line.replace("one")
    line.replace("two, and too long")
    line.print("end")
    line.end()
    assert stream.getvalue() == "begin\n\r\x1b[Kone\r\x1b[Ktwo, and \nend\n"
    assert line.interval < 1


@pytest.mark.parametrize("stream", [pytest.param(io.StringIO(), id="pipe"), pytest.param(Screen(), id="dumb terminal")])
def test_progress_is_a_line_each_second_elsewhere(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    line = ProgressLine(stream)
    line.replace("one")
    line.replace("two")
    line.end()
    assert stream.getvalue() == "one\ntwo\n"
    assert line.interval == 1

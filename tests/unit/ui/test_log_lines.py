"""The drawing of log lines: colours, hidden characters, matches, folds."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from msgspec.structs import replace

from pumice.ui.detail_values import LogFilter, LogLine, LogWindow
from pumice.ui.pages import draw_lines
from pumice.ui.values import TaskPods

BEGIN = dt.datetime(2026, 9, 18, 12, tzinfo=dt.UTC)
TASKS = (TaskPods(name="master", total=1), TaskPods(name="worker", total=2))


LINE = LogLine(
    number=7,
    seq=7,
    time=BEGIN,
    pod="worker-1",
    task="worker",
    container="main",
    stream="stdout",
    text="x",
    attempt=1,
)


def drawn(line: LogLine, q: str = "") -> str:
    window = LogWindow(filter=LogFilter(), total=9, errors=0, at=7, items=(line,), begin=BEGIN, first_error=3)
    found = draw_lines(window, TASKS, q)
    assert found.items == ()
    assert isinstance(found.html, str)
    return found.html


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("tab\tand  spaces ", "tab\tand  spaces ", id="spaces"),
        pytest.param("<b>&", "&lt;b&gt;&amp;", id="markup"),
        pytest.param(
            "\x1b[1;31mred\x1b[22m light\x1b[39m plain\x1b[96mcyan\x1b[0m",
            '<span class="a-b a-c1">red</span><span class="a-c1"> light</span> plain<span class="a-c6">cyan</span>',
            id="colours",
        ),
        pytest.param("\x1b[38;5;208mby number\x1b[m", "by number", id="colour by number"),
        pytest.param("\x1b[K\x00\x9b", "<c>ESC</c>[K<c>NUL</c><c>U+009B</c>", id="control characters"),
        pytest.param("\u202e é 漢字", "<c>U+202E</c> é 漢字", id="direction"),
        pytest.param("a needle, a NEEDLE", "a <mark>needle</mark>, a <mark>NEEDLE</mark>", id="matches"),
        pytest.param("\x1b[32mneedles\x1b[0m", '<span class="a-c2"><mark>needle</mark>s</span>', id="coloured match"),
    ],
)
def test_text(text: str, message: str) -> None:
    html = drawn(replace(LINE, text=text), "needle")
    found = re.search('<span class="msg">(.*)</span></div>', html, re.DOTALL)
    assert found is not None
    assert found[1] == re.sub("<c>(.*?)</c>", r'<span class="ctl">\1</span>', message)


def test_a_line_that_repeats_its_colours_stays_short() -> None:
    assert len(drawn(replace(LINE, text="\x1b[1;2mx" * 1000))) < 100_000


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        pytest.param({}, '<div class="ln t2" data-n="7" data-task="worker"><span class="gm"></span>', id="line"),
        pytest.param({"error": True}, '<div class="ln t2 err" data-n="7"', id="error"),
        pytest.param({"stream": "stderr"}, '<span class="gm">err</span>', id="stderr"),
        pytest.param({"number": 3}, '<div class="ln t2 first" data-n="3" data-task="worker" id="first">', id="first"),
        pytest.param({"kind": "pod", "pod": ""}, '<div class="ln sys t6" data-n="7">', id="of Pumice"),
        pytest.param({"kind": "gap"}, '<div class="trunc" data-n="7">x</div>', id="gap"),
        pytest.param({"cut": 9000}, 'data-whole="7">9,000 bytes, folded · show</button>', id="cut"),
        pytest.param({"redraws": 2}, 'data-whole="7">2 redraws folded · show</button>', id="redraws"),
        pytest.param({"time": BEGIN + dt.timedelta(seconds=75.5)}, ">1:15.5</span>", id="time"),
    ],
)
def test_row(fields: dict[str, object], part: str) -> None:
    assert part in drawn(replace(LINE, **fields))

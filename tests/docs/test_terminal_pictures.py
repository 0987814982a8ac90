"""The terminal pictures show what the commands print today, fit their frame and can be read in light and dark."""

from __future__ import annotations

import os
import re

import pytest

from scripts.frameworks import find
from scripts.terminal import show
from scripts.terminal_pictures import IMAGES, PICTURES, Picture, comparable, drawn
from scripts.terminal_svg import svg, text
from tests.conftest import IN_CI
from tests.docs.markdown import pages
from tests.local.sandbox.boxes import need_namespaces
from tests.meta.tree import ROOT


def _named(picture: Picture) -> str:
    return picture.name


# Training takes longest, and tests/local/test_examples.py runs the same file.
DRAWN = [
    pytest.param(picture, id=picture.name, marks=[pytest.mark.soak] if picture.framework else [])
    for picture in PICTURES
]


@pytest.mark.parametrize("picture", DRAWN)
def test_a_picture_shows_what_the_command_prints(picture: Picture) -> None:
    need_namespaces()
    if picture.framework is not None and find(picture.framework, os.environ, ROOT) is None:
        (pytest.fail if IN_CI else pytest.skip)(f"no {picture.framework.name}: make examples fetches it")
    shown = picture.file.read_text(encoding="utf-8")
    assert comparable(text(drawn(picture, os.environ))) == comparable(text(shown)), "make pictures"


@pytest.mark.parametrize("picture", PICTURES, ids=_named)
def test_a_picture_fits_its_frame(picture: Picture) -> None:
    shown = picture.file.read_text(encoding="utf-8")
    lines = re.findall(r'<text[^>]* x="(\d+)" y="(\d+)"[^>]*>(.*)</text>', shown)
    [(width, height)] = re.findall(r'viewBox="0 0 (\d+) (\d+)"', shown)
    # The widest of the usual fonts is 0.602 em wide; the letters are 14 pixels high.
    for x, y, content in lines:
        characters = len(re.sub(r"<[^>]*>|&\w+;", "", content)) + len(re.findall(r"&\w+;", content))
        assert characters <= picture.columns
        assert int(x) + characters * 0.602 * 14 < int(width)
        assert 14 < int(y) < int(height)
    assert text(shown)[0] == f"$ {picture.command}"


@pytest.mark.parametrize("picture", PICTURES, ids=_named)
def test_every_colour_of_a_picture_is_defined_for_light_and_dark(picture: Picture) -> None:
    shown = picture.file.read_text(encoding="utf-8")
    light, dark = shown.partition("</style>")[0].split("@media (prefers-color-scheme: dark)")
    used = {code for codes in re.findall(r'<tspan class="([^"]+)"', shown) for code in codes.split()}
    assert used
    for code in used - {"c1", "c2"}:
        assert f".{code} {{" in light
        assert f".{code} {{" in dark


def test_every_picture_is_on_a_page_and_has_a_script() -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in pages())
    assert {file.stem for file in IMAGES.glob("*.svg")} == {picture.name for picture in PICTURES}
    assert [picture.name for picture in PICTURES if f"images/{picture.file.name})" not in shown] == []


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        pytest.param("one\r\ntwo\r\n", ["one", "two"], id="lines"),
        pytest.param("abcdefghijkl", ["abcdefghij", "kl"], id="a long line continues"),
        pytest.param("abcdefghij\r\nk", ["abcdefghij", "k"], id="a full line does not"),
        pytest.param("up\r\nstate\r\x1b[Jlog\r\nstate 2\r\x1b[J", ["up", "log"], id="a line that is redrawn"),
        pytest.param("a\r\nb\r\x1b[1A\x1b[Jc", ["c"], id="several lines that are redrawn"),
    ],
)
def test_what_a_terminal_shows(written: str, lines: list[str]) -> None:
    assert [line.text for line in show(written, 10)] == lines


def test_an_unknown_sequence_is_an_error() -> None:
    with pytest.raises(ValueError, match="2K"):
        show("\x1b[2K", 80)


def test_the_text_of_a_picture_is_what_was_written() -> None:
    written = ["\x1b[1;31mworker-0\x1b[0m  <a> & b", "", "  a line that is longer than the terminal"]
    picture = svg("a title", show("\r\n".join(written), 20), 20)
    assert text(picture) == ["worker-0  <a> & b", "", written[2]]
    assert '<tspan class="c1 c31">worker-0</tspan>' in picture


def test_what_differs_from_run_to_run_is_left_out() -> None:
    first = "1.2s  Running    1/3", "worker-0  a", "1.9s  Running    3/3", "worker-1  b", "9.1s  Completed  3 succeeded"
    other = "0.2s  Running    3/3", "worker-1  b", "worker-0  a", "1m02s Completed  1 succeeded, 2 ended by CompleteJob"
    assert comparable(first) == comparable(other)
    assert comparable(["worker-0  a", "worker-0  b"]) != comparable(["worker-0  b", "worker-0  a"])

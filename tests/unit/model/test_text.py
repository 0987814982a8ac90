from __future__ import annotations

import json

import pytest

from pumice.model.text import escaped, escaped_log, listed, printable, shown_words, some


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param(["a"], "a", id="one"),
        pytest.param(["a", "b"], "a or b", id="two"),
        pytest.param(["a", "b", "c"], "a, b or c", id="three"),
    ],
)
def test_listed(words: list[str], text: str) -> None:
    assert listed(words) == text


def test_listed_with_another_conjunction() -> None:
    assert listed(("a", "b", "c"), "and") == "a, b and c"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        pytest.param(0, "", id="none"),
        pytest.param(2, "0|1", id="few"),
        pytest.param(12, "0|1|2|3|4|5|6|7|8|9|10|11", id="as many as are shown"),
        pytest.param(13, "0|1|2|3|4|5|6|7|8|9|10|...", id="many"),
    ],
)
def test_some(count: int, text: str) -> None:
    assert some([str(number) for number in range(count)], "|") == text


def test_some_of_a_sentence() -> None:
    assert some(["a", "b"]) == "a, b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("日本 a", "日本 a", id="as it is"),
        pytest.param("\n\x1b[1m\t\udcff", "\\n\\x1b[1m\\t\\udcff", id="control characters"),
        pytest.param("abcdefgh", "abcdefgh", id="just fits"),
        pytest.param("abcdefghi", "abcde...", id="too long"),
        pytest.param("\nbcdefghi", "\\nbcde...", id="too long and not to be shown"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text, 8) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\0\a\b\r\x1b\x1f", r"\x00\x07\x08\r\x1b\x1f", id="below the space"),
        pytest.param("\x1b]52;c;aGk=\a", r"\x1b]52;c;aGk=\x07", id="clipboard"),
        pytest.param("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m", id="colour"),
        pytest.param("\x7f\x80\x85\x9b\x9f", r"\u007f\u0080\u0085\u009b\u009f", id="DEL and C1"),
        pytest.param("\u061c\u200e\u200f\u202a\u202e", r"\u061c\u200e\u200f\u202a\u202e", id="direction"),
        pytest.param("\u2066\u2069\u206a\u206f", r"\u2066\u2069\u206a\u206f", id="isolated direction, old controls"),
        pytest.param("\u2028\u2029", r"\u2028\u2029", id="ends of lines"),
        pytest.param("\u00ad\u200b\u2060\ufeff", r"\u00ad\u200b\u2060\ufeff", id="invisible"),
        pytest.param("\ufff9\ufffb", r"\ufff9\ufffb", id="annotations"),
        pytest.param("\U000e0041", r"\udb40\udc41", id="tag"),
        pytest.param("\udc9b", r"\udc9b", id="a byte that is not UTF-8"),
        pytest.param("训练\u3000é ไทย می\u200cشد", "训练\u3000é ไทย می\u200cشد", id="other scripts"),
        pytest.param("👩\u200d🚀 ✈\ufe0f \U000e0100", "👩\u200d🚀 ✈\ufe0f \U000e0100", id="emoji"),
    ],
)
def test_hidden_characters_are_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown
    assert escaped(f"a\n\t{text}", lines=True) == f"a\n\t{shown}"
    assert escaped("a\n\tb") == r"a\n\tb"
    # JSON escapes what is below the space; with the rest escaped it is the same data.
    assert json.loads(escaped(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain text", "plain text", id="plain"),
        pytest.param("with\ta tab", "with\ta tab", id="tab"),
        pytest.param("\x1b[31mred", "\x1b[31mred\x1b[0m", id="colour left on"),
        pytest.param("\x1b[31mred\x1b[0m.", "\x1b[31mred\x1b[0m.", id="colour"),
        pytest.param("\x1b[38;5;208mred\x1b[m", "\x1b[38;5;208mred\x1b[m", id="the short end of a colour"),
        pytest.param("\x1b[01m\x1b[Kerror:\x1b[m\x1b[K", "\x1b[01merror:\x1b[m", id="compiler"),
        pytest.param("\x1b[A\x1b[2K\x1b[?25l50 %", "50 %", id="progress bar"),
        pytest.param("\x1b[2J\x1b[Hgone", "gone", id="clear screen"),
        pytest.param("\x1b\x1b[2J]0;title\x07", r"\x1b]0;title\x07", id="nothing new arises"),
        pytest.param("\x1b[3\x1b[2J1m", r"\x1b[31m", id="no colour arises"),
        pytest.param("\x1b]0;title\x07x", r"\x1b]0;title\x07x", id="title"),
        pytest.param("\x1bP+q\x1b\\", r"\x1bP+q\x1b" + "\\", id="device control"),
        pytest.param("\x1bcx", r"\x1bcx", id="reset"),
        pytest.param("a\x07\x08\rb\x9b31m\x7f", r"a\x07\x08\rb\u009b31m\u007f", id="controls"),
        pytest.param("\x1b[>4;2m", "", id="keys of xterm"),
        pytest.param("\u202egpj.exe\u2028", r"\u202egpj.exe\u2028", id="direction and end of line"),
        pytest.param("tail\x1b[3", r"tail\x1b[3", id="cut off"),
    ],
)
def test_log_lines_keep_their_colours(text: str, shown: str) -> None:
    assert escaped_log(text) == shown


def test_arguments_are_shown_as_they_are_typed() -> None:
    assert shown_words(["--name", "a b", "--api-key", "***", "--token=***"]) == "--name 'a b' --api-key *** --token=***"

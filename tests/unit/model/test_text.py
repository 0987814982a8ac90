from __future__ import annotations

import pytest

from pumice.model.text import listed, printable, some


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

from __future__ import annotations

import pytest

from pumice.diagnosis.code_change import CodeChange, code_change_text, code_change_words


@pytest.mark.parametrize(
    ("files", "count", "text"),
    [
        (("train.py",), 1, "train.py"),
        (("a", "b", "c"), 3, "a, b, c"),
        (("a", "b", "c", "d"), 25, "a, b, c, 22 more"),
    ],
)
def test_names_some_files_and_counts_the_others(files: tuple[str, ...], count: int, text: str) -> None:
    change = CodeChange(files=files, count=count)
    assert code_change_text(change) == f"code changed since it was submitted: {text}"
    assert code_change_words(change) == f"changed since it was submitted: {text}"


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ((), "there was no time to compare all of the code with what was submitted"),
        (("a",), "code changed since it was submitted: a; there was no time to compare all of the code with what was"),
    ],
)
def test_says_that_not_all_was_compared(files: tuple[str, ...], text: str) -> None:
    change = CodeChange(files=files, count=len(files), is_complete=False)
    assert code_change_text(change).startswith(text)

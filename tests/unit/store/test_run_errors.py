"""Errors of runs as text: what they quote of a Job begins no line of its own."""

from __future__ import annotations

import pytest

from pumice.model.problem import Position, Problem
from pumice.store.run_errors import Denied, DoesNotFit, RunError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(Denied("no"), "no", id="message"),
        pytest.param(Denied("a\nb: no", "c\nd", Position("f\n")), "f\\n: a\\nb: no\n  hint: c\\nd", id="quoted lines"),
        pytest.param(Denied("\x1b[2J \u202e"), "\\x1b[2J \\u202e", id="hidden characters"),
        pytest.param(Denied.of([Problem("a", "b"), Problem("c")]), "a\n  hint: b\nc", id="several problems"),
        pytest.param(DoesNotFit("a\n  b\x1b", "c\nd"), "a\n  b\\x1b\n  hint: c\\nd", id="lines of a table"),
    ],
)
def test_text(error: RunError, text: str) -> None:
    assert str(error) == text

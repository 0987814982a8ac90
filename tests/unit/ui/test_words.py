"""Times on the page."""

from __future__ import annotations

import pytest

from pumice.model.units import elapsed_text
from pumice.ui.words import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(-1, "0.0 s", id="a clock that was set back"),
        pytest.param(59.99, "59.9 s", id="not yet a minute"),
        pytest.param(60, "1 m 00 s", id="a minute"),
        pytest.param(190.958, "3 m 10 s", id="minutes"),
        pytest.param(7199.9, "1 h 59 m", id="hours"),
        pytest.param(86400, "1 d 0 h", id="days"),
    ],
)
def test_a_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("seconds", [0, 0.04, 9.96, 59.94, 59.96, 119.6, 3599.7, 86399.9])
def test_it_is_that_of_a_terminal(seconds: float) -> None:
    assert duration(seconds).replace(" ", "") == elapsed_text(seconds)

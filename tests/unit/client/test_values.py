"""How a run ended, in a terminal and in a notebook."""

from __future__ import annotations

import datetime as dt

import pytest
from msgspec.structs import replace

from pumice.client.values import result_of
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.verdict import plain_verdict
from tests.unit.client.statuses import NOW, a_status
from tests.unit.notebook_cells import ESCAPED, HOSTILE, shown

SUCCEEDED = result_of(
    a_status(outcome=Outcome.SUCCEEDED, attempt=1, exit_code=0, finished=NOW + dt.timedelta(seconds=12), directory="/r")
)
FAILED = result_of(
    a_status(
        outcome=Outcome.FAILED,
        exit_code=1,
        verdict=replace(plain_verdict("", ""), text=f"w-0 failed first: \x1b[2Jcode 1\n  last line  {HOSTILE}"),
    )
)
SUSPENDED = result_of(a_status(outcome=Outcome.SUSPENDED, attempt=1, started=None, message="by ada"))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        pytest.param(SUCCEEDED, "<Result ddp:1 Succeeded>", id="succeeded"),
        pytest.param(FAILED, "<Result ddp:1 Failed: w-0 failed first: \\x1b[2Jcode 1>", id="only the first line"),
        pytest.param(SUSPENDED, "<Result ddp:1 Suspended: by ada>", id="suspended"),
    ],
)
def test_a_result_is_one_line_in_a_terminal(result: object, text: str) -> None:
    assert repr(result) == text


def test_a_result_in_a_notebook_says_how_the_run_ended() -> None:
    assert shown(SUCCEEDED._repr_html_()) == "ddp:1\n Succeeded · exit code 0 · in 12.0s\nlogs: /r\n"
    failed = shown(FAILED._repr_html_())
    assert failed.startswith("ddp:1\n Failed · exit code 1 · 2 attempts\nw-0 failed first")
    assert ESCAPED in failed
    assert shown(SUSPENDED._repr_html_()) == "ddp:1\n Suspended\nby ada\n"

"""The log lines of the controller and the webhook: one for each record, whatever it quotes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from pumice.engines.kubernetes.controller.logging import set_up

HOSTILE = "a\nb \x1b]0;t\x07 \u202e中"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_a_line_of_text_has_no_hidden_characters(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("info", "text")
    logging.getLogger("x").warning("job %s", HOSTILE)
    assert capsys.readouterr().err.partition(" ")[2] == "WARNING job a\\nb \\x1b]0;t\\x07 \\u202e中\n"


def test_json_has_the_message_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("info", "json")
    logging.getLogger("x").warning("job %s", HOSTILE)
    assert json.loads(capsys.readouterr().err)["message"] == f"job {HOSTILE}"

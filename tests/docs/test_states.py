from __future__ import annotations

import pytest

from pumice.model.vocabulary import Phase
from pumice.reconcile.phases import ELSE, TABLE
from scripts import states

TEXT = states.PAGE.read_text(encoding="utf-8") if states.PAGE.is_file() else ""


def test_the_page_is_current() -> None:
    assert states.states_page() == TEXT, "docs/states.md is out of date: make docs"


@pytest.mark.parametrize("phase", Phase)
def test_the_page_lists_every_phase_and_its_actions(phase: Phase) -> None:
    assert set(states.ABOUT) == set(Phase)
    rows = [line for line in TEXT.splitlines() if line.startswith(f"| {phase} |")]
    for action in TABLE[phase]:
        if action is not ELSE:
            assert any(f"`{action}`" in row for row in rows)


def test_the_page_lists_the_rules_of_the_table() -> None:
    assert "\n1. Every phase handles every action" in TEXT
    assert "\n3. Completed, Failed and Terminated are final" in TEXT

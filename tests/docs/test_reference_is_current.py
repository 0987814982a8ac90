from __future__ import annotations

from pathlib import Path

import pytest

from pumice.cli.main import COMMANDS
from pumice.plugins.base import Base
from pumice.plugins.registry import BUILTINS
from scripts import docs
from tests.meta.tree import ROOT, shown

PAGES = docs.reference()


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_page_is_what_the_code_gives(page: Path) -> None:
    assert page.is_file(), f"{shown(page)} is missing: make docs"
    assert page.read_text(encoding="utf-8") == PAGES[page], f"{shown(page)} is out of date: make docs"


def test_there_is_no_page_of_something_that_is_gone() -> None:
    reference = ROOT / "docs" / "reference"
    assert sorted(reference.rglob("*.md")) == sorted(page for page in PAGES if page.is_relative_to(reference))


def test_the_pages_are_made_the_same_every_time() -> None:
    assert docs.reference() == PAGES


@pytest.mark.parametrize("plugin", BUILTINS.values(), ids=lambda plugin: plugin.name)
def test_a_plugins_page_names_every_argument(plugin: type[Base]) -> None:
    text = PAGES[ROOT / "docs" / "reference" / "plugins" / f"{plugin.name}.md"]
    for option in plugin.options():
        assert f"| `--{option.flag}` |" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_section(command: str) -> None:
    assert f"## pumice {command}\n" in PAGES[ROOT / "docs" / "reference" / "commands.md"]

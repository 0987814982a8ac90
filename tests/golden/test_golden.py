"""What commands, the page and its endpoints show of recorded runs is what they showed before. README.md has more."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import NamedTuple

import pytest

from pumice.cli.main import COMMANDS
from tests.golden.changes import changed, read_rows, report
from tests.golden.collect import NOT_ASKED, gather
from tests.golden.commands import LEFT_OUT
from tests.golden.recording import STORIES
from tests.golden.sections import EXPECTED, read_goldens
from tests.golden.store_archive import STORES, members
from tests.meta.test_tree import FORBIDDEN

RECORDED = read_goldens()
WANTED, UNUSED = changed(RECORDED, read_rows())
HOST_NAME = re.escape(socket.gethostname())
SIZE = 2 << 20  # bytes of all stores


class Shown(NamedTuple):
    """Everything that is shown now, and the routes of the page that were not asked."""

    goldens: dict[str, dict[str, str]]
    not_asked: str


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    folder = tmp_path_factory.mktemp("shown")
    gather(folder)
    return Shown(read_goldens(folder), (folder / NOT_ASKED).read_text())


@pytest.mark.parametrize("golden", RECORDED)
def test_shows_what_it_showed(golden: str, shown: Shown) -> None:
    actual = shown.goldens.get(golden, {})
    if actual != WANTED[golden]:
        pytest.fail(report(golden, WANTED[golden], actual), pytrace=False)


def test_everything_that_is_shown_is_recorded(shown: Shown) -> None:
    assert list(shown.goldens) == list(RECORDED), "python -m tests.golden.record new"


def test_every_row_of_the_table_changes_something() -> None:
    assert UNUSED == []


def test_every_route_of_the_page_has_a_golden(shown: Shown) -> None:
    assert shown.not_asked == ""


def test_every_command_that_shows_runs_has_a_golden() -> None:
    shown = {title.split()[2] for sections in RECORDED.values() for title in sections if title.startswith("$ pumice ")}
    left_out = [name for name in COMMANDS if name not in shown]
    assert sorted(left_out) == sorted(LEFT_OUT), "tests/golden/commands.py has the commands, and why some are left out"


def test_every_story_is_recorded() -> None:
    assert sorted(path.name for path in STORES.iterdir()) == sorted(f"{story.name}.tar.gz" for story in STORIES)
    assert sum(path.stat().st_size for path in STORES.iterdir()) < SIZE


@pytest.mark.parametrize("story", [story.name for story in STORIES])
def test_a_recorded_store_names_no_machine(story: str) -> None:
    """Git shows nobody what is in an archive."""
    # Root's keys are at the same path in pods.
    own = (rf"{Path.home()}(?!/\.ssh)", rf'hosts/{HOST_NAME}/|"host":"{HOST_NAME}"', "/tmp/|/var/")
    pattern = re.compile("|".join((*own, *(each.pattern for each in FORBIDDEN.values()))))
    files = members(STORES / f"{story}.tar.gz")
    assert [name for name, content in files if pattern.search(f"{name}\n{content.decode(errors='replace')}")] == []


def test_goldens_are_small() -> None:
    assert sum(path.stat().st_size for path in EXPECTED.rglob("*.txt")) < 4 << 20

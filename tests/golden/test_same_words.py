"""The terminal, its JSON, the endpoints and the page say the same about each recorded run.

This compares goldens with each other; that they are what is shown, `test_golden.py` tests.
"""

from __future__ import annotations

import html
import json
import re
from functools import cache
from typing import Any

import pytest

from pumice.model.units import elapsed_text
from tests.golden.changes import changed, read_rows
from tests.golden.sections import read_goldens

_STORIES = 30


@cache
def _goldens() -> dict[str, dict[str, str]]:
    return changed(read_goldens(), read_rows())[0]


def _runs() -> list[tuple[str, str]]:
    """Return the story and the name of each run of which all surfaces show something."""
    found = []
    for name, sections in _goldens().items():
        surface, _, story = name.partition("/")
        titles = [title for title in sections if surface == "api" and re.fullmatch(r"GET /api/jobs/[\w:-]+", title)]
        runs = [title.removeprefix("GET /api/jobs/") for title in titles]
        found += [(story, run) for run in runs if f"$ pumice why {run} -o json" in _goldens().get(f"cli/{story}", {})]
    return found


@pytest.mark.parametrize(("story", "run"), _runs(), ids=lambda value: value if ":" in value else "")
def test_all_surfaces_say_the_same(story: str, run: str) -> None:
    cli, api, page = (_goldens()[f"{surface}/{story}"] for surface in ("cli", "api", "page"))
    why = json.loads(cli[f"$ pumice why {run} -o json"])
    job = json.loads(api[f"GET /api/jobs/{run}"])
    assert why["outcome"] == job["outcome"]
    _assert_same_attempts(cli.get(f"$ pumice history {run}", ""), job["attempts"])
    verdict = why["verdict"]
    if why["outcome"] == "Succeeded":
        _assert_same_successes(cli, job, page.get(f"GET /jobs/{run}", ""), run)
    if verdict is None:
        return
    assert job["verdict"] == verdict
    assert cli[f"$ pumice why {run}"].rstrip("\n") == verdict["text"]
    heading, *rows = verdict["text"].splitlines()
    shown = html.unescape(" ".join(re.sub("<[^>]+>", " ", page.get(f"GET /jobs/{run}", heading)).split()))
    assert " ".join(heading.split()) in shown
    for row in rows if f"GET /jobs/{run}" in page else ():
        if row.startswith(("  cause ", "  last line ", "  next ")):
            assert " ".join(row[16:].split()) in shown, row


def _assert_same_attempts(history: str, attempts: list[dict[str, Any]]) -> None:
    """How long each attempt took that has ended."""
    took = dict(re.findall(r"^(\d+) +(\S+)", history, re.MULTILINE))
    ran = {str(each["number"]): elapsed_text(each["ran"]) for each in attempts if each["ran"] is not None}
    assert {number: took.get(number) for number in ran if took} == (ran if took else {})


def _assert_same_successes(cli: dict[str, str], job: dict[str, Any], page: str, run: str) -> None:
    """How many pods succeeded, as `why`, `get`, `replay`, the endpoints and the page say it."""
    said = re.match(rf"{run} Succeeded: (\d+) pods? succeeded", cli[f"$ pumice why {run}"])
    assert said is not None
    replayed = re.findall(r"^\S+ +Completed +in \S+: (\d+) succeeded", cli[f"$ pumice replay {run}"], re.MULTILINE)
    shown = re.findall(r"<h2>(\d+) succeeded", page) if page else [said[1]]
    of_run = re.search(r"^run:\n(?:  .*\n)*?    succeeded: (\d+)$", cli[f"$ pumice get {run}"], re.MULTILINE)
    assert of_run is not None
    assert [of_run[1], *replayed[-1:], *re.findall(r"^\d+", job["text"]), *shown[-1:]] == [said[1]] * 4


def test_there_are_enough_stories() -> None:
    assert len({story for story, _ in _runs()}) >= _STORIES

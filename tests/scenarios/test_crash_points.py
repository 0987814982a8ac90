"""The controller dies after one of its calls, each in turn: the job ends as if nothing had happened.

`make test` tries every sixth call, from one that the seed chooses; `make soak` tries all.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import SOAK, seed
from tests.scenarios.crash_stories import STORIES, Story
from tests.scenarios.driver import Driver
from tests.scenarios.rest import check_rest


def outcome(driver: Driver) -> dict[str, object]:
    """All that a user could tell apart; events are best effort and may be missing."""
    driver.come_to_rest()
    if not driver.is_there:
        return {"pods": driver.pods, "objects": driver.world.objects}
    status, ledger = driver.status, driver.ledger
    return {
        "state": status.state,
        "conditions": status.conditions,
        "phases": phases(driver),
        "retryCount": status.retry_count,
        "version": status.version,
        "spent": (ledger.spent, ledger.restarts_by_task),
        "counts": status.task_status_count,
        "succeeded": ledger.succeeded,
        "pods": {stored.seen.short_name: str(stored.seen.phase) for stored in driver.pods},
        "objects": sorted(driver.world.objects.get(driver.key, {})),
        "group": driver.key in driver.world.groups,
        "claims": sorted(driver.world.claims),
        "commands": driver.world.commands.get(driver.key, {}),
    }


def phases(driver: Driver) -> list[str]:
    """The phases in their order, each time that one was entered."""
    entered: list[str] = []
    for status in driver.engine.history:
        if not entered or entered[-1] != status.state.phase:
            entered.append(status.state.phase)
    return entered


def played(story: Story, crash_after: int | None = None) -> Driver:
    driver = Driver(story.document, slow=story.slow)
    driver.crash_after = crash_after
    return story.record(driver)


@pytest.mark.parametrize("story", [pytest.param(story, id=story.name) for story in STORIES])
def test_a_crash_at_any_point_changes_nothing(story: Story, record_property: Callable[[str, object], None]) -> None:
    uncut = played(story)
    calls, made = uncut.engine.calls, uncut.engine.created
    expected = outcome(uncut)
    assert (uncut.phase if uncut.is_there else "") == story.ends
    check_rest(uncut)
    cuts = range(0 if SOAK else seed() % 6, calls, 1 if SOAK else 6)
    for cut in cuts:
        driver = played(story, crash_after=cut)
        assert driver.crashes == 1, cut
        assert driver.engine.created == made, f"cut after call {cut + 1}"
        assert outcome(driver) == expected, f"cut after call {cut + 1}"
        check_rest(driver)
    record_property("crash points", len(cuts))


def test_there_are_enough_stories() -> None:
    assert len(STORIES) >= 15
    assert {story.ends for story in STORIES} == {"Completed", "Failed", "Terminated", "Aborted", ""}

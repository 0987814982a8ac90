"""Every event with a policy in every position: task or job, first or second, every spelling, with a timeout or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumice.model.vocabulary import POLICY_EVENTS, Event
from tests.scenarios.builders import job, on, task
from tests.scenarios.simulation import Simulation

CODE = 3
HAPPENS: dict[Event, Callable[[Simulation], object]] = {
    Event.POD_FAILED: lambda sim: sim.fail("a-0", CODE),
    Event.POD_EVICTED: lambda sim: sim.evict("a-0"),
    Event.POD_PENDING: lambda _: None,  # they are, from the beginning
    Event.UNKNOWN: lambda sim: sim.set_group("Unknown"),
    Event.TASK_COMPLETED: lambda sim: sim.succeed("a-0", "a-1"),
    Event.TASK_FAILED: lambda sim: sim.change("a-0", restarts=3),
    Event.JOB_UPDATED: lambda sim: sim.scale(b=1),
}
SPELLINGS: dict[str, Callable[[Event], dict[str, Any]]] = {
    "event": lambda event: {"event": event},
    "events": lambda event: {"events": [_another(event), event]},
    "any": lambda _: {"event": "*"},
    "another": lambda event: {"event": _another(event)},
    "exitCode": lambda _: {"exit_code": CODE},
    "exitCodes": lambda _: {"exit_codes": [99, CODE]},
}
OF_THE_JOB = {Event.UNKNOWN, Event.JOB_UPDATED}


def _another(event: Event) -> Event:
    """An event that does not happen in the story of this one."""
    return Event.TASK_FAILED if event is not Event.TASK_FAILED else Event.UNKNOWN


def _acts(event: Event, level: str, spelling: str, timeout: str) -> bool:
    if spelling == "another":
        return False
    if spelling in {"exitCode", "exitCodes"}:
        return event is Event.POD_FAILED
    if event is Event.POD_PENDING and not timeout:
        return False
    if event is Event.JOB_UPDATED and spelling == "any":
        return False
    return level == "job" or event not in OF_THE_JOB


@pytest.mark.parametrize("event", HAPPENS)
@pytest.mark.parametrize("level", ["task", "job"])
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("timeout", ["", "10s"])
def test_a_policy_acts_on_its_event(event: Event, level: str, position: int, spelling: str, timeout: str) -> None:
    fields = SPELLINGS[spelling](event)
    policy = on(fields.pop("event", ""), "AbortJob", timeout=timeout, **fields)
    policies = [on("", "TerminateJob", exit_code=77)] * position + [policy]
    tasks = task("a", 2, policies=policies if level == "task" else []), task("b", 2)
    sim = Simulation(job(*tasks, *(policies if level == "job" else [])))
    assert sim.reason == ("", "")
    if event is not Event.POD_PENDING:
        sim.run()
    HAPPENS[event](sim)

    if timeout:
        assert "Aborting" not in sim.wait(9.9).restart_controller().phases
        sim.wait(0.1)
    acts = _acts(event, level, spelling, timeout)
    assert ("Aborting" in sim.phases) is acts
    if acts:
        where = f"spec.tasks[0].policies[{position}]" if level == "task" else f"spec.policies[{position}]"
        # The successor of an evicted pod is pending, which is an event, too, for a policy that takes any.
        named = {event, Event.POD_PENDING} if spelling == "any" and timeout else {event}
        (acted,) = [event for event in sim.events if event.policy]
        assert str(acted.policy) == where
        assert acted.event in named
    else:
        assert not [event for event in sim.events if event.policy]


def test_every_event_is_emitted() -> None:
    assert set(HAPPENS) == set(POLICY_EVENTS) - {Event.ANY}


@pytest.mark.parametrize(("first", "second"), [("AbortJob", "TerminateJob"), ("TerminateJob", "AbortJob")])
@pytest.mark.parametrize("event", [event for event in HAPPENS if event not in OF_THE_JOB | {Event.POD_PENDING}])
def test_the_first_policy_that_matches_wins(event: Event, first: str, second: str) -> None:
    """Of the task's list before the job's; a list that holds one event twice is refused by admission."""
    sim = Simulation(job(task("a", 2, policies=[on(event, first)]), task("b", 1), on(event, second))).run()
    HAPPENS[event](sim)
    assert sim.phase == {"AbortJob": "Aborted", "TerminateJob": "Terminated"}[first]

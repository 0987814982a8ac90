"""Whatever a scenario says, it plays to an end, always the same, and no line of its story comes before the last."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from pumice.engines.memory.scenario_reader import ScenarioReader
from tests.unit.engines.memory.playing import a_task, admitted, played

POLICIES: list[dict[str, Any]] = [
    {"events": ["PodFailed", "Unknown"], "action": "RestartJob"},
    {"event": "PodEvicted", "action": "RestartJob", "timeout": "3s"},
    {"event": "PodPending", "action": "AbortJob", "timeout": "30s"},
    {"event": "JobUpdated", "action": "RestartJob"},
]
PICKY = [{"event": "PodFailed", "action": "RestartPod"}, {"event": "TaskCompleted", "action": "CompleteJob"}]
JOBS = {
    "bare": admitted(a_task("master", 1), a_task("worker", 3)),
    "strict": admitted(a_task("master", 1), a_task("worker", 3), policies=POLICIES, ttlSecondsAfterFinished=5),
    "picky": admitted(a_task("master", 1), a_task("worker", 3, policies=PICKY), minAvailable=2),
    "ordered": admitted(
        a_task("master", 1), a_task("worker", 3, dependsOn={"name": ["master"]}), activeDeadlineSeconds=40
    ),
}
moments = st.integers(0, 60).map("{}s".format)
pods = st.sampled_from(["master-0", "worker-0", "worker-1", "worker-2"])
codes = st.sampled_from([0, 1, 137])
flags = st.booleans()
happenings = st.one_of(
    st.fixed_dictionaries(
        {
            "pods": st.sampled_from(["*", "master", "worker", "worker-1"]),
            "run": st.sampled_from(["0s", "20s", "5s..50s"]),
        },
        optional={"exit": codes, "start": moments, "stop": moments},
    ),
    st.fixed_dictionaries({"pod": pods, "exit": codes}),
    st.fixed_dictionaries({"pod": pods, "evict": st.sampled_from([True, {"exit": 143}])}),
    st.fixed_dictionaries({"pod": pods, "pending": flags}),
    st.fixed_dictionaries({"pod": pods, "restarts": st.integers(1, 3)}),
    st.fixed_dictionaries({"pod": pods, "ready": flags}),
    st.fixed_dictionaries({"controller": st.just("down"), "for": moments}),
    st.fixed_dictionaries({"controller": st.sampled_from(["down", "up"])}),
    st.fixed_dictionaries({"command": st.sampled_from(["AbortJob", "ResumeJob", "RestartJob", "TerminateJob"])}),
    st.fixed_dictionaries({"scale": st.fixed_dictionaries({"worker": st.integers(0, 5)})}),
    st.fixed_dictionaries({"suspend": flags}),
    st.fixed_dictionaries({"group": st.sampled_from(["Pending", "Inqueue", "Running", "Unknown"])}),
)
steps = st.tuples(moments, happenings).map(lambda pair: {"at": pair[0], **pair[1]})
scenarios = st.fixed_dictionaries(
    {"steps": st.lists(steps, max_size=12)},
    optional={"capacity": st.fixed_dictionaries({"pods": st.integers(0, 5)}), "seed": st.integers(-(2**63), 2**63 - 1)},
)


@given(name=st.sampled_from(sorted(JOBS)), scenario=scenarios)
def test_every_scenario_plays_to_an_end_and_always_the_same(name: str, scenario: dict[str, Any]) -> None:
    scenario["steps"].append({"expect": {"phase": "Completed", "running": 0, "pods": {"*": "Succeeded"}}, "by": "50s"})
    text = yaml.safe_dump(scenario)
    simulation, outcomes = played(text, JOBS[name])
    lines = simulation.story.lines
    assert [line.at for line in lines] == sorted(line.at for line in lines)
    assert all(line.event != "CutOff" for line in lines)
    again, outcomes_again = played(text, JOBS[name])
    assert (again.story.lines, outcomes_again) == (lines, outcomes)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | moments,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
)
words = st.sampled_from(
    ["at", "pods", "pod", "run", "exit", "evict", "for", "scale", "expect", "by", "group", "signal"]
)


@given(document=st.dictionaries(st.sampled_from(["steps", "seed", "capacity", "x"]), anything) | anything)
def test_any_document_is_read_or_refused(document: object) -> None:
    ScenarioReader(JOBS["bare"].job).read(document)


@given(step=st.dictionaries(words, anything, max_size=4))
@example(step={"scale": {0: None}})
@example(step={"scale": {0: False}})
def test_any_step_is_read_or_refused(step: dict[str, Any]) -> None:
    reader = ScenarioReader(JOBS["bare"].job)
    reader.read({"steps": [step]})
    assert all(finding.message for finding in reader.findings)

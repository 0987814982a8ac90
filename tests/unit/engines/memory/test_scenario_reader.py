"""Scenario files: everything that is wrong is found, at its place, with what would be right."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import yaml

from pumice.engines.memory.scenario import MOST_STEPS, Behaviour, Expectation, Scenario, Span, Step
from pumice.engines.memory.scenario_reader import ScenarioReader
from tests.unit.engines.memory.playing import a_task, admitted, scenario

JOB = admitted(a_task("master", 1), a_task("worker", 2), plugins={"pytorch": ["--wait-master-enabled=true"]})
KINDS = "pods, exit, evict, pending, restarts, ready, controller, command, scale, suspend, group"


def seconds(number: float) -> dt.timedelta:
    return dt.timedelta(seconds=number)


def findings(text: str, job: Any = JOB) -> list[tuple[str, str, str]]:
    reader = ScenarioReader(job.job, job.plugins)
    reader.read(yaml.safe_load(text))
    return [(str(one.path), one.message, one.hint) for one in reader.findings]


@pytest.mark.parametrize(
    ("text", "step"),
    [
        pytest.param(
            "{at: 0s, pods: '*', run: 60s, exit: 0}",
            Step(kind="pods", at=seconds(0), pods="*", run=Span.of(60), exit=0),
            id="behaviour",
        ),
        pytest.param(
            "{pods: worker, run: 50s..70s, start: 1s, stop: 2s}",
            Step(
                kind="pods",
                at=seconds(0),
                pods="worker",
                run=Span(seconds(50), seconds(70)),
                start=Span.of(1),
                stop=Span.of(2),
            ),
            id="behaviour of a task, with a range",
        ),
        pytest.param(
            "{at: 30s, pod: worker-1, exit: 137, reason: OOMKilled}",
            Step(kind="exit", at=seconds(30), pod="worker-1", exit=137, reason="OOMKilled"),
            id="exit",
        ),
        pytest.param(
            "{at: 30s, pod: worker-1, signal: 9}",
            Step(kind="exit", at=seconds(30), pod="worker-1", signal=9),
            id="signal",
        ),
        pytest.param(
            "{at: 30s, pod: worker-1, exit: 1, container: wait-for-master}",
            Step(kind="exit", at=seconds(30), pod="worker-1", exit=1, container="wait-for-master"),
            id="container of a plugin",
        ),
        pytest.param(
            "{at: 40s, pod: worker-0, evict: true}", Step(kind="evict", at=seconds(40), pod="worker-0"), id="evict"
        ),
        pytest.param(
            "{at: 40s, pod: worker-0, evict: {exit: 143}}",
            Step(kind="evict", at=seconds(40), pod="worker-0", exit=143),
            id="evict with a failure",
        ),
        pytest.param(
            "{at: 45s, pod: worker-1, pending: true}",
            Step(kind="pending", at=seconds(45), pod="worker-1", pending=True),
            id="pending",
        ),
        pytest.param(
            "{at: 45s, pod: worker-1, restarts: 3}",
            Step(kind="restarts", at=seconds(45), pod="worker-1", restarts=3),
            id="restarts",
        ),
        pytest.param(
            "{at: 45s, pod: worker-1, ready: false}",
            Step(kind="ready", at=seconds(45), pod="worker-1", ready=False),
            id="ready",
        ),
        pytest.param(
            "{at: 31s, controller: down, for: 5s}",
            Step(kind="controller", at=seconds(31), controller="down", duration=seconds(5)),
            id="controller",
        ),
        pytest.param(
            "{at: 31s, controller: up}", Step(kind="controller", at=seconds(31), controller="up"), id="controller up"
        ),
        pytest.param(
            "{at: 50s, command: AbortJob}", Step(kind="command", at=seconds(50), command="AbortJob"), id="command"
        ),
        pytest.param(
            "{at: 60s, scale: {worker: 4}}", Step(kind="scale", at=seconds(60), scale={"worker": 4}), id="scale"
        ),
        pytest.param("{at: 60s, suspend: true}", Step(kind="suspend", at=seconds(60), suspend=True), id="suspend"),
        pytest.param("{at: 1h30m, group: Unknown}", Step(kind="group", at=seconds(5400), group="Unknown"), id="group"),
    ],
)
def test_a_step_is_read(text: str, step: Step) -> None:
    assert scenario(f"steps: [{text}]", JOB).steps == (step,)


@pytest.mark.parametrize(
    ("text", "expectation"),
    [
        pytest.param(
            "{expect: {phase: Completed, retryCount: 1, running: 0, pods: {worker-1: Succeeded}}, by: 120s}",
            Expectation(
                {"phase": "Completed", "retryCount": 1, "running": 0, "pods.worker-1": "Succeeded"}, None, seconds(120)
            ),
            id="by",
        ),
        pytest.param(
            "{at: 5s, expect: {reason: OOMKilled, pods: {'*': Running, worker: gone}}}",
            Expectation({"reason": "OOMKilled", "pods.*": "Running", "pods.worker": "gone"}, seconds(5), None),
            id="at",
        ),
        pytest.param("{expect: {phase: gone}}", Expectation({"phase": "gone"}), id="at the end"),
    ],
)
def test_an_expectation_is_read(text: str, expectation: Expectation) -> None:
    assert scenario(f"steps: [{text}]", JOB).expectations == (expectation,)


def test_a_complete_scenario_is_read_and_its_steps_are_sorted() -> None:
    text = (
        "{description: why, seed: -7, capacity: {pods: 4}, steps: [{at: 2s, suspend: true}, {at: 1s, suspend: false}]}"
    )
    steps = (Step(kind="suspend", at=seconds(1), suspend=False), Step(kind="suspend", at=seconds(2), suspend=True))
    assert scenario(text, JOB) == Scenario("why", -7, 4, steps)


def test_a_pod_that_only_a_scaling_brings_may_be_named() -> None:
    assert scenario("steps: [{at: 1s, scale: {worker: 4}}, {at: 2s, pod: worker-3, exit: 1}]", JOB).steps


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("[1]", [("", "a scenario must be a mapping with steps", "")], id="no mapping"),
        pytest.param(
            "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job}",
            [("", "this is no scenario", "the Job goes first: pumice simulate JOB -s SCENARIO")],
            id="a job",
        ),
        pytest.param(
            "{step: []}",
            [
                ("step", "unknown field", "did you mean steps?"),
                ("steps", "is required", "such as steps: [{at: 30s, pod: worker-1, exit: 1}]"),
            ],
            id="unknown field",
        ),
        pytest.param("{steps: [], seed: 1.5}", [("seed", "must be a whole number, found a number", "")], id="seed"),
        pytest.param(
            "{steps: [], seed: true}", [("seed", "must be a whole number, found a boolean", "")], id="seed true"
        ),
        pytest.param(
            "{steps: [], description: [a]}", [("description", "must be a string, found a list", "")], id="description"
        ),
        pytest.param(
            '{steps: [], description: "a\\u0007"}', [("description", "must be printable", "")], id="unprintable"
        ),
        pytest.param(
            "{steps: [], capacity: 4}",
            [("capacity", "must be a mapping, found a number", "such as capacity: {pods: 4}")],
            id="capacity",
        ),
        pytest.param(
            "{steps: [], capacity: {pod: -1}}",
            [("capacity.pod", "unknown field", "did you mean pods?"), ("capacity.pods", "is required", "")],
            id="capacity of what",
        ),
        pytest.param(
            "{steps: [], capacity: {pods: -1}}", [("capacity.pods", "must be 0 or more", "")], id="capacity below 0"
        ),
    ],
)
def test_findings_about_the_scenario_as_a_whole(text: str, found: list[tuple[str, str, str]]) -> None:
    assert findings(text) == found


_WORDS = "must be one of AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob, "
_DURATION = "must be a duration such as 10s, 5m or 1h30m"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            "3", [("", "a step must be a mapping such as {at: 30s, pod: worker-1, exit: 1}", "")], id="number"
        ),
        pytest.param(
            "{at: 3s, pod: worker-1, evikt: true}",
            [("", f"does not say what happens; one of {KINDS}, or what to expect", "did you mean evict?")],
            id="unknown kind",
        ),
        pytest.param(
            "{at: 3s}", [("", f"does not say what happens; one of {KINDS}, or what to expect", "")], id="no kind"
        ),
        pytest.param(
            "{at: 3s, pod: worker-1, evict: true, pending: true}",
            [("", "says 2 things at once: evict, pending", "make it a step each")],
            id="two kinds",
        ),
        pytest.param("{pod: worker-1, evict: true}", [(".at", "is required", "such as at: 30s")], id="no at"),
        pytest.param("{at: 30, suspend: true}", [(".at", _DURATION, "did you mean 30s?")], id="no unit"),
        pytest.param("{at: soon, suspend: true}", [(".at", _DURATION, "")], id="no duration"),
        pytest.param("{at: -3s, suspend: true}", [(".at", "must not be negative", "")], id="negative"),
        pytest.param("{at: 8761h, suspend: true}", [(".at", "must be at most 8760h", "")], id="after a year"),
        pytest.param("{at: 3s, exit: 1}", [(".pod", "is required", "such as pod: worker-0")], id="no pod"),
        pytest.param(
            "{at: 3s, pod: worker-2, exit: 1}",
            [(".pod", "no such pod in this job", "pods of worker are worker-0 to worker-1")],
            id="index too high",
        ),
        pytest.param(
            "{at: 3s, pod: master-1, exit: 1}",
            [(".pod", "no such pod in this job", "the only pod of master is master-0")],
            id="there is only one",
        ),
        pytest.param(
            "{at: 3s, pod: wroker-1, exit: 1}",
            [(".pod", "no such pod in this job", "did you mean worker-1?")],
            id="misspelt pod",
        ),
        pytest.param(
            "{at: 3s, pod: worker-01, exit: 1}",
            [(".pod", "no such pod in this job", "did you mean worker-0?")],
            id="index with a zero",
        ),
        pytest.param(
            "{at: 3s, pod: 7, exit: 1}", [(".pod", "must be a string, found a number", 'quote it: "7"')], id="no name"
        ),
        pytest.param(
            "{at: 3s, pod: worker-1, exit: 256}", [(".exit", "must be between 0 and 255", "")], id="exit too high"
        ),
        pytest.param(
            "{at: 3s, pod: worker-1, exit: x, reason: 1, signal: 65}",
            [
                (".exit", "must be a whole number, found a string", ""),
                (".reason", "must be a string, found a number", 'quote it: "1"'),
                (".signal", "must be between 0 and 64", ""),
            ],
            id="several at once",
        ),
        pytest.param(
            f"{{at: 3s, pod: worker-1, exit: 1, reason: {'x' * 101}}}",
            [(".reason", "must be at most 100 characters", "")],
            id="long reason",
        ),
        pytest.param(
            "{at: 3s, pod: worker-1, exit: 1, container: wait-for-mastr}",
            [(".container", "no such container in a pod of worker", "did you mean wait-for-master?")],
            id="misspelt container",
        ),
        pytest.param(
            "{at: 3s, pod: worker-1, exit: 1, container: x}",
            [(".container", "no such container in a pod of worker", "there are wait-for-master, worker")],
            id="no such container",
        ),
        pytest.param(
            "{at: 3s, pod: nobody, exit: 1, container: x}",
            [(".pod", "no such pod in this job", "pods are called worker-0")],
            id="container of nobody",
        ),
        pytest.param(
            "{pods: workers, run: 3s}",
            [(".pods", "must be *, a task or a pod", "did you mean worker?")],
            id="misspelt task",
        ),
        pytest.param(
            "{pods: '*'}", [("", "does not say how the pods behave; run, exit, start or stop", "")], id="no behaviour"
        ),
        pytest.param(
            "{pods: '*', reason: Error}", [(".reason", "goes with exit, which is missing", "")], id="reason alone"
        ),
        pytest.param(
            "{pods: '*', run: 70s..50s}", [(".run", "must begin with the shorter one", "")], id="range the wrong way"
        ),
        pytest.param("{pods: '*', run: 70s..x}", [(".run", _DURATION, "")], id="half a range"),
        pytest.param(
            "{at: 3s, pod: worker-1, evict: false}",
            [(".evict", "must be true, or {exit: 143} for a pod that fails while it is deleted", "")],
            id="evict false",
        ),
        pytest.param(
            "{at: 3s, pod: worker-1, evict: {code: 1}}",
            [(".evict.code", "unknown field", ""), (".evict.exit", "is required", "")],
            id="evict with another word",
        ),
        pytest.param(
            "{at: 3s, pod: worker-1, pending: yes please}",
            [(".pending", "must be true or false, found a string", "")],
            id="pending maybe",
        ),
        pytest.param(
            "{at: 3s, pod: worker-1, restarts: 0}",
            [(".restarts", "must be between 1 and 2147483647", "")],
            id="restarts 0",
        ),
        pytest.param(
            "{at: 3s, controller: dwn}",
            [(".controller", "must be one of down, up", "did you mean down?")],
            id="controller",
        ),
        pytest.param(
            "{at: 3s, controller: up, for: 3s}", [(".for", "goes with controller: down", "")], id="controller up for"
        ),
        pytest.param(
            "{at: 3s, command: Abort}", [(".command", f"{_WORDS}ResumeJob", "did you mean AbortJob?")], id="command"
        ),
        pytest.param(
            "{at: 3s, group: unknown}",
            [(".group", "must be one of Pending, Inqueue, Running, Unknown, Completed", "did you mean Unknown?")],
            id="group",
        ),
        pytest.param("{at: 3s, suspend: 1}", [(".suspend", "must be true or false, found a number", "")], id="suspend"),
        pytest.param(
            "{at: 3s, scale: 4}",
            [(".scale", "must be a mapping, found a number", "such as scale: {worker: 4}")],
            id="scale a number",
        ),
        pytest.param(
            "{at: 3s, scale: {wroker: 4, ps: 10001, worker: 1.5}}",
            [
                (".scale.worker", "must be a whole number, found a number", ""),
                (".scale.ps", "must be between 0 and 10000", ""),
                (".scale.wroker", "no such task", "did you mean worker?"),
                (".scale.ps", "no such task", "there are master, worker"),
            ],
            id="scale",
        ),
        pytest.param(
            "{at: 3s, scale: {}}", [(".scale", "must name a task, such as {worker: 4}", "")], id="scale nothing"
        ),
        pytest.param(
            "{expect: {}}",
            [(".expect", "must say what is expected, such as {phase: Completed}", "")],
            id="expect nothing",
        ),
        pytest.param(
            "{expect: 3}",
            [(".expect", "must be a mapping, found a number", "such as expect: {phase: Completed}")],
            id="expect",
        ),
        pytest.param(
            "{expect: {phse: Completed}}", [(".expect.phse", "unknown field", "did you mean phase?")], id="expect what"
        ),
        pytest.param(
            "{expect: {running: -1, pods: {worker-9: Running, worker: Runing}}, by: 1s, at: 2s}",
            [
                (".expect.running", "must be 0 or more", ""),
                (
                    ".expect.pods.worker",
                    "must be one of Pending, Running, Succeeded, Failed, Unknown, gone",
                    "did you mean Running?",
                ),
                (".expect.pods.worker-9", "must be *, a task or a pod", "pods of worker are worker-0 to worker-1"),
                (".by", "must not be before at", ""),
            ],
            id="expect wrong values",
        ),
        pytest.param(
            "{expect: {pods: Running}}",
            [(".expect.pods", "must be a mapping, found a string", "")],
            id="expect pods",
        ),
    ],
)
def test_what_is_wrong_with_a_step_is_found(text: str, found: list[tuple[str, str, str]]) -> None:
    assert findings(f"steps: [{text}]") == [(f"steps[0]{path}", message, hint) for path, message, hint in found]


def test_a_task_with_partitions_cannot_be_scaled() -> None:
    job = admitted(a_task("worker", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2}))
    found = [("steps[0].scale.worker", "a task with a partitionPolicy cannot be scaled", "")]
    assert findings("steps: [{at: 1s, scale: {worker: 6}}]", job) == found


def test_too_many_steps_are_not_even_looked_at() -> None:
    text = "steps: [" + "{wrong: true}," * (MOST_STEPS + 1) + "]"
    assert findings(text) == [("steps", "2001 steps: a scenario may have at most 2000", "")]


def test_a_pod_succeeds_by_default() -> None:
    assert Behaviour() == Behaviour(run=Span.of(10), exit=0, reason="", start=Span.of(0), stop=Span.of(1))


def test_a_range_draws_the_same_for_the_same_seed_and_stays_within() -> None:
    span = Span(seconds(50), seconds(70))
    drawn = {span.drawn(str(seed)) for seed in range(100)}
    assert len(drawn) > 50
    assert all(seconds(50) <= one <= seconds(70) for one in drawn)
    assert span.drawn("1") == span.drawn("1")

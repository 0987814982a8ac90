from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Manifest
from pumice.model.vocabulary import POLICY_ACTIONS, POLICY_EVENTS
from tests.builders import a_document
from tests.unit.admission.findings import Row, error, found, task, warning

EVENTS = "must be one of *, PodFailed, PodEvicted, PodPending, Unknown, TaskCompleted, TaskFailed, JobUpdated"
ACTIONS = (
    "must be one of AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob, "
    "ResumeJob"
)
DURATION = "must be a duration such as 10s, 5m or 1h30m"
KEEP_ONE = "keep one of them"


def on(event: str, action: str = "RestartJob", **fields: Any) -> Manifest:
    return {"event": event, "action": action, **fields}


def on_code(code: int, action: str = "RestartJob", **fields: Any) -> Manifest:
    return {"exitCode": code, "action": action, **fields}


RULES = [
    pytest.param(
        [on("PodFailed", exitCode=3)],
        [error("policies[0]", "must have either an event or an exit code, not both", hint="make it two policies")],
        id="event and exit code",
    ),
    pytest.param(
        [{"action": "RestartJob"}],
        [
            error(
                "policies[0]", "must have an event or an exit code, or it would never act", hint="add event: PodFailed"
            )
        ],
        id="neither",
    ),
    pytest.param(
        [on("PodFaild")],
        [error("policies[0].event", EVENTS, "PodFaild", "did you mean PodFailed?")],
        id="mistyped event",
    ),
    pytest.param([on("Nonsense")], [error("policies[0].event", EVENTS, "Nonsense")], id="unknown event"),
    *(
        pytest.param(
            [on(event)],
            [error("policies[0].event", f"is internal to the controller; {EVENTS}", event)],
            id=f"internal event {event}",
        )
        for event in ("OutOfSync", "CommandIssued", "PodRunning")
    ),
    pytest.param(
        [{"events": ["PodEvicted", "Nonsense"], "action": "RestartJob"}],
        [error("policies[0].events[1]", EVENTS, "Nonsense")],
        id="unknown event in the list",
    ),
    pytest.param([{"event": "PodFailed"}], [error("policies[0].action", f"is missing; {ACTIONS}")], id="no action"),
    pytest.param(
        [on("PodFailed", "RestartJb")],
        [error("policies[0].action", ACTIONS, "RestartJb", "did you mean RestartJob?")],
        id="mistyped action",
    ),
    pytest.param(
        [on_code(3, "Nonsense")], [error("policies[0].action", ACTIONS, "Nonsense")], id="unknown action for a code"
    ),
    *(
        pytest.param(
            [on("PodFailed", action)],
            [error("policies[0].action", f"is internal to the controller; {ACTIONS}", action)],
            id=f"internal action {action}",
        )
        for action in ("SyncJob", "EnqueueJob")
    ),
    pytest.param(
        [on("PodFailed"), on("PodEvicted"), {"events": ["Unknown", "PodFailed"], "action": "AbortJob"}],
        [error("policies[2].events[1]", "@.policies[0] acts on it already", "PodFailed", KEEP_ONE)],
        id="event twice",
    ),
    pytest.param(
        [{"event": "PodFailed", "events": ["PodFailed"], "action": "AbortJob"}],
        [warning("policies[0].event", "is named twice in this policy", "PodFailed")],
        id="event twice in one policy",
    ),
    pytest.param(
        [on_code(0)], [error("policies[0].exitCode", "must be 1 to 255; 0 is success", 0)], id="exit code of success"
    ),
    pytest.param(
        [on_code(256)],
        [warning("policies[0].exitCode", "can never match: exit codes are 1 to 255", 256)],
        id="code 256",
    ),
    pytest.param(
        [on_code(-1)], [warning("policies[0].exitCode", "can never match: exit codes are 1 to 255", -1)], id="code -1"
    ),
    pytest.param(
        [on_code(3), on_code(4), on_code(3)],
        [error("policies[2].exitCode", "@.policies[0] acts on it already", 3, KEEP_ONE)],
        id="code twice",
    ),
    pytest.param(
        [on_code(3, exitCodes=[0, 3])],
        [
            error("policies[0].exitCodes[0]", "must be 1 to 255; 0 is success", 0),
            error("policies[0].exitCode", "@.policies[0] acts on it already", 3, KEEP_ONE),
        ],
        id="list of codes",
    ),
    pytest.param(
        [on("PodEvicted"), on("*"), on("Unknown")],
        [
            error(
                "policies[1]",
                "* stands for every event, so it cannot be used together with PodEvicted, Unknown",
                hint="remove the others, or list the events that you need",
            )
        ],
        id="any event and others",
    ),
    pytest.param(
        [on("PodFailed", timeout="5x")],
        [error("policies[0].timeout", DURATION, "5x", "unknown unit 'x', the units are h m s ms us ns")],
        id="unknown unit",
    ),
    pytest.param(
        [on("PodFailed", timeout="30")],
        [error("policies[0].timeout", DURATION, "30", "a number has no unit; the units are h m s ms us ns")],
        id="no unit",
    ),
    pytest.param([on("PodFailed", timeout="soon")], [error("policies[0].timeout", DURATION, "soon")], id="no duration"),
    pytest.param(
        [on("PodFailed", timeout="9999999h")],
        [error("policies[0].timeout", "must be at most 2562047h47m16.854775807s", "9999999h")],
        id="too long",
    ),
    pytest.param(
        [on("PodFailed", timeout="-5m")],
        [error("policies[0].timeout", "must not be negative", "-5m")],
        id="negative timeout",
    ),
    pytest.param(
        [on("PodPending")],
        [warning("policies[0]", "never acts: PodPending needs a timeout", hint="add timeout: 5m")],
        id="pending without a timeout",
    ),
    *(
        pytest.param(
            [on(event, action)],
            [
                error(
                    "policies[0].action",
                    f"cannot act on {event}, which is about the whole job and names no pod",
                    action,
                    "RestartJob, or an event of a pod such as PodFailed",
                )
            ],
            id=f"{action} on {event}",
        )
        for action in ("RestartTask", "RestartPod")
        for event in ("Unknown", "JobUpdated")
    ),
    pytest.param(
        [on("PodFailed", "RestartPartition")],
        [
            error(
                "policies[0].action",
                "needs a task with a partitionPolicy",
                "RestartPartition",
                "RestartTask restarts the whole task",
            )
        ],
        id="RestartPartition without partitions",
    ),
    pytest.param(
        [on("PodFailed"), on_code(3)],
        [
            warning(
                "policies[1]",
                "is never reached: @.policies[0] matches every failed pod first",
                hint="put exit codes before PodFailed",
            )
        ],
        id="codes behind PodFailed",
    ),
    pytest.param(
        [on("*", "AbortJob"), on_code(3)],
        [
            warning(
                "policies[1]",
                "is never reached: @.policies[0] matches every failed pod first",
                hint="put exit codes before PodFailed",
            )
        ],
        id="codes behind any event",
    ),
]


def below(finding: Row, owner: str) -> Row:
    return finding._replace(path=f"{owner}.{finding.path}", message=finding.message.replace("@", owner))


@pytest.mark.parametrize(("policies", "expected"), RULES)
def test_rules_hold_for_the_policies_of_a_job(policies: list[Manifest], expected: list[Row]) -> None:
    assert found(a_document(policies=policies)) == [below(finding, "spec") for finding in expected]


@pytest.mark.parametrize(("policies", "expected"), RULES)
def test_rules_hold_for_the_policies_of_a_task(policies: list[Manifest], expected: list[Row]) -> None:
    document = a_document(tasks=[task("first"), task("second", policies=policies)])
    assert found(document) == [below(finding, "spec.tasks[1]") for finding in expected]


@pytest.mark.parametrize(
    "policies",
    [
        *(pytest.param([on(event, timeout="5m")], id=f"event {event}") for event in POLICY_EVENTS),
        *(
            pytest.param([on("PodFailed", action)], id=f"action {action}")
            for action in POLICY_ACTIONS
            if action != "RestartPartition"
        ),
        pytest.param([on_code(3), on_code(255), on("PodFailed")], id="codes before PodFailed"),
        pytest.param([on("PodEvicted"), on_code(3)], id="codes behind another event"),
        pytest.param([{"exitCodes": [1, 2], "action": "RestartPod"}], id="codes of one policy"),
        pytest.param([{"events": ["PodPending", "PodFailed"], "action": "AbortJob"}], id="pending among others"),
        pytest.param([on("PodFailed", timeout="0s")], id="at once"),
        pytest.param([], id="none"),
    ],
)
def test_accepted(policies: list[Manifest]) -> None:
    assert found(a_document(policies=policies)) == []


PARTITIONED = task("second", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})
RESTART_PARTITION = [on("PodFailed", "RestartPartition")]


def test_partitions_may_be_restarted_where_there_are_some() -> None:
    assert found(a_document(policies=RESTART_PARTITION, tasks=[task("first"), PARTITIONED])) == []
    assert found(a_document(tasks=[task("first"), {**PARTITIONED, "policies": RESTART_PARTITION}])) == []


def test_partitions_of_another_task_do_not_count_for_a_task() -> None:
    document = a_document(tasks=[task("first", policies=RESTART_PARTITION), PARTITIONED])
    assert [finding.path for finding in found(document)] == ["spec.tasks[0].policies[0].action"]


def test_a_partition_is_not_named_by_an_event_of_the_job() -> None:
    tasks = [{**PARTITIONED, "policies": [on("Unknown", "RestartPartition")]}]
    assert [finding.message for finding in found(a_document(tasks=tasks))] == [
        "cannot act on Unknown, which is about the whole job and names no pod"
    ]


def test_lists_are_judged_on_their_own() -> None:
    """A task's policy overrules the job's; having both is the point."""
    document = a_document(policies=[on("PodFailed")], tasks=[task(policies=[on("PodFailed", "RestartPod")])])
    assert found(document) == []

"""Jobs of all kinds that admission lets in, made from a source of chance.

Numbers of a `Random` rather than strategies of hypothesis: those prefer extremes, and a job with everything at its
extreme seldom runs.
"""

from __future__ import annotations

from random import Random
from typing import Any

from pumice.admission.admit import admit
from pumice.model.job import Manifest
from tests.scenarios.driver import CONTEXT, a_job, task

POD_EVENTS = ("PodFailed", "PodFailed", "PodEvicted", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed")
JOB_EVENTS = ("Unknown", "JobUpdated")
RESTARTS = ("RestartJob", "RestartJob", "RestartTask", "RestartPod", "RestartPod")
JOB_ACTIONS = ("RestartJob", "AbortJob", "TerminateJob", "CompleteJob", "ResumeJob")
TARGETED = ("RestartTask", "RestartPod", "RestartPartition")
EXIT_CODES = (1, 3, 137)
CLAIM = {
    "mountPath": "/data",
    "volumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
SHARED = {"mountPath": "/old", "volumeClaimName": "shared"}
PLUGINS: tuple[dict[str, list[str]], ...] = ({"svc": []}, {"ssh": []}, {"svc": [], "ssh": [], "env": []})


def a_random_job(chance: Random) -> Manifest:
    while True:
        document = _document(chance)
        if admit(document, CONTEXT).is_good:
            return document


def _document(chance: Random) -> Manifest:
    names = ["a", "b", "c", "d"][: chance.choice((1, 1, 2, 2, 3, 4))]
    tasks = [_task(chance, name, names[:position]) for position, name in enumerate(names)]
    total = sum(one["replicas"] for one in tasks)
    spec: dict[str, Any] = {}
    if chance.random() < 0.7:
        spec["policies"] = _policies(chance, (*POD_EVENTS, *JOB_EVENTS), (*RESTARTS, *JOB_ACTIONS))
    if chance.random() < 0.4:
        spec["minAvailable"] = chance.randint(0, total)
    if total and chance.random() < 0.2:
        spec["minSuccess"] = chance.randint(1, total)
    if chance.random() < 0.6:
        spec["maxRetry"] = chance.randint(1, 6)
    if chance.random() < 0.3:
        spec["plugins"] = chance.choice(PLUGINS)
    if chance.random() < 0.1:
        spec["volumes"] = [chance.choice((CLAIM, SHARED))]
    if chance.random() < 0.1:
        spec["activeDeadlineSeconds"] = chance.randint(1, 900)
    if chance.random() < 0.2:
        spec["ttlSecondsAfterFinished"] = chance.randint(0, 60)
    return a_job(*tasks, **spec)


def _task(chance: Random, name: str, earlier: list[str]) -> Manifest:
    replicas = chance.choice((0, 1, 1, 2, 2, 3, 4, 4))
    fields: dict[str, Any] = {}
    actions: tuple[str, ...] = (*RESTARTS, *JOB_ACTIONS)
    if replicas == 4 and chance.random() < 0.6:
        fields["partitionPolicy"] = {"totalPartitions": 2, "partitionSize": 2}
        actions = (*RESTARTS, "RestartPartition", "RestartPartition", "RestartPartition")
    elif chance.random() < 0.3:
        fields["minAvailable"] = chance.randint(0, replicas)
    if chance.random() < 0.5:
        fields["policies"] = _policies(chance, POD_EVENTS, actions)
    if chance.random() < 0.1:
        fields["maxRestarts"] = chance.randint(0, 2)
    if earlier and chance.random() < 0.3:
        others = sorted(set(chance.choices(earlier, k=2)))
        condition, iteration = chance.choice(("Running", "Completed")), chance.choice(("any", "all"))
        fields["dependsOn"] = {"name": others, "iteration": iteration, "condition": condition}
    return task(name, replicas, **fields)


def _policies(chance: Random, events: tuple[str, ...], actions: tuple[str, ...]) -> list[Manifest]:
    """Policies on different events, or one on all of them, some after a time."""

    def timeout() -> str:
        return chance.choice(("", "", "", "0s", "5s", "1m"))

    found: list[Manifest] = []
    if chance.random() < 0.2:
        code, action = chance.choice(EXIT_CODES), chance.choice(actions)
        found.append({"exitCode": code, "action": action, "timeout": timeout()})
    if chance.random() < 0.1:
        return [*found, {"event": "*", "action": chance.choice(actions), "timeout": timeout()}]
    for event in sorted(set(chance.choices(events, k=chance.randint(1, 3)))):
        allowed = [action for action in actions if event not in JOB_EVENTS or action not in TARGETED]
        found.append({"event": event, "action": chance.choice(allowed), "timeout": timeout()})
    return found

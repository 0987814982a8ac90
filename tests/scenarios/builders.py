"""Jobs for stories: `a_story(task("worker", 3), on("PodFailed", "RestartJob"))`."""

from __future__ import annotations

from typing import Any

import msgspec

from pumice.admission.defaults import with_defaults
from pumice.model.job import DependsOn, Job, LifecyclePolicy, TaskSpec
from pumice.plugins.registry import Registry
from tests.builders import a_job, a_task, a_template


def on(event: str, action: str, **fields: Any) -> LifecyclePolicy:
    """A policy: on this event (or these, or this exit code) do that."""
    when: dict[str, Any] = {"event": event} if event else {}
    return LifecyclePolicy(action=action, **when, **fields)


def after(*names: str, iteration: str = "", condition: str = "") -> DependsOn:
    return DependsOn(name=list(names), iteration=iteration, condition=condition)


def task(name: str = "worker", replicas: int = 3, **fields: Any) -> TaskSpec:
    return a_task(name, replicas, fields.pop("template", None) or a_template(restartPolicy="Never"), **fields)


def job(*parts: TaskSpec | LifecyclePolicy, **spec: Any) -> Job:
    """A job as the webhook lets it in: tasks and the job's policies, then fields of its spec."""
    tasks = [part for part in parts if isinstance(part, TaskSpec)] or [task()]
    policies = [part for part in parts if isinstance(part, LifecyclePolicy)]
    written = a_job(*tasks, policies=policies, **spec)
    return with_defaults(written, Registry())


def scaled(of: Job, sizes: dict[str, int], least: int | None = None) -> Job:
    """The job with other numbers of replicas; without `least` the gang is all of them."""
    tasks = [
        msgspec.structs.replace(one, replicas=sizes[one.name], min_available=sizes[one.name])
        if one.name in sizes
        else one
        for one in of.spec.tasks
    ]
    total = sum(one.replicas for one in tasks)
    spec = msgspec.structs.replace(of.spec, tasks=tasks, min_available=total if least is None else least)
    return msgspec.structs.replace(of, spec=spec)

"""A Job in a few words, for terminals, and as a table, for notebooks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pumice.model.display.notebook_html import division, heading, table
from pumice.model.resources import containers_total
from pumice.model.text import plural, printable, some
from pumice.model.units import amount_text

if TYPE_CHECKING:
    from pumice.model.job import Job, Manifest, TaskSpec

_COLUMNS: Final = ("task", "pods", "image", "command", "resources of a pod", "after")


def job_text(job: Job) -> str:
    """Return `<Job ddp: master 1, worker 3; plugins pytorch, svc>`."""
    tasks = some([f"{task.name} {task.replicas}" for task in job.spec.tasks]) or "no tasks"
    plugins = f"; plugins {some([*job.spec.plugins])}" if job.spec.plugins else ""
    return printable(f"<Job {job.name}: {tasks}{plugins}>")


def job_html(job: Job, host_image: str) -> str:
    """Return the tasks as a table. A container with `host_image` has no image of its own."""
    pods = plural(job.total_replicas, "pod")
    least = f"at least {job.spec.min_available} at once" if job.spec.min_available else ""
    plugins = f"plugins {', '.join(job.spec.plugins)}" if job.spec.plugins else "no plugins"
    queue = f"queue {job.spec.queue}" if job.spec.queue else ""
    rows = (_row(task, host_image) for task in job.spec.tasks)
    return division(heading(job.name, pods, least, plugins, queue), table(_COLUMNS, rows))


def _row(task: TaskSpec, host_image: str) -> tuple[str, ...]:
    containers = [*_containers(task)]
    first = containers[0] if containers else {}
    image = str(first.get("image") or "")
    command = shlex.join([*_words(first, "command"), *_words(first, "args")])
    more = f"; {len(containers) - 1} more" if len(containers) > 1 else ""
    after = ", ".join(task.depends_on.name) if task.depends_on is not None else ""
    image = "host" if image == host_image else image
    return task.name, str(task.replicas), image, command + more, _resources(task.pod_spec), after


def _containers(task: TaskSpec) -> Iterator[Manifest]:
    """Yield the containers; a Job that nothing has checked may have other values in their place."""
    given = task.pod_spec.get("containers")
    yield from (each for each in given if isinstance(each, dict)) if isinstance(given, list) else ()


def _words(container: Manifest, field: str) -> list[str]:
    given = container.get(field)
    return [str(word) for word in given] if isinstance(given, list) else []


def _resources(spec: Manifest) -> str:
    """Return what a pod asks for: its requests, else its limits."""
    amounts = containers_total(spec, "limits") | containers_total(spec, "requests")
    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in amounts.items())

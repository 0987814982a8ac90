"""dependsOn: the names of existing tasks, and no cycles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from pumice.model.findings import SPEC, Finding
from pumice.model.job import DependsOn, Job
from pumice.model.suggestions import did_you_mean
from pumice.model.text import some
from pumice.model.vocabulary import DEPENDENCY_CONDITIONS, DEPENDENCY_ITERATIONS


def check_dependencies(job: Job) -> Iterator[Finding]:
    names = dict.fromkeys(job.task_names)
    for position, task in enumerate(job.spec.tasks):
        if task.depends_on is None:
            continue
        at = SPEC / "tasks" / position / "dependsOn" / "name"
        seen: set[str] = set()
        for index, name in enumerate(task.depends_on.name):
            if name not in names:
                hint = did_you_mean(name, names) or f"the tasks are {some(list(names))}"
                yield Finding(at / index, "no task has this name", name, hint)
            elif name == task.name:
                yield Finding(at / index, "a task cannot depend on itself", name)
            elif name in seen:
                yield Finding(at / index, "is listed twice", name)
            seen.add(name)
    yield from _check_cycle(job)


def check_dependency_words(job: Job) -> Iterator[Finding]:
    for position, task in enumerate(job.spec.tasks):
        at, wanted = SPEC / "tasks" / position / "dependsOn", task.depends_on or DependsOn()
        for field, word, accepted in (
            ("iteration", wanted.iteration, DEPENDENCY_ITERATIONS),
            ("condition", wanted.condition, DEPENDENCY_CONDITIONS),
        ):
            if word and word not in accepted:
                yield Finding(at / field, f"must be {' or '.join(accepted)}", word, did_you_mean(word, accepted))


def _check_cycle(job: Job) -> Iterator[Finding]:
    graph = {task.name: task.depends_on.name if task.depends_on is not None else [] for task in job.spec.tasks}
    cycle = _cycle(graph)
    if cycle:
        position = next(index for index, task in enumerate(job.spec.tasks) if task.name == cycle[0])
        chain = f"{some(cycle, ' -> ')} -> {cycle[0]}"
        yield Finding(SPEC / "tasks" / position / "dependsOn", f"the tasks depend on each other in a cycle: {chain}")


def _cycle(graph: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a cycle of two tasks or more, or nothing. `check_dependencies` reports a task that depends on itself."""
    waiting = {name: {other for other in others if other in graph and other != name} for name, others in graph.items()}
    dependents: dict[str, list[str]] = {name: [] for name in graph}
    for name, others in waiting.items():
        for other in others:
            dependents[other].append(name)
    # Remove tasks without dependencies until none is left; the remaining tasks are on a cycle or depend on one.
    ready = [name for name, others in waiting.items() if not others]
    while ready:
        started = ready.pop()
        del waiting[started]
        for name in dependents[started]:
            waiting[name].remove(started)
            if not waiting[name]:
                ready.append(name)
    return _walk(waiting) if waiting else []


def _walk(waiting: Mapping[str, Collection[str]]) -> list[str]:
    """Follow dependencies until a task repeats, and return the cycle."""
    trail: dict[str, int] = {}
    name = min(waiting)
    while name not in trail:
        trail[name] = len(trail)
        name = min(waiting[name])
    return list(trail)[trail[name] :]

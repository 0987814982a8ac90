"""dependsOn: which tasks may start. Existing pods are never deleted for it."""

from __future__ import annotations

from pumice.model.job import Job, TaskSpec
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.state import State


def may_start(state: State) -> frozenset[str]:
    """The tasks whose dependencies are met, or that have started already."""
    job, ledger = state.job, state.ledger
    if all(task.depends_on is None for task in job.spec.tasks):
        return frozenset(task.name for task in job.spec.tasks)
    current = [pod for pod in state.pods.current if not pod.is_deleting]
    started = {pod.task for pod in current} | {task for task, indexes in ledger.succeeded.items() if indexes}
    return frozenset(
        task.name for task in job.spec.tasks if task.name in started or _is_met(task, job, current, ledger)
    )


def _is_met(task: TaskSpec, job: Job, current: list[ObservedPod], ledger: Ledger) -> bool:
    wanted = task.depends_on
    if wanted is None or not wanted.name:
        return True
    others = [other for other in job.spec.tasks if other.name in wanted.name]
    ready = [_is_ready(other, current, ledger, completed=wanted.condition == "Completed") for other in others]
    # "any" means something only where there is a choice.
    return any(ready) if wanted.iteration == "any" and len(wanted.name) > 1 else all(ready)


def _is_ready(task: TaskSpec, current: list[ObservedPod], ledger: Ledger, *, completed: bool) -> bool:
    succeeded = set(ledger.succeeded.get(task.name, frozenset()))
    running = set()
    for pod in current:
        if pod.task == task.name and pod.phase is PodPhase.SUCCEEDED:
            succeeded.add(pod.index)
        elif pod.task == task.name and pod.phase is PodPhase.RUNNING and pod.ready:
            running.add(pod.index)
    if completed:
        return len(succeeded) >= task.replicas
    return len(succeeded | running) >= task.min_members

"""Checks the names of pods, tasks and containers that a user gives against those that a run has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from pumice.model.job import Job
from pumice.model.pod import all_containers
from pumice.model.problem import Position
from pumice.model.slot import Slot, slots
from pumice.model.suggestions import known_names
from pumice.store.logs.log_reader import LogSelection
from pumice.store.run_errors import NoSuchPod

_SHOWN: Final = 3  # pods of a task that a hint names


class RunNames(Struct, frozen=True):
    """`pods` and `containers` are those that exist or existed, besides the containers that the Job plans."""

    run: str
    job: Job
    pods: Sequence[str]
    containers: Iterable[str]

    def check(self, selection: LogSelection, *, follow: bool) -> None:
        """Raises NoSuchPod for what the run does not have; pods of followed logs may come later."""
        run, tasks = self.run, [task.name for task in self.job.spec.tasks]
        for task in sorted(selection.tasks - {*tasks}):
            raise NoSuchPod(f"{task}: no such task of {run}", known_names(task, tasks), Position(option="task"))
        for pod in sorted(selection.pods - {*self.pods}):
            if not (follow and pod.rpartition("-")[0] in tasks):
                raise NoSuchPod(f"{run}/{pod}: no such pod", known_names(pod, self.pods))
        planned = [str(each["name"]) for task in self.job.spec.tasks for each in all_containers(task.pod_spec)]
        names, name = list(dict.fromkeys((*planned, *self.containers))), selection.container
        if name and name not in names and not follow:
            known = known_names(name, names)
            raise NoSuchPod(f"{name}: no such container of {run}", known, Position(option="container"))


def planned_pod(ref: str, job: Job, name: str) -> Slot:
    """Return the place of a pod that does not exist. Raises NoSuchPod if the Job plans none of this name."""
    slot = next((each for each in slots(job) if each.short_name == name), None)
    if slot is None:
        known = ", ".join(each.short_name for each in slots(job) if each.index < _SHOWN)
        raise NoSuchPod(f"{ref}: no such pod", f"it has {known}")
    return slot

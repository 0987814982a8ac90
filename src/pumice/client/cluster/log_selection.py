"""Which lines of a Job's logs a user may ask for."""

from __future__ import annotations

from pumice.client.cluster.archive.kept_logs import check_attempt
from pumice.client.cluster.job_facts import JobFacts
from pumice.model.pod import all_containers
from pumice.model.problem import Position
from pumice.model.slot import slots
from pumice.model.suggestions import known_names
from pumice.store.logs.log_reader import LogSelection
from pumice.store.run_errors import Denied, NoSuchPod


def check_selection(facts: JobFacts, selection: LogSelection, *, follow: bool) -> None:
    """Refuse pods, tasks and containers that the Job does not have. Raises NoSuchPod; Denied without the right."""
    job = facts.job
    if "pods" in facts.unreadable:
        raise Denied(f"{job.name}: its pods are not readable for you", "ask for get, list and watch of pods")
    tasks = [task.name for task in job.spec.tasks]
    for task in sorted(selection.tasks - {*tasks}):
        raise NoSuchPod(f"{task}: no such task of {job.name}", known_names(task, tasks), Position(option="task"))
    pods = list(dict.fromkeys([*(s.short_name for s in slots(job)), *(p.observed.short_name for p in facts.pods)]))
    for pod in sorted(selection.pods - {*pods}):
        if not (follow and pod.rpartition("-")[0] in tasks):
            raise NoSuchPod(f"{job.name}/{pod}: no such pod", known_names(pod, pods))
    if selection.attempt and not follow:
        check_attempt(job, selection.attempt, [each.observed for each in facts.pods], facts.kept)
    if not selection.container or follow:
        return
    containers = [str(each["name"]) for task in job.spec.tasks for each in all_containers(task.pod_spec)]
    containers = list(dict.fromkeys([*containers, *(each.name for pod in facts.pods for each in pod.containers)]))
    if selection.container not in containers:
        known = known_names(selection.container, containers)
        raise NoSuchPod(f"{selection.container}: no such container of {job.name}", known, Position(option="container"))

"""What is looked at before anything starts: whether the gang fits this machine, and whether pods lack something."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pumice.engines.local.scheduling.fit import Fit, shortfall
from pumice.model import keys
from pumice.model.job import Job, Manifest
from pumice.model.objects import claims
from pumice.model.problem import Problem
from pumice.model.quantity import Quantity
from pumice.model.vocabulary import Action, Event

Locate = Callable[[str], str]  # a path in the Job -> file:line
Found = tuple[Manifest, Manifest, Sequence[Problem]]  # a pod, one of its containers, and what is wrong with it


class RefusedError(Exception):
    """The job cannot be run here as it is; the message says why and what would help."""


def gang(job: Job, manifests: Sequence[Manifest]) -> list[Manifest]:
    """The pods that have to run at once: what each task must have, then the first ones up to minAvailable.

    A job that asks for fewer pods than its tasks do together means any of them, as in Volcano.
    """
    counts = job.spec.min_available >= sum(task.min_members for task in job.spec.tasks)
    left = {task.name: (task.min_available or 0) if counts else 0 for task in job.spec.tasks}
    chosen, others = [], []
    for manifest in manifests:
        task = _task(manifest)
        if left[task] > 0:
            left[task] -= 1
            chosen.append(manifest)
        else:
            others.append(manifest)
    missing = max(0, job.spec.min_available - len(chosen))
    return [*chosen, *others[:missing]]


def check_fit(job: Job, found: Fit, locate: Locate) -> None:
    if found.fits:
        return
    largest = max(job.spec.tasks, key=lambda task: task.replicas)
    fewer = largest.replicas - (found.pods - found.fitting)
    short = found.short or (found.rows[0].name,)
    advice = [
        # Fewer pods help only where one fits at all.
        *([f"--scale {largest.name}={fewer}"] if fewer > 0 else []),
        "lower " + " and ".join(_largest_request(job, resource, locate) for resource in short),
        *([f"lower minAvailable ({locate('spec.minAvailable')})"] if found.pods > 1 else []),
    ]
    file = locate("spec").rpartition(":")[0]
    needs = "1 pod" if found.pods == 1 else f"{found.pods} pods at once (minAvailable)"
    fitting = "1 fits" if found.fitting == 1 else f"{found.fitting} fit"
    lines = [f"{file}: needs {needs}, {fitting} on this machine", *shortfall(found), f"  hint: {', or '.join(advice)}"]
    raise RefusedError("\n".join(lines))


def _largest_request(job: Job, resource: str, locate: Locate) -> str:
    """Where the job asks for most of the resource; where only a plugin does, no place can be named."""
    asked: list[tuple[Quantity, str, str]] = []
    for index, task in enumerate(job.spec.tasks):
        for kind in ("containers", "initContainers") if task.replicas else ():
            for number, container in enumerate(task.pod_spec.get(kind) or []):
                amounts = container.get("resources") or {}
                # A limit counts as a request only where there is none.
                word = "requests" if resource in (amounts.get("requests") or {}) else "limits"
                if resource in (amounts.get(word) or {}):
                    path = f"spec.tasks[{index}].template.spec.{kind}[{number}].resources.{word}.{resource}"
                    asked.append((Quantity.parse(amounts[word][resource]), word, path))
    if not asked:
        return f"resources.requests.{resource}"
    _, word, path = max(asked, key=lambda each: each[0])
    return f"resources.{word}.{resource} ({locate(path)})"


def claims_at_hand(job: Job, documents: Sequence[Manifest], state: Path) -> dict[str, Path]:
    """The claims of the user's files and those made for the job. Each is a directory, kept by its name."""
    named = [str(each["metadata"]["name"]) for each in documents if each.get("kind") == "PersistentVolumeClaim"]
    made = [str(claim["metadata"]["name"]) for claim in claims(job)]
    return {name: state / "claims" / name for name in dict.fromkeys([*named, *made])}


def claim_directories(places: Iterable[Path]) -> None:
    """Open to whatever user a container runs as; the directory around them is closed."""
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not place.exists():
            place.mkdir()
            place.chmod(0o777)


def check_problems(job: Job, found: Iterable[Found], locate: Locate) -> None:
    """The same mistake in many pods is told once."""
    told: dict[str, str] = {}
    for manifest, container, problems in found:
        for problem in problems:
            if problem.fatal and problem.text not in told:
                annotations = manifest["metadata"]["annotations"]
                pod = f"{annotations[keys.TASK_SPEC]}-{annotations[keys.TASK_INDEX]}"
                place = locate(container_path(job, annotations[keys.TASK_SPEC], str(container["name"])))
                told[problem.text] = f"{place}: {pod}: container {container['name']}"
    if told:
        raise RefusedError("\n".join(f"{place}: {problem}" for problem, place in told.items()))


def container_path(job: Job, task: str, container: str) -> str:
    """Of one that a plugin has added, the path of its task."""
    index = next(number for number, each in enumerate(job.spec.tasks) if each.name == task)
    for kind in ("containers", "initContainers"):
        listed = job.spec.tasks[index].pod_spec.get(kind) or []
        for number, each in enumerate(listed):
            if each.get("name") == container:
                return f"spec.tasks[{index}].template.spec.{kind}[{number}]"
    return f"spec.tasks[{index}]"


def what_ends_restarts(job: Job, task_name: str) -> str:
    """The policy that would end a job whose containers are restarted over and over; empty if it has one."""
    task = next(task for task in job.spec.tasks if task.name == task_name)
    for policy in (*task.policies, *job.spec.policies):
        if {Event.ANY, Event.TASK_FAILED} & set(policy.all_events):
            return ""
    return (
        f"a policy {{event: {Event.TASK_FAILED}, action: {Action.TERMINATE_JOB}}} of task {task_name} would end the job"
        f" after {task.max_retry} restarts (its maxRetry)"
    )


def _task(manifest: Manifest) -> str:
    return str(manifest["metadata"]["annotations"][keys.TASK_SPEC])

"""Checks before anything starts: that the gang fits this machine, and that containers have what they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pumice.engines.local.host_access.access import HostAccess
from pumice.engines.local.host_access.consent import check_consent, notes
from pumice.engines.local.host_access.never_shared import why_not
from pumice.engines.local.options import Locate, at
from pumice.engines.local.run_errors import RefusedError
from pumice.engines.local.scheduling.fit import Fit, shortfall
from pumice.engines.local.state.claims import claim_directory, make_claim_directories
from pumice.engines.local.state.settings import Settings
from pumice.model import keys
from pumice.model.findings import SPEC
from pumice.model.findings import Path as JobPath
from pumice.model.job import Job, Manifest
from pumice.model.objects import claims
from pumice.model.pod import containers_with_paths
from pumice.model.problem import Position, Problem
from pumice.model.quantity import Quantity
from pumice.model.vocabulary import Action, Event

Found = tuple[Manifest, Manifest, Sequence[Problem]]  # a pod, one of its containers, and what is wrong with it


def gang(job: Job, manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return the pods that must run at once: minAvailable of each task, then the first ones up to the job's.

    A job whose minAvailable is less than the sum of its tasks' accepts any pods, as in Volcano.
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
    """Raises RefusedError with the shortfall and what would help."""
    if found.fits:
        return
    largest = max(job.spec.tasks, key=lambda task: task.replicas)
    fewer = largest.replicas - (found.pods - found.fitting)
    short = found.short or (found.rows[0].name,)
    advice = [
        # Fewer pods help only where one fits at all.
        *([f"--scale {largest.name}={fewer}"] if fewer > 0 else []),
        "lower " + " and ".join(_largest_request(job, resource, locate) for resource in short),
        *([f"lower minAvailable{at(locate, SPEC / 'minAvailable')}"] if found.pods > 1 else []),
    ]
    needs = "1 pod" if found.pods == 1 else f"{found.pods} pods at once (minAvailable)"
    fitting = "1 fits" if found.fitting == 1 else f"{found.fitting} fit"
    message = "\n".join((f"needs {needs}, {fitting} on this machine", *shortfall(found)))
    raise RefusedError(message, ", or ".join(advice), Position(locate(SPEC).file))


def _largest_request(job: Job, resource: str, locate: Locate) -> str:
    """Name the largest request for the resource; without a position where a plugin made it."""
    found: list[tuple[Quantity, str, JobPath]] = []
    for index, task in enumerate(job.spec.tasks):
        paths = containers_with_paths(task.pod_spec, _task_path(index) / "template" / "spec") if task.replicas else ()
        for path, container in paths:
            resources = container.get("resources") or {}
            # A limit counts as a request only where there is none.
            kind = "requests" if resource in (resources.get("requests") or {}) else "limits"
            if resource in (resources.get(kind) or {}):
                found.append((Quantity.parse(resources[kind][resource]), kind, path / "resources" / kind / resource))
    if not found:
        return f"resources.requests.{resource}"
    _, kind, path = max(found, key=lambda each: each[0])
    return f"resources.{kind}.{resource}{at(locate, path)}"


def claim_paths(job: Job, documents: Sequence[Manifest], state: Path) -> dict[str, Path]:
    """Return the directory of each claim, of the user's files and of the job, by its name."""
    named = [str(each["metadata"]["name"]) for each in documents if each.get("kind") == "PersistentVolumeClaim"]
    made = [str(claim["metadata"]["name"]) for claim in claims(job)]
    namespace = job.namespace or "default"
    return {name: claim_directory(state, namespace, name) for name in dict.fromkeys([*named, *made])}


def create_claim_directories(directories: Iterable[Path]) -> None:
    """Make those that do not exist, once nothing keeps the job from running."""
    make_claim_directories(directories)


def check_host_access(
    settings: Settings, manifests: Iterable[Manifest], environ: Mapping[str, str]
) -> tuple[Sequence[HostAccess], Sequence[str]]:
    """Return what the job uses of this machine's files, and notes for the header. Raises RefusedError."""
    return check_consent(settings, manifests, environ), notes(settings, environ)


def preflight_warnings(settings: Settings) -> Iterator[str]:
    if not settings.share_workdir:
        hint = "change to a directory of your own, or name one with --mount PATH"
        yield f"the working directory is not shared: {why_not(settings.workdir)}\n  hint: {hint}"


def check_problems(job: Job, found: Iterable[Found], locate: Locate) -> None:
    """Raises RefusedError with all fatal problems; one that many pods have is reported for the first of them."""
    problems: dict[Problem, Problem] = {}
    for manifest, container, of_container in found:
        for problem in of_container:
            if problem.fatal and problem not in problems:
                annotations = manifest["metadata"]["annotations"]
                task, name = str(annotations[keys.TASK_SPEC]), str(container["name"])
                message = f"{task}-{annotations[keys.TASK_INDEX]}: container {name}: {problem.message}"
                problems[problem] = Problem(message, problem.hint, locate(container_path(job, task, name)))
    if problems:
        raise RefusedError.of(list(problems.values()))


def container_path(job: Job, task: str, container: str) -> JobPath:
    """Return the path of a container, or of its task where a plugin added the container."""
    index = job.task_names.index(task)
    path = _task_path(index)
    found = containers_with_paths(job.spec.tasks[index].pod_spec, path / "template" / "spec")
    return next((each for each, manifest in found if manifest.get("name") == container), path)


def _task_path(index: int) -> JobPath:
    return SPEC / "tasks" / index


def what_ends_restarts(job: Job, task_name: str) -> str:
    """Return the policy that would end a job whose containers keep failing; empty if the job has one."""
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

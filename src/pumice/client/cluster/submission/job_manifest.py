"""The Job that is sent: the one of the file, with what the options change. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict

import msgspec
from msgspec import Struct

from pumice.admission.admit import admit_stored
from pumice.admission.names import is_generated
from pumice.model import keys, naming
from pumice.model.findings import SPEC
from pumice.model.job import HOST_IMAGE, Job, Manifest, scaled
from pumice.model.problem import Position, Problem
from pumice.model.suggestions import did_you_mean
from pumice.runtime.offline_context import offline_context
from pumice.store.options import ClusterOptions, RunOptions, secret_names
from pumice.store.run_errors import InvalidOption
from pumice.store.run_request import RunRequest

_OURS: Final = (
    keys.SUBMISSION,
    keys.SUBMITTED_BY,
    keys.ADDED,
    keys.CODE,
    keys.CODE_FROM,
    keys.NOTE,
    keys.ARGS,
    keys.TIMED_OUT,
)
_LISTS: Final = ("initContainers", "containers")


class Marks(Struct, frozen=True):
    """What tells this submission from others."""

    submission: str  # a random word
    user: str = ""  # as the API server knows the caller

    @property
    def env_secret(self) -> str:
        """The name of the Secret with the caller's own variables."""
        return f"{naming.OWN_VARIABLES}{self.submission}"


def job_manifest(request: RunRequest, namespace: str, marks: Marks) -> Manifest:
    """Return the Job of a request as it is sent, without its code. Raises InvalidOption with all problems."""
    written, options = request.job.written, request.options
    cluster = options.cluster or ClusterOptions()
    problems = [*_problems(request, cluster)]
    if problems:
        raise InvalidOption.of(problems)
    plain: Manifest = msgspec.to_builtins(_scaled(written, options.scale))
    metadata: Manifest = {
        name: value for name, value in plain.get("metadata", {}).items() if name in ("labels", "annotations")
    }
    # What an earlier submission wrote is not true of this one.
    own = {name: text for name, text in metadata.get("annotations", {}).items() if name not in _OURS}
    annotations = {**own, keys.SUBMISSION: marks.submission}
    args = msgspec.json.encode(options.args).decode() if options.args else ""
    given = {keys.SUBMITTED_BY: marks.user, keys.NOTE: options.note, keys.ARGS: args}
    annotations |= {name: text for name, text in given.items() if text}
    name = {"generateName": written.metadata.generate_name}
    if cluster.name or not is_generated(written.metadata):
        name = {"name": cluster.name or written.name}
    chosen = {"queue": cluster.queue, "priorityClassName": cluster.priority_class}
    spec = {**plain["spec"], **{field: value for field, value in chosen.items() if value}}
    spec["tasks"] = [_task(task, options, cluster, marks) for task in spec["tasks"]]
    manifest: Manifest = {
        "apiVersion": written.api_version,
        "kind": written.kind,
        "metadata": {**name, "namespace": namespace, **metadata, "annotations": annotations},
        "spec": spec,
    }
    return with_added(manifest, _added_variables(plain["spec"]["tasks"], options.settings.env))


def secret_variables(options: RunOptions) -> Mapping[str, str]:
    """Return the variables whose values are not in the Job, as they are not in the record of a run on this machine."""
    return {name: options.settings.env[name] for name in secret_names(options)}


def _problems(request: RunRequest, cluster: ClusterOptions) -> Iterator[Problem]:
    job = request.job.job
    for name in request.options.scale:
        if name not in job.task_names:
            hint = f"{did_you_mean(name, job.task_names)} it has {', '.join(job.task_names)}".lstrip()
            yield Problem(f"{name}: the job has no task {name}", hint, Position(option="scale"))
    images = dict.fromkeys(str(each.get("image") or "") for _, each in _containers(job))
    for image in cluster.images:
        if image not in images:
            yield Problem(
                f"no container has the image {image}", f"it has {', '.join(images)}", Position(option="image")
            )
    for path, container in _containers(job):
        image = container.get("image") or HOST_IMAGE
        if image == HOST_IMAGE and image not in cluster.images:
            where = request.source(path)
            message = "is missing: on this machine the host serves as image, on a cluster nothing does"
            yield Problem(f"{path}: {message}", "write image: NAME", where)


def _scaled(written: Job, scale: Mapping[str, int]) -> Job:
    """Raises InvalidOption if the job cannot have these sizes."""
    if not scale:
        return written
    spec = scaled(written.spec, scale)
    if spec.min_success is not None:
        total = sum(task.replicas for task in spec.tasks)
        spec = msgspec.structs.replace(spec, min_success=min(spec.min_success, total))
    changed = msgspec.structs.replace(written, spec=spec)
    findings = admit_stored(changed, offline_context()).findings
    errors = dict.fromkeys(f"{each.path}: {each.message}" for each in findings if each.is_error)
    if errors:
        raise InvalidOption.of([Problem(error, where=Position(option="scale")) for error in errors])
    return changed


def _containers(job: Job) -> Iterator[tuple[Any, Manifest]]:
    for index, task in enumerate(job.spec.tasks):
        for field in _LISTS:
            for number, container in enumerate(task.pod_spec.get(field) or ()):
                path = SPEC / "tasks" / index / "template" / "spec" / field / number / "image"
                yield path, container


def _task(task: Manifest, options: RunOptions, cluster: ClusterOptions, marks: Marks) -> Manifest:
    hidden = secret_variables(options)
    entries = [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": marks.env_secret, "key": variable}}}
        if variable in hidden
        else {"name": variable, "value": value}
        for variable, value in options.settings.env.items()
    ]

    def changed(container: Manifest) -> Manifest:
        image = cluster.images.get(str(container.get("image") or HOST_IMAGE))
        result = {**container, "image": image} if image else {**container}
        if entries:
            own = [each for each in container.get("env") or () if each.get("name") not in options.settings.env]
            result["env"] = [*entries, *own]
        return result

    return with_containers(task, changed)


def with_containers(task: Manifest, changed: Callable[[Manifest], Manifest]) -> Manifest:
    """Return a task with other containers, init containers too."""
    template = task.get("template") or {}
    spec = template.get("spec") or {}
    lists = {field: [changed(each) for each in spec[field]] for field in _LISTS if spec.get(field)}
    return {**task, "template": {**template, "spec": {**spec, **lists}}}


# --- what is taken out again --------------------------------------------------------------------------------------


class Before(TypedDict, total=False):
    """What fields of a container were before; None if they were not there."""

    env: dict[str, dict[str, Any] | None]  # by the name of the variable
    workingDir: str | None


Added = dict[str, Before]  # by `TASK/CONTAINER`


def _added_variables(tasks: Sequence[Manifest], env: Mapping[str, str]) -> Added:
    if not env:
        return {}
    found: Added = {}
    for task in tasks:
        for container in all_of(task):
            before = {each["name"]: each for each in container.get("env") or () if each.get("name") in env}
            found[added_key(task, container)] = {"env": {name: before.get(name) for name in env}}
    return found


def all_of(task: Manifest) -> list[Manifest]:
    spec = (task.get("template") or {}).get("spec") or {}
    return [container for field in _LISTS for container in spec.get(field) or ()]


def added_key(task: Manifest, container: Manifest) -> str:
    return f"{task.get('name', '')}/{container.get('name', '')}"


def with_added(manifest: Manifest, added: Added) -> Manifest:
    """Return a Job whose annotation also says this."""
    annotations = manifest["metadata"].get("annotations") or {}
    merged = read_added(manifest)
    for key, fields in added.items():
        merged[key] = merged.get(key, Before()) | fields
    if not merged:
        return manifest
    text = msgspec.json.encode(merged).decode()
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": {**annotations, keys.ADDED: text}}}


def read_added(manifest: Manifest) -> Added:
    text = (manifest["metadata"].get("annotations") or {}).get(keys.ADDED, "{}")
    try:
        return msgspec.json.decode(text, type=Added)
    except msgspec.MsgspecError:
        # Somebody edited it.
        return {}


def without_variables(manifest: Manifest) -> Manifest:
    """Return a Job without the variables that `--env` put in."""
    added = read_added(manifest)

    def plain(task: Manifest) -> Manifest:
        def changed(container: Manifest) -> Manifest:
            before = added.get(added_key(task, container), Before()).get("env")
            if not before:
                return container
            own = [each for each in container.get("env") or () if each.get("name") not in before]
            env = [*(each for each in before.values() if each is not None), *own]
            rest = {name: value for name, value in container.items() if name != "env"}
            return {**rest, "env": env} if env else rest

        return with_containers(task, changed)

    spec = manifest["spec"]
    return {**manifest, "spec": {**spec, "tasks": [plain(task) for task in spec.get("tasks") or ()]}}

"""Jobs as Python code: `job` and `task` return the same values as a Job file, so code and YAML are interchangeable.

A function is named by reference, `module:function`, and imported by the pod. It is not pickled, so the Job can be
written as YAML, needs no Pumice in the image and runs on a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pumice.engines.local.run_errors import InvalidOption
from pumice.model.job import (
    HOST_IMAGE,
    DependsOn,
    Job,
    JobSpec,
    LifecyclePolicy,
    Manifest,
    Metadata,
    TaskSpec,
    VolumeSpec,
)
from pumice.model.problem import Position
from pumice.plugins.base import Base

_CALL: Final = (
    "import importlib, json, operator, sys; "
    "operator.attrgetter(sys.argv[2])(importlib.import_module(sys.argv[1]))(**json.loads(sys.argv[3]))"
)
_GPU: Final = "nvidia.com/gpu"


def task(  # noqa: PLR0913 - keyword arguments, as fields of a pod
    name: str,
    *,
    image: str = "",
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    function: str | Callable[..., object] = "",
    kwargs: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    cpu: float | str | None = None,
    memory: str | None = None,
    gpu: int | None = None,
    replicas: int = 1,
    min_available: int | None = None,
    working_dir: str = "",
    restart_policy: str = "Never",
    depends_on: Sequence[str] | DependsOn = (),
    policies: Sequence[LifecyclePolicy] = (),
    max_restarts: int | None = None,
) -> TaskSpec:
    """Return a task of equal pods with one container.

    Without an image, this machine's own files serve as image. `function` (`module:function`, or a function that can be
    imported) is called with `kwargs` instead of a command; it needs `python` in the image. `cpu`, `memory` and `gpu`
    are requests and limits of each pod. Raises InvalidOption.
    """
    if function:
        if command or args:
            raise InvalidOption(
                "cannot be combined with command or args", "leave out one of them", Position("function")
            )
        command = _call(function, kwargs or {})
    elif kwargs is not None:
        raise InvalidOption("needs function", 'such as function="train:main"', Position("kwargs"))
    container: Manifest = {"name": name, "image": image or HOST_IMAGE}
    container |= {"command": list(command)} if command else {}
    container |= {"args": list(args)} if args else {}
    container |= {"env": [{"name": key, "value": value} for key, value in env.items()]} if env else {}
    container |= {"workingDir": working_dir} if working_dir else {}
    amounts = {"cpu": cpu, "memory": memory, _GPU: gpu}
    limits = {resource: str(amount) for resource, amount in amounts.items() if amount is not None}
    container |= {"resources": {"limits": limits, "requests": dict(limits)}} if limits else {}
    needed = depends_on if isinstance(depends_on, DependsOn) else DependsOn(name=list(depends_on))
    return TaskSpec(
        name=name,
        replicas=replicas,
        min_available=min_available,
        template={"spec": {"restartPolicy": restart_policy, "containers": [container]}},
        policies=list(policies),
        max_restarts=max_restarts,
        depends_on=needed if needed.name else None,
    )


def job(  # noqa: PLR0913 - keyword arguments, as fields of a Job
    name: str,
    *,
    tasks: Sequence[TaskSpec],
    plugins: Sequence[Base] | Mapping[str, Sequence[str]] = (),
    policies: Sequence[LifecyclePolicy] = (),
    max_retry: int | None = None,
    min_available: int | None = None,
    min_success: int | None = None,
    active_deadline_seconds: int | None = None,
    ttl_seconds_after_finished: int | None = None,
    priority_class_name: str = "",
    queue: str = "",
    volumes: Sequence[VolumeSpec] = (),
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Job:
    """Return a Job. It is checked when it is submitted, as a file is. Raises InvalidJob for a plugin's bad argument."""
    if isinstance(plugins, Mapping):
        arguments: dict[str, list[str] | None] = {name: list(args) for name, args in plugins.items()}
    else:
        arguments = {plugin.name: plugin.args() for plugin in plugins}
    return Job(
        metadata=Metadata(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        ),
        spec=JobSpec(
            tasks=list(tasks),
            plugins=arguments,
            policies=list(policies),
            max_retry=max_retry or 0,
            min_available=min_available or 0,
            min_success=min_success,
            active_deadline_seconds=active_deadline_seconds,
            ttl_seconds_after_finished=ttl_seconds_after_finished,
            priority_class_name=priority_class_name,
            queue=queue,
            volumes=list(volumes),
        ),
    )


def _call(function: str | Callable[..., object], kwargs: Mapping[str, object]) -> list[str]:
    """Return the command that imports a function and calls it."""
    module, name = function.split(":", 1) if isinstance(function, str) and ":" in function else _reference(function)
    if not all(part.isidentifier() for path in (module, name) for part in path.split(".")):
        raise _refused(function, "must be module:function, such as train:main")
    try:
        text = json.dumps(dict(kwargs), allow_nan=False)
    except (TypeError, ValueError) as error:
        hint = "arguments travel as JSON: numbers, strings, lists and mappings"
        raise InvalidOption(str(error), hint, Position("kwargs")) from error
    return ["python", "-c", _CALL, module, name, text]


def _reference(function: str | Callable[..., object]) -> tuple[str, str]:
    """Return module and name of a function that a pod can import. Raises InvalidOption."""
    module, name = str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", ""))
    if isinstance(function, str) or not module or not name:
        raise _refused(function, "must be module:function, such as train:main, or a function")
    if "<lambda>" in name:
        raise _refused(name, "a lambda has no name by which a pod could import it")
    if "<locals>" in name:
        raise _refused(name, "a function inside another one cannot be imported by a pod")
    if module == "__main__":
        raise _refused(name, "a function of a script or a notebook cell (__main__) cannot be imported by a pod")
    return module, name


def _refused(function: object, why: str) -> InvalidOption:
    hint = 'move it to a module that the pod can import, and name it: function="train:main"'
    return InvalidOption(f"{function}: {why}", hint, Position("function"))

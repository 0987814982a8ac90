"""Jobs as Python code: `job` and `task` return the same values as a Job file, so code and YAML are interchangeable.

A function is named by reference, `module:function`, and imported by the pod. It is not pickled, so the Job can be
written as YAML, needs no Pumice in the image and runs on a cluster.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

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
from pumice.model.resources import GPU
from pumice.model.suggestions import did_you_mean
from pumice.plugins.base import Base
from pumice.store.run_errors import InvalidOption

T = TypeVar("T")
_CALL: Final = (
    "import importlib, json, operator, sys; "
    "operator.attrgetter(sys.argv[2])(importlib.import_module(sys.argv[1]))(**json.loads(sys.argv[3]))"
)

_LONGEST: Final = 100_000  # bytes; Linux refuses an argument of 128 KiB


def task(  # noqa: PLR0913 - keyword arguments, as fields of a pod
    name: str,
    *,
    image: str = "",
    command: Sequence[str | os.PathLike[str]] = (),
    args: Sequence[str | os.PathLike[str]] = (),
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
    depends_on: str | Sequence[str] | Mapping[str, Any] | DependsOn = (),
    policies: Sequence[LifecyclePolicy] = (),
    max_restarts: int | None = None,
) -> TaskSpec:
    """Return a task of equal pods with one container.

    Without an image, this machine's own files serve as image. `function` (`module:function`, or a function that can be
    imported) is called with `kwargs` instead of a command; it needs `python` in the image. `cpu`, `memory` and `gpu`
    are requests and limits of each pod. `depends_on` names tasks that must run first, or is a mapping with the fields
    of `dependsOn`. Raises InvalidOption.
    """
    if function:
        if command or args:
            raise InvalidOption(
                "cannot be combined with command or args", "leave out one of them", Position("function")
            )
        command = _call(function, kwargs or {})
    elif kwargs is not None:
        raise InvalidOption("needs function", 'such as function="train:main"', Position("kwargs"))
    elif not command and not image:
        hint = "without an image, there is no program that a pod would start by itself"
        raise InvalidOption("needs command, function or image", hint, Position(f"task {name}"))
    container: Manifest = {"name": name, "image": image or HOST_IMAGE}
    container |= {"command": words("command", command)} if command else {}
    container |= {"args": words("args", args)} if args else {}
    container |= {"env": [{"name": key, "value": value} for key, value in env.items()]} if env else {}
    container |= {"workingDir": working_dir} if working_dir else {}
    amounts = {"cpu": cpu, "memory": memory, GPU: gpu}
    limits = {resource: str(amount) for resource, amount in amounts.items() if amount is not None}
    container |= {"resources": {"limits": limits, "requests": dict(limits)}} if limits else {}
    needed = _dependencies(depends_on)
    return TaskSpec(
        name=name,
        replicas=replicas,
        min_available=min_available,
        template={"spec": {"restartPolicy": restart_policy, "containers": [container]}},
        policies=_several("policies", policies, LifecyclePolicy, "Policy"),
        max_restarts=max_restarts,
        depends_on=needed if needed.name else None,
    )


def job(  # noqa: PLR0913 - keyword arguments, as fields of a Job
    name: str,
    *,
    tasks: Sequence[TaskSpec],
    plugins: Sequence[Base | str] | Mapping[str, Sequence[str] | None] = (),
    policies: Sequence[LifecyclePolicy] = (),
    max_retry: int | None = None,
    min_available: int | None = None,
    min_success: int | None = None,
    active_deadline_seconds: int | None = None,
    ttl_seconds_after_finished: int | None = None,
    priority_class_name: str = "",
    queue: str = "",
    volumes: Mapping[str, str | Mapping[str, Any]] | Sequence[VolumeSpec] = (),
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Job:
    """Return a Job. It is checked when it is submitted, as a file is.

    A plugin is an object of its class, a name, or in a mapping a name with arguments. `volumes` maps the path in every
    container to the name of a claim, or to the spec of a claim that is made for the job. Raises InvalidJob for a
    plugin's bad argument, and InvalidOption.
    """
    return Job(
        metadata=Metadata(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        ),
        spec=JobSpec(
            tasks=_several("tasks", tasks, TaskSpec, "task"),
            plugins=_arguments(plugins),
            policies=_several("policies", policies, LifecyclePolicy, "Policy"),
            max_retry=max_retry or 0,
            min_available=min_available or 0,
            min_success=min_success,
            active_deadline_seconds=active_deadline_seconds,
            ttl_seconds_after_finished=ttl_seconds_after_finished,
            priority_class_name=priority_class_name,
            queue=queue,
            volumes=_volumes(volumes),
        ),
    )


def words(option: str, given: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the words of a command. Raises InvalidOption for a command line: its words would be single characters."""
    if isinstance(given, str):
        some = json.dumps(given.split() or ["python", "train.py"], ensure_ascii=False)
        hint = '["sh", "-c", "..."] starts a shell'
        raise InvalidOption(f"{given!r}: must be a list of words, such as {some}", hint, Position(option))
    return [os.fspath(word) if isinstance(word, os.PathLike) else word for word in given]


def _several(option: str, given: Sequence[T], kind: type[T], maker: str) -> list[T]:
    """Return a list. Raises InvalidOption for a single value, and for values of another kind."""
    accepted = f"must be a list of what pumice.{maker}(...) returns"
    if isinstance(given, kind | str | Mapping):
        raise InvalidOption(accepted, f"write {option}=[...]", Position(option))
    for each in given:
        if not isinstance(each, kind):
            raise InvalidOption(f"{each!r}: {accepted}", "", Position(option))
    return list(given)


def _arguments(plugins: Sequence[Base | str] | Mapping[str, Sequence[str] | None]) -> dict[str, list[str] | None]:
    """Return the arguments of plugins by name."""
    if isinstance(plugins, Mapping):
        return {name: None if args is None else words(f"plugins[{name!r}]", args) for name, args in plugins.items()}
    one: object = plugins
    if isinstance(one, Base | str):
        raise InvalidOption("must be a list", "write plugins=[...]", Position("plugins"))
    found: dict[str, list[str] | None] = {}
    for plugin in plugins:
        each: object = plugin
        if not isinstance(each, Base | str):
            hint = 'such as PyTorch(master="worker") of pumice.plugins, or "env"'
            raise InvalidOption(f"{each!r}: must be a plugin or its name", hint, Position("plugins"))
        name = plugin if isinstance(plugin, str) else plugin.name
        if name in found:
            raise InvalidOption(f"{name}: given twice", "a job has each plugin once", Position("plugins"))
        found[name] = [] if isinstance(plugin, str) else plugin.args()
    return found


def _dependencies(given: str | Sequence[str] | Mapping[str, Any] | DependsOn) -> DependsOn:
    if isinstance(given, DependsOn):
        return given
    if not isinstance(given, Mapping):
        return DependsOn(name=[given] if isinstance(given, str) else list(given))
    known = DependsOn.__struct_encode_fields__
    if unknown := next((field for field in given if field not in known), ""):
        hint = f"{did_you_mean(unknown, known)} there are {', '.join(known)}".lstrip()
        raise InvalidOption(f"{unknown}: unknown", hint, Position("depends_on"))
    try:
        return msgspec.convert(given, DependsOn)
    except msgspec.ValidationError as error:
        raise InvalidOption(str(error), 'such as {"name": ["worker"]}', Position("depends_on")) from error


def _volumes(given: Mapping[str, str | Mapping[str, Any]] | Sequence[VolumeSpec]) -> list[VolumeSpec]:
    if not isinstance(given, Mapping):
        return list(given)
    return [
        VolumeSpec(mount_path=path, volume_claim_name=claim)
        if isinstance(claim, str)
        else VolumeSpec(mount_path=path, volume_claim=dict(claim))
        for path, claim in given.items()
    ]


def _call(function: str | Callable[..., object], kwargs: Mapping[str, object]) -> list[str]:
    """Return the command that imports a function and calls it."""
    module, name = function.split(":", 1) if isinstance(function, str) and ":" in function else _reference(function)
    if not all(part.isidentifier() for path in (module, name) for part in path.split(".")):
        raise _refused(function, "must be module:function, such as train:main")
    return ["python", "-c", _CALL, module, name, _json(kwargs)]


def _json(kwargs: Mapping[str, object]) -> str:
    """Return arguments as JSON, from which the pod reads equal ones. Raises InvalidOption."""
    where, hint = Position("kwargs"), "arguments travel as JSON: numbers, strings, lists and mappings"
    try:
        text = json.dumps(dict(kwargs), allow_nan=False)
    except RecursionError as error:
        raise InvalidOption("a list or mapping is nested too deeply", hint, where) from error
    except (TypeError, ValueError) as error:
        raise InvalidOption(str(error), hint, where) from error
    if wrong := [name for name in kwargs if not str(name).isidentifier()]:
        raise InvalidOption(f"{wrong[0]!r}: must be the name of a parameter", "", where)
    # Kubernetes replaces $(NAME) in a command by the variable, and $$ by $.
    text = text.replace("$", "\\u0024")
    if len(text) > _LONGEST:
        hint = "write them to a file, and pass its path"
        raise InvalidOption(f"has {len(text)} bytes as JSON: must be at most {_LONGEST}", hint, where)
    return text


def _reference(function: str | Callable[..., object]) -> tuple[str, str]:
    """Return module and name of a function that a pod can import. Raises InvalidOption."""
    module, name = str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", ""))
    if isinstance(function, str) or not module or not name:
        path, _, last = str(function).rpartition(".")
        near = f"{path}:{last}" if isinstance(function, str) and path and last else ""
        raise _refused(function, "must be module:function, such as train:main, or a function", near)
    if "<lambda>" in name:
        raise _refused(name, "a lambda has no name by which a pod could import it")
    if "<locals>" in name:
        raise _refused(name, "a function inside another one cannot be imported by a pod")
    if module == "__main__":
        raise _refused(name, "a function of a script or a notebook cell (__main__) cannot be imported by a pod")
    try:
        found = attrgetter(name)(sys.modules[module])
    except (KeyError, AttributeError):
        found = None
    if found != function:
        # A method of an object, or a function that another one has replaced.
        raise _refused(name, f"{module}:{name} is not this function, so a pod would call another one")
    return module, name


def _refused(function: object, why: str, near: str = "") -> InvalidOption:
    hint = 'move it to a module that the pod can import, and name it: function="train:main"'
    hint = f"did you mean {near}?" if near else hint
    return InvalidOption(f"{function}: {why}", hint, Position("function"))

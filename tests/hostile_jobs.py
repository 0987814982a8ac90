"""Jobs that cost as much as possible: a table of shapes, each filled up to a size. Used by tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from pumice.model.job import Manifest
from tests.builders import a_container, a_document, a_template

Shape = Callable[[int], Manifest]  # a Job with so many parts


def _tasks(count: int, **fields: Any) -> list[Manifest]:
    return [{"name": f"t{i}", "replicas": 1, "template": a_template(), **fields} for i in range(count)]


def _container(**fields: Any) -> Manifest:
    return a_document(tasks=[{"name": "t", "replicas": 1, "template": a_template(a_container(**fields))}])


def _pod(**spec: Any) -> Manifest:
    return a_document(tasks=[{"name": "t", "replicas": 1, "template": a_template(**spec)}])


def _volumes(count: int) -> list[Manifest]:
    return [{"mountPath": f"/m{i}", "volumeClaimName": f"c{i}"} for i in range(count)]


def _misspelt_mounts(n: int) -> Manifest:
    container = a_container(volumeMounts=[{"name": f"vx{i}", "mountPath": f"/p{i}"} for i in range(n)])
    return a_document(
        tasks=[{"replicas": 1, "template": a_template(container, volumes=[{"name": f"v{i}"} for i in range(n)])}]
    )


SHAPES: Final[Mapping[str, Shape]] = {
    "volumes in all tasks": lambda n: a_document(tasks=_tasks(n), volumes=_volumes(n)),
    "volumes in all containers": lambda n: a_document(
        tasks=[{"replicas": 1, "template": a_template(*(a_container(f"c{i}") for i in range(n)))}], volumes=_volumes(n)
    ),
    "misspelt dependencies": lambda n: a_document(
        tasks=[{**task, "dependsOn": {"name": [f"tx{i}"]}} for i, task in enumerate(_tasks(n))]
    ),
    "a chain of dependencies": lambda n: a_document(
        tasks=[{**task, "dependsOn": {"name": [f"t{i + 1}"]}} for i, task in enumerate(_tasks(n))]
    ),
    "tasks that are null": lambda n: a_document(tasks=[None] * n),
    "empty tasks": lambda n: a_document(tasks=[{}] * n),
    "tasks of the wrong shape": lambda n: a_document(
        tasks=[{"replicas": "x", "template": {"spec": {"containers": 7}}}] * n
    ),
    "tasks with plugins": lambda n: a_document(tasks=_tasks(n), plugins={"svc": [], "ssh": [], "env": []}),
    "tasks with frameworks": lambda n: a_document(
        tasks=_tasks(n), plugins={"pytorch": ["--master=t0", "--worker=t1"], "mpi": ["--master=t0", "--worker=t1"]}
    ),
    "arguments": lambda n: a_document(plugins={"ssh": ["--ssh-prot=22"] * n}),
    "a long argument": lambda n: a_document(plugins={"svc": ["--x=1 " * n]}),
    "unknown plugins": lambda n: a_document(plugins={f"sv{i}": [] for i in range(n)}),
    "unknown fields of the job": lambda n: a_document(**{f"tasq{i}": 1 for i in range(n)}),
    "unknown fields of the pod": lambda n: _pod(**{f"contaners{i}": 1 for i in range(n)}),
    "containers": lambda n: a_document(
        tasks=[{"replicas": 1, "template": a_template(*(a_container(f"c{i}") for i in range(n)))}]
    ),
    "misspelt mounts": _misspelt_mounts,
    "variables": lambda n: _container(env=[{"name": f"E{i}", "value": f"$(E{i - 1})"} for i in range(n)]),
    "ports": lambda n: _container(ports=[{"containerPort": -1}] * n),
    "limits": lambda n: _container(resources={"limits": {f"a/b{i}": "1" for i in range(n)}}),
    "tolerations": lambda n: _pod(tolerations=[{"key": f"k{i}"} for i in range(n)]),
    "scheduling gates": lambda n: _pod(schedulingGates=[{"name": f"g{i}"} for i in range(n)]),
    "policies": lambda n: a_document(policies=[{"events": ["PodFaild"] * n, "action": "RestartJob"}]),
    "exit codes": lambda n: a_document(policies=[{"exitCodes": list(range(n)), "action": "RestartJob"}]),
    "annotations": lambda n: a_document() | {"metadata": {"annotations": {f"a{i}!": "" for i in range(n)}}},
    "a long image": lambda n: _container(image="i:" * n),
    "text with wide characters": lambda n: _container(args=["\N{GRINNING FACE}" + "x" * n]),
}


def filled(shape: Shape, fits: Callable[[Manifest], bool]) -> Manifest:
    """The largest Job of a shape that still fits, to within a tenth."""
    low, high = 1, 2
    while fits(shape(high)):
        low, high = high, 2 * high
    while high - low > max(1, low // 10):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(shape(middle)) else (low, middle)
    return shape(low)


def size(job: Manifest) -> int:
    return len(msgspec.json.encode(job))

"""The checks before a run starts."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.admit import Admitted, admit
from pumice.engines.local.preparation.preflight import check_containers, check_fit, memory_notes, unenforced_limits
from pumice.engines.local.preparation.scaling import gang, gang_fit, stored
from pumice.engines.local.scheduling.fit import Fit, fit
from pumice.engines.local.scheduling.machine import Machine
from pumice.model import keys
from pumice.model.findings import SPEC
from pumice.model.findings import Path as JobPath
from pumice.model.job import Job, JobSpec, TaskSpec
from pumice.model.problem import FLAGS, Option, Position, Problem
from pumice.model.quantity import Quantity
from pumice.runtime.offline_context import offline_context
from pumice.store.options import Isolation
from pumice.store.run_errors import DoesNotFit, Unsupported

Manifest = dict[str, Any]


def _container(cpu: str = "1", kind: str = "requests") -> Manifest:
    return {"name": "c", "resources": {kind: {"cpu": cpu}}}


def _pod(task: str, index: int, container: Manifest | None = None) -> Manifest:
    annotations = {keys.TASK_SPEC: task, keys.TASK_INDEX: str(index)}
    return {
        "metadata": {"name": f"j-{task}-{index}", "annotations": annotations},
        "spec": {"containers": [container or _container()]},
    }


def _job(available: int, **tasks: int | None) -> Job:
    template = {"spec": {"containers": [_container()]}}
    listed = [
        TaskSpec(name=name, replicas=3, min_available=least, template=template, max_retry=3)
        for name, least in tasks.items()
    ]
    return Job(spec=JobSpec(min_available=available, tasks=listed))


def _locate(path: JobPath) -> Position:
    """The path and, as its line, the number of its steps."""
    return Position(f"<{path}>", len(path)) if path != SPEC else Position("big.yaml", 1)


def _fit(pods: int, free: str) -> Fit:
    """Of pods that want one processor each."""
    return fit([{"cpu": Quantity.parse("1")}] * pods, {"cpu": Quantity.parse(free)})


PODS = [_pod(task, index) for task in ("a", "b") for index in range(3)]


@pytest.mark.parametrize(
    ("available", "least", "chosen"),
    [
        pytest.param(2, {"a": None, "b": None}, ["j-a-0", "j-a-1"], id="the first ones"),
        pytest.param(2, {"a": 0, "b": 2}, ["j-b-0", "j-b-1"], id="what a task must have"),
        pytest.param(3, {"a": 0, "b": 2}, ["j-b-0", "j-b-1", "j-a-0"], id="both"),
        pytest.param(2, {"a": 1, "b": 2}, ["j-a-0", "j-a-1"], id="fewer than the tasks ask for: any"),
        pytest.param(0, {"a": None, "b": None}, [], id="no gang"),
    ],
)
def test_gang(available: int, least: dict[str, int | None], chosen: list[str]) -> None:
    assert [pod["metadata"]["name"] for pod in gang(_job(available, **least), PODS)] == chosen


def _admitted(requests: Manifest, replicas: int = 4, **fields: Any) -> Admitted:
    """A job that an API server has stored; `requests` may be limits as well."""
    container = {"name": "c", "image": "x", "command": ["true"], "resources": requests}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"tasks": [{"name": "a", "replicas": replicas, "template": template}], **fields}
    document = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    return stored(admit(document, offline_context()), {})


def _refusal(admitted: Admitted, cpus: int = 2, memory: str = "8Gi") -> DoesNotFit:
    machine = Machine(tuple(range(cpus)), cpus, Quantity.parse(memory).value())
    with pytest.raises(DoesNotFit) as error:
        check_fit(admitted, gang_fit(admitted, machine.free()), machine, _locate)
    return error.value


def test_a_job_that_does_not_fit_is_refused_with_the_shortfall_and_its_requests() -> None:
    error = _refusal(_admitted({"requests": {"cpu": "1"}}, minAvailable=4))
    lines = error.text(FLAGS).splitlines()
    assert lines[0] == "big.yaml: needs 4 pods at once (minAvailable), 2 fit on this machine"
    assert lines[2].split() == ["cpu", "4.00", "2.00", "2.00"]
    request = "spec.tasks[0].template.spec.containers[0].resources.requests.cpu"
    assert lines[3] == (
        f"  hint: --scale a=2, or lower resources.requests.cpu (<{request}>:10), "
        "or lower minAvailable to 2 (<spec.minAvailable>:2)"
    )
    assert error.remedy == Option("fit", True)
    assert error.hint.startswith('fit=True, or scale={"a": 2}, or lower resources')
    assert '\n  hint: fit=True, or scale={"a": 2}' in str(error)


GPU = {"limits": {"nvidia.com/gpu": 2}}


@pytest.mark.parametrize(
    ("job", "hint"),
    [
        pytest.param(
            _admitted({"requests": {"cpu": "4"}}, 1),
            "lower resources.requests.cpu (<spec.tasks[0].template.spec.containers[0].resources.requests.cpu>:10)",
            id="one pod that does not fit: neither fewer pods nor minAvailable",
        ),
        pytest.param(_admitted(GPU, 2, minAvailable=2), "--ignore nvidia.com/gpu", id="no pod fits, there are no GPUs"),
        pytest.param(
            _admitted({"limits": {"nvidia.com/gpu": 2, "rdma/hca": 1, "memory": "16Gi"}}, 2),
            "--ignore nvidia.com/gpu --ignore rdma/hca and lower resources.limits.memory "
            "(<spec.tasks[0].template.spec.containers[0].resources.limits.memory>:10)",
            id="all that is short, together",
        ),
        pytest.param(
            _admitted({"requests": {"cpu": "1"}}, 3),
            "--scale a=2, or lower resources.requests.cpu "
            "(<spec.tasks[0].template.spec.containers[0].resources.requests.cpu>:10), or set minAvailable to 2",
            id="a minAvailable that is not in the file has no line",
        ),
        pytest.param(
            _admitted({"requests": {"cpu": "1"}}, 3, plugins={"mpi": ["--master=a", "--worker=a"]}, minAvailable=3),
            "lower resources.requests.cpu (<spec.tasks[0].template.spec.containers[0].resources.requests.cpu>:10)",
            id="mpirun counts on the number of hosts, and waits for all of them",
        ),
        pytest.param(
            _admitted({"requests": {"cpu": "1"}}, 3, plugins={"pytorch": ["--master=a", "--worker=a"]}, minAvailable=3),
            "--scale a=2, or lower resources.requests.cpu "
            "(<spec.tasks[0].template.spec.containers[0].resources.requests.cpu>:10)",
            id="ranks wait for all others: a lower minAvailable does not help",
        ),
    ],
)
def test_only_hints_that_help(job: Admitted, hint: str) -> None:
    assert _refusal(job).problem.spelled(FLAGS).hint == hint


def test_what_fits_passes() -> None:
    check_fit(_admitted({"requests": {"cpu": "1"}}, 2), _fit(2, "2"), Machine((0, 1), 2, 2**33), _locate)


def test_a_problem_of_many_pods_is_reported_once_with_pod_container_and_position() -> None:
    containers = [(PODS[0], _container()), (PODS[1], _container()), (PODS[3], {"name": "added"})]
    pods = [{**pod, "spec": {"containers": [container]}} for pod, container in containers]
    mild = Problem("mild", fatal=False)
    found = [[Problem("no ConfigMap x"), mild], [Problem("no ConfigMap x")], [Problem("no Secret y")]]
    with pytest.raises(Unsupported) as error:
        check_containers(_job(1, a=None, b=None), pods, lambda pod, _container: found[pods.index(pod)], _locate)
    assert str(error.value).splitlines() == [
        "<spec.tasks[0].template.spec.containers[0]>:7: a-0: container c: no ConfigMap x",
        "<spec.tasks[1]>:3: b-0: container added: no Secret y",
    ]
    check_containers(_job(1, a=None), pods[:1], lambda _pod, _container: [mild], _locate)


@pytest.mark.parametrize(
    ("limits", "isolation", "enforced", "notes"),
    [
        pytest.param({"memory": "64Mi"}, "auto", (), ["memory: watched, not limited by the kernel"], id="watched"),
        pytest.param({"memory": "64Mi"}, "auto", ("memory",), [], id="limited by the kernel"),
        pytest.param({"memory": "64Mi"}, "process", (), [], id="plain processes"),
        pytest.param({"cpu": "1"}, "auto", (), [], id="no limit"),
    ],
)
def test_memory_that_the_kernel_does_not_limit(
    limits: dict[str, str], isolation: str, enforced: tuple[str, ...], notes: list[str]
) -> None:
    manifest = {"spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}}
    assert list(memory_notes([manifest], Isolation(isolation), lambda: enforced)) == notes


@pytest.mark.parametrize(
    ("limits", "isolation", "enforced", "loose"),
    [
        pytest.param({"cpu": "500m"}, "auto", (), ("cpu",), id="a part of a CPU"),
        pytest.param({"cpu": "500m"}, "auto", ("cpu", "memory"), (), id="limited by the kernel"),
        pytest.param({"cpu": "500m"}, "auto", ("memory",), ("cpu",), id="the kernel limits memory only"),
        pytest.param({"cpu": "2"}, "auto", (), (), id="whole CPUs are bound"),
        pytest.param({"memory": "64Mi"}, "auto", (), (), id="memory is watched"),
        pytest.param(
            {"cpu": "1.5", "memory": "64Mi"}, "process", ("cpu", "memory"), ("cpu", "memory"), id="plain processes"
        ),
        pytest.param({}, "process", (), (), id="no limit"),
    ],
)
def test_limits_that_nothing_enforces(
    limits: dict[str, str], isolation: str, enforced: tuple[str, ...], loose: tuple[str, ...]
) -> None:
    free, limited = ({"spec": {"containers": [{"name": "c", "resources": {"limits": each}}]}} for each in ({}, limits))
    job = Job(spec=JobSpec(tasks=[TaskSpec(name="free", template=free), TaskSpec(name="limited", template=limited)]))
    found = unenforced_limits(job, Isolation(isolation), lambda: enforced)
    assert found == ({"limited": loose} if loose else {})

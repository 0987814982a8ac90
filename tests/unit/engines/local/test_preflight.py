"""The checks before a run starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.preflight import (
    check_fit,
    check_problems,
    claim_paths,
    create_claim_directories,
    gang,
    what_ends_restarts,
)
from pumice.engines.local.run_errors import RefusedError
from pumice.engines.local.scheduling.fit import Fit, fit
from pumice.model import keys
from pumice.model.findings import SPEC
from pumice.model.findings import Path as JobPath
from pumice.model.job import Job, JobSpec, LifecyclePolicy, TaskSpec, VolumeSpec
from pumice.model.problem import Position, Problem
from pumice.model.quantity import Quantity

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


def test_a_job_that_does_not_fit_is_refused_with_the_shortfall_and_its_requests() -> None:
    with pytest.raises(RefusedError) as error:
        check_fit(_job(4, a=None, b=None), _fit(4, "2.5"), _locate)
    lines = str(error.value).splitlines()
    assert lines[0] == "big.yaml: needs 4 pods at once (minAvailable), 2 fit on this machine"
    assert lines[2].split() == ["cpu", "4.00", "2.50", "1.50"]
    request = "spec.tasks[0].template.spec.containers[0].resources.requests.cpu"
    assert lines[3] == (
        f"  hint: --scale a=1, or lower resources.requests.cpu (<{request}>:10), "
        "or lower minAvailable (<spec.minAvailable>:2)"
    )


def test_fewer_pods_are_not_suggested_where_not_even_one_fits() -> None:
    job = Job(spec=JobSpec(min_available=1, tasks=[TaskSpec(name="a", replicas=1)]))
    with pytest.raises(RefusedError) as error:
        check_fit(job, _fit(1, "0.5"), _locate)
    lines = str(error.value).splitlines()
    assert lines[0] == "big.yaml: needs 1 pod, 0 fit on this machine"
    assert lines[-1] == "  hint: lower resources.requests.cpu"


def test_the_largest_request_is_named_and_a_limit_counts_as_one() -> None:
    tasks = [
        TaskSpec(name="a", replicas=3, template={"spec": {"containers": [_container("1")]}}),
        TaskSpec(name="b", replicas=3, template={"spec": {"initContainers": [_container("2", "limits")]}}),
    ]
    job = Job(spec=JobSpec(min_available=6, tasks=tasks))
    with pytest.raises(RefusedError, match=r"spec\.tasks\[1\]\.template\.spec\.initContainers\[0\]\.resources\.limits"):
        check_fit(job, _fit(6, "1"), _locate)


def test_the_hint_points_at_a_resource_whose_name_has_dots() -> None:
    gpu = "nvidia.com/gpu"
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {gpu: 2}}}]}}
    job = Job(spec=JobSpec(min_available=1, tasks=[TaskSpec(name="a", replicas=1, template=template)]))
    found = fit([{gpu: Quantity.parse("2")}], {gpu: Quantity.parse("1")})
    with pytest.raises(RefusedError) as error:
        check_fit(job, found, _locate)
    path = SPEC / "tasks" / 0 / "template" / "spec" / "containers" / 0 / "resources" / "limits" / gpu
    assert f"lower resources.limits.{gpu} (<{path}>:10)" in error.value.hint


def test_what_fits_passes() -> None:
    check_fit(_job(2, a=None, b=None), _fit(2, "2"), _locate)


def test_a_problem_of_many_pods_is_reported_once_with_pod_container_and_position() -> None:
    container = _container()
    found = [
        (PODS[0], container, [Problem("no ConfigMap x"), Problem("mild", fatal=False)]),
        (PODS[1], container, [Problem("no ConfigMap x")]),
        (PODS[3], {"name": "added"}, [Problem("no Secret y")]),
    ]
    with pytest.raises(RefusedError) as error:
        check_problems(_job(1, a=None, b=None), found, _locate)
    assert str(error.value).splitlines() == [
        "<spec.tasks[0].template.spec.containers[0]>:7: a-0: container c: no ConfigMap x",
        "<spec.tasks[1]>:3: b-0: container added: no Secret y",
    ]
    check_problems(_job(1, a=None), [(PODS[0], container, [Problem("mild", fatal=False)])], _locate)


def test_claims_of_the_files_and_of_the_job_get_directories(tmp_path: Path) -> None:
    volumes = [
        VolumeSpec(mount_path="/made", volume_claim={"accessModes": ["ReadWriteOnce"]}),
        VolumeSpec(mount_path="/missing", volume_claim_name="missing"),
    ]
    given: Manifest = {"kind": "PersistentVolumeClaim", "metadata": {"name": "given"}}
    other: Manifest = {"kind": "ConfigMap", "metadata": {"name": "map"}}
    directories = claim_paths(Job(spec=JobSpec(volumes=volumes)), [given, other], tmp_path)
    assert len(directories) == 2
    assert "given" in directories
    assert "missing" not in directories
    assert not any(each.exists() for each in directories.values())
    create_claim_directories(directories.values())
    assert (tmp_path / "claims").stat().st_mode & 0o777 == 0o700
    # Writable for any user of a container.
    assert {each.stat().st_mode & 0o777 for each in directories.values()} == {0o777}


@pytest.mark.parametrize(
    ("policies", "hint"),
    [
        pytest.param([], True, id="none"),
        pytest.param([LifecyclePolicy(event="PodFailed", action="AbortJob")], True, id="another"),
        pytest.param([LifecyclePolicy(event="TaskFailed", action="AbortJob")], False, id="the one"),
        pytest.param([LifecyclePolicy(events=["*"], action="AbortJob")], False, id="any"),
    ],
)
def test_the_policy_that_would_end_restarts(policies: list[LifecyclePolicy], hint: bool) -> None:
    job = Job(spec=JobSpec(policies=policies, tasks=[TaskSpec(name="a", max_retry=3)]))
    text = what_ends_restarts(job, "a")
    wanted = (
        "a policy {event: TaskFailed, action: TerminateJob} of task a would end the job after 3 restarts (its maxRetry)"
    )
    assert text == (wanted if hint else "")

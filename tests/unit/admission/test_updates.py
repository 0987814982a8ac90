from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from pumice.admission.updates import check_update, scale_down_command
from pumice.model.codec import decode
from pumice.model.job import Job, JobSpec, Manifest, TaskSpec, scaled
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.unit.admission.findings import POD, Row, error, rows

FIXED = "cannot be changed once the job exists"
HINT = "only minAvailable, priorityClassName, suspend, tasks[*].replicas, tasks[*].minAvailable can"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
OLD: Manifest = {
    "minAvailable": 3,
    "queue": "default",
    "plugins": {"svc": ["--disable-network-policy=false"]},
    "policies": [{"event": "PodFailed", "action": "RestartJob"}],
    "volumes": [{"mountPath": "/a", "volumeClaim": CLAIM}, {"mountPath": "/b", "volumeClaimName": "b"}],
    "tasks": [
        {"name": "master", "replicas": 1, "minAvailable": 1, "template": POD},
        {"name": "worker", "replicas": 4, "minAvailable": 2, "template": POD},
    ],
}


def job_of(spec: Manifest) -> Job:
    document = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}
    return decode(document, kubernetes_types().types).job


def changed(path: tuple[str | int, ...], value: Any) -> Manifest:
    spec: Manifest = json.loads(json.dumps(OLD))
    target: Any = spec
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return spec


def found(new: Manifest, old: Manifest = OLD) -> list[Row]:
    return rows(check_update(job_of(old), job_of(new)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("minAvailable",), 1, id="minAvailable"),
        pytest.param(("priorityClassName",), "high", id="priorityClassName"),
        pytest.param(("suspend",), True, id="suspend"),
        pytest.param(("suspend",), False, id="resume"),
        pytest.param(("tasks", 1, "replicas"), 9, id="replicas"),
        pytest.param(("tasks", 1, "minAvailable"), 3, id="minAvailable of a task"),
        pytest.param(("tasks", 1, "minAvailable"), None, id="no minAvailable of a task"),
        pytest.param(("volumes", 0, "volumeClaimName"), "a-pvc-0123456789ab", id="name of a made claim"),
    ],
)
def test_mutable_fields(path: tuple[str | int, ...], value: object) -> None:
    assert found(changed(path, value)) == []


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param(("queue",), "other", "spec.queue", id="queue"),
        pytest.param(("maxRetry",), 5, "spec.maxRetry", id="maxRetry added"),
        pytest.param(("queue",), None, "spec.queue", id="queue taken away"),
        pytest.param(("schedulerName",), "x", "spec.schedulerName", id="schedulerName"),
        pytest.param(("ttlSecondsAfterFinished",), 5, "spec.ttlSecondsAfterFinished", id="ttl"),
        pytest.param(("minSuccess",), 1, "spec.minSuccess", id="minSuccess"),
        pytest.param(("activeDeadlineSeconds",), 5, "spec.activeDeadlineSeconds", id="deadline"),
        pytest.param(("networkTopology",), {"mode": "soft"}, "spec.networkTopology", id="topology"),
        pytest.param(("plugins", "env"), [], "spec.plugins.env", id="plugin added"),
        pytest.param(("plugins",), {}, "spec.plugins", id="plugins taken away"),
        pytest.param(("plugins", "svc", 0), "--x", "spec.plugins.svc[0]", id="argument of a plugin"),
        pytest.param(("plugins", "svc"), [], "spec.plugins.svc", id="number of arguments"),
        pytest.param(("policies", 0, "action"), "AbortJob", "spec.policies[0].action", id="policy"),
        pytest.param(("volumes", 1, "volumeClaimName"), "c", "spec.volumes[1].volumeClaimName", id="claim that exists"),
        pytest.param(
            ("volumes", 0, "volumeClaim", "accessModes", 0),
            "ReadWriteMany",
            "spec.volumes[0].volumeClaim.accessModes[0]",
            id="claim to be made",
        ),
        pytest.param(("tasks", 1, "name"), "w", "spec.tasks[1].name", id="name of a task"),
        pytest.param(("tasks", 1, "maxRetry"), 5, "spec.tasks[1].maxRetry", id="maxRetry of a task"),
        pytest.param(
            ("tasks", 1, "template", "spec", "containers", 0, "image"),
            "other",
            "spec.tasks[1].template.spec.containers[0].image",
            id="image",
        ),
        pytest.param(
            ("tasks", 0, "template", "metadata"),
            {"labels": {"a": "b"}},
            "spec.tasks[0].template.metadata",
            id="labels of pods",
        ),
    ],
)
def test_an_immutable_field_is_reported_by_its_exact_path(
    path: tuple[str | int, ...], value: object, expected: str
) -> None:
    assert found(changed(path, value)) == [error(expected, FIXED, hint=HINT)]


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        pytest.param("1000m", 1, True, id="written otherwise"),
        pytest.param("1Gi", "1024Mi", True, id="another unit"),
        pytest.param("1", "2", False, id="another amount"),
        pytest.param("1", "much", False, id="no amount"),
    ],
)
def test_an_equal_quantity_is_no_change(old: object, new: object, is_same: bool) -> None:
    resources = ("tasks", 1, "template", "spec", "containers", 0, "resources")
    before, after = (changed(resources, {"limits": {"cpu": cpu}}) for cpu in (old, new))
    findings = list(check_update(job_of(before), job_of(after)))
    at = "spec.tasks[1].template.spec.containers[0].resources.limits.cpu"
    assert [str(finding.path) for finding in findings] == ([] if is_same else [at])


def test_text_that_looks_like_a_quantity_is_compared_as_text() -> None:
    labels = ("tasks", 1, "template", "metadata")
    before, after = (changed(labels, {"labels": {"limits": text}}) for text in ("1", "1000m"))
    assert [finding.path for finding in found(after, before)] == ["spec.tasks[1].template.metadata.labels.limits"]


def test_every_difference_is_reported() -> None:
    new = changed(("queue",), "other")
    new["tasks"][0]["template"]["spec"] = {**POD["spec"], "restartPolicy": "Always", "hostname": "x"}
    at = "spec.tasks[0].template.spec"
    assert sorted(finding.path for finding in found(new)) == ["spec.queue", f"{at}.hostname", f"{at}.restartPolicy"]


@pytest.mark.parametrize(
    ("tasks", "now"),
    [pytest.param(OLD["tasks"][:1], 1, id="fewer"), pytest.param([*OLD["tasks"], {"name": "x"}], 3, id="more")],
)
def test_tasks_cannot_be_added_or_removed(tasks: list[Manifest], now: int) -> None:
    assert found({**OLD, "minAvailable": 1, "tasks": tasks, "queue": "other"}) == [
        error(
            "spec.tasks",
            f"tasks cannot be added or removed: there were 2, now {now}",
            hint="create a new job, or set replicas to 0",
        )
    ]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param(("tasks", 1, "replicas"), -1, "spec.tasks[1].replicas", id="negative replicas"),
        pytest.param(("tasks", 1, "minAvailable"), -1, "spec.tasks[1].minAvailable", id="negative minAvailable"),
        pytest.param(("tasks", 1, "minAvailable"), 5, "spec.tasks[1].minAvailable", id="more than replicas"),
        pytest.param(("minAvailable",), 6, "spec.minAvailable", id="more than all replicas"),
        pytest.param(("minAvailable",), -1, "spec.minAvailable", id="negative minAvailable of the job"),
    ],
)
def test_new_numbers_are_checked(path: tuple[str | int, ...], value: object, expected: str) -> None:
    assert [finding.path for finding in found(changed(path, value))] == [expected]


def sized(minimum: int, *tasks: tuple[int, int]) -> Manifest:
    """A spec with minAvailable, and replicas and minAvailable of each task."""
    named = [
        {"name": f"t{position}", "replicas": replicas, "minAvailable": least, "template": POD}
        for position, (replicas, least) in enumerate(tasks)
    ]
    return {"minAvailable": minimum, "tasks": named}


def patch_of(hint: str) -> list[Manifest]:
    command = re.fullmatch(r"lower both in one patch: kubectl -n default patch vcjob a --type=json -p '(.*)'", hint)
    assert command is not None, hint
    patch: list[Manifest] = json.loads(command[1])
    return patch


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            sized(3, (3, 3)),
            sized(3, (2, 3)),
            {"/spec/minAvailable": 2, "/spec/tasks/0/replicas": 2, "/spec/tasks/0/minAvailable": 2},
            id="replicas and both minAvailable",
        ),
        pytest.param(
            sized(2, (5, 3), (1, 1)),
            sized(2, (2, 3), (1, 1)),
            {"/spec/tasks/0/replicas": 2, "/spec/tasks/0/minAvailable": 2},
            id="the job's where needed",
        ),
        pytest.param(
            sized(5, (4, 1), (2, 1)),
            sized(5, (1, 1), (2, 1)),
            {"/spec/minAvailable": 3, "/spec/tasks/0/replicas": 1},
            id="a task's where needed",
        ),
        pytest.param(
            sized(5, (3, 3), (2, 2)),
            sized(5, (1, 3), (0, 2)),
            {
                "/spec/minAvailable": 1,
                "/spec/tasks/0/replicas": 1,
                "/spec/tasks/0/minAvailable": 1,
                "/spec/tasks/1/replicas": 0,
                "/spec/tasks/1/minAvailable": 0,
            },
            id="two tasks",
        ),
    ],
)
def test_scaling_down_is_refused_with_the_patch_that_does_it(
    old: Manifest, new: Manifest, expected: dict[str, int]
) -> None:
    hints = [finding.hint for finding in check_update(job_of(old), job_of(new))]
    assert [hint for hint in hints[1:] if "kubectl" in hint] == []
    operations = patch_of(hints[0])
    assert {operation["op"] for operation in operations} == {"add"}
    assert {operation["path"]: operation["value"] for operation in operations} == expected
    patched: Any = {"spec": copy.deepcopy(old)}
    for operation in operations:
        *steps, field = operation["path"].removeprefix("/").split("/")
        target = patched
        for step in steps:
            target = target[int(step) if step.isdecimal() else step]
        target[field] = operation["value"]
    assert list(check_update(job_of(old), job_of(patched["spec"]))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(sized(3, (3, 3)), sized(3, (3, 4)), id="not scaled"),
        pytest.param(sized(3, (3, 3)), {**sized(3, (2, 3)), "minSuccess": 3}, id="more is wrong"),
        pytest.param(sized(30, *[(2, 2)] * 15), sized(30, *[(1, 2)] * 15), id="too long for a refusal"),
        pytest.param(sized(3, (3, 3)), sized(3, (2, 3), (1, 1)), id="another task"),
    ],
)
def test_a_patch_that_would_not_help_is_not_shown(old: Manifest, new: Manifest) -> None:
    hints = [finding.hint for finding in check_update(job_of(old), job_of(new))]
    assert hints
    assert not any("kubectl" in hint for hint in hints)


def test_a_stored_job_that_was_scaled_down_without_the_webhook() -> None:
    job = job_of(sized(3, (2, 3)))
    patch = [
        {"op": "add", "path": "/spec/minAvailable", "value": 2},
        {"op": "add", "path": "/spec/tasks/0/minAvailable", "value": 2},
    ]
    assert scale_down_command(job, job).endswith(f"-p '{json.dumps(patch, separators=(',', ':'))}'")


def test_partitions_must_still_add_up() -> None:
    old = changed(("tasks", 1, "partitionPolicy"), {"totalPartitions": 2, "partitionSize": 2})
    new = copy.deepcopy(old)
    new["tasks"][1]["replicas"] = 5
    assert [finding.path for finding in found(new, old)] == ["spec.tasks[1].partitionPolicy"]


def test_topology_is_checked_and_fixed() -> None:
    new = changed(("networkTopology",), {"highestTierAllowed": 1, "highestTierName": "rack"})
    assert [finding.path for finding in found(new)] == ["spec.networkTopology", "spec.networkTopology"]


def test_labels_of_a_job_that_breaks_a_newer_rule_can_change() -> None:
    bad = {**OLD, "minAvailable": 99, "tasks": []}
    assert found(bad, copy.deepcopy(bad)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("metadata",), {}, id="empty metadata"),
        pytest.param(("metadata",), {"creationTimestamp": None}, id="what Go writes for empty metadata"),
        pytest.param(("spec", "volumes"), [], id="empty list"),
        pytest.param(("spec", "hostname"), None, id="null"),
        pytest.param(("spec", "containers", 0, "resources"), {}, id="empty resources"),
    ],
)
def test_an_equivalent_template_is_no_change(path: tuple[str | int, ...], value: object) -> None:
    assert found(changed(("tasks", 0, "template", *path), value)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(("spec", "securityContext"), {}, id="an empty mapping may mean something"),
        pytest.param(("spec", "hostNetwork"), False, id="a value"),
    ],
)
def test_a_new_value_in_a_template_is_reported(path: tuple[str | int, ...], value: object) -> None:
    expected = f"spec.tasks[0].template.{'.'.join(map(str, path))}"
    assert [finding.path for finding in found(changed(("tasks", 0, "template", *path), value))] == [expected]


def test_scaling_lowers_min_available_with_the_replicas() -> None:
    tasks = [
        TaskSpec(name="a", replicas=3, min_available=3),
        TaskSpec(name="b", replicas=2),
        TaskSpec(name="c", replicas=1),
    ]
    spec = scaled(JobSpec(min_available=5, tasks=tasks), {"a": 1, "b": 2})
    assert [(task.replicas, task.min_available) for task in spec.tasks] == [(1, 1), (2, None), (1, None)]
    assert spec.min_available == 4
    assert scaled(spec, {"a": 3}).min_available == 4

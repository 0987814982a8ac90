from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import TaskSpec
from pumice.plugins.provenance import Trace, trace_pod
from pumice.plugins.registry import Registry
from tests.builders import UID, a_container, a_job, a_slot, a_task, a_template, literal

AT = "spec.tasks[1].template"
TEMPLATE = {
    "metadata": {"labels": {"app": "demo"}, "annotations": {"note": "mine"}},
    **a_template(
        a_container(
            command=["python", "train.py"],
            env=[*literal(A="1"), {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            ports=[{"containerPort": 80}],
            volumeMounts=[{"name": "data", "mountPath": "/data"}],
        ),
        volumes=[{"name": "data", "emptyDir": {}}],
        initContainers=[a_container("init", image="example.com/init:1")],
        hostname="box",
    ),
}


def traced(task: TaskSpec, plugins: dict[str, list[str]], **spec: Any) -> list[tuple[str, ...]]:
    job = a_job(a_task("master"), task, **spec)
    resolved = Registry().resolve(Registry().with_required(plugins)).plugins
    found = trace_pod(a_slot(job, task.name), 1, resolved)
    return [tuple(map(str, (t.kind, t.container, t.name, t.value, t.by, t.why, t.path))) for t in found]


OWN = [
    ("label", "", "app", "demo", "you", "", f"{AT}.metadata.labels.app"),
    ("annotation", "", "note", "mine", "you", "", f"{AT}.metadata.annotations.note"),
    ("hostname", "", "", "box", "you", "", f"{AT}.spec.hostname"),
    ("volume", "", "data", "emptyDir", "you", "", f"{AT}.spec.volumes[0]"),
    ("init", "", "init", "example.com/init:1", "you", "", f"{AT}.spec.initContainers[0]"),
    ("command", "main", "", "python train.py", "you", "", f"{AT}.spec.containers[0].command"),
    ("env", "main", "A", "1", "you", "", f"{AT}.spec.containers[0].env[0]"),
    ("env", "main", "B", '{"fieldRef":{"fieldPath":"metadata.name"}}', "you", "", f"{AT}.spec.containers[0].env[1]"),
    ("port", "main", "80", "", "you", "", f"{AT}.spec.containers[0].ports[0]"),
    ("mount", "main", "/data", "data", "you", "", f"{AT}.spec.containers[0].volumeMounts[0]"),
]
JOBS = [
    ("label", "", "volcano.sh/job-name", "train", "job", "the Service and dashboards find the pod by it", "None"),
    ("label", "", "volcano.sh/job-namespace", "lab", "job", "the Service finds the pod by it", "None"),
    ("label", "", "volcano.sh/queue-name", "default", "job", "spec.queue", "None"),
    ("label", "", "volcano.sh/task-spec", "worker", "job", "the task", "None"),
    ("label", "", "volcano.sh/task-index", "0", "job", "index within the task", "None"),
    ("annotation", "", "volcano.sh/job-name", "train", "job", "the job", "None"),
    ("annotation", "", "volcano.sh/job-retry-count", "0", "job", "restarts so far", "None"),
    ("annotation", "", "volcano.sh/job-version", "0", "job", "distinguishes pods of an earlier run", "None"),
    (
        "annotation",
        "",
        "scheduling.k8s.io/group-name",
        f"train-{UID}",
        "job",
        "the gang that the pod starts with",
        "None",
    ),
    ("annotation", "", "volcano.sh/queue-name", "default", "job", "spec.queue", "None"),
    ("annotation", "", "volcano.sh/task-spec", "worker", "job", "the task", "None"),
    ("annotation", "", "volcano.sh/template-uid", "train-worker", "job", "the template", "None"),
    ("annotation", "", "volcano.sh/task-index", "0", "job", "index within the task", "None"),
    ("schedulerName", "", "", "volcano", "job", "spec.schedulerName", "None"),
]


def test_without_plugins_there_are_the_author_and_the_job() -> None:
    assert traced(a_task("worker", 1, TEMPLATE), {}) == [*OWN, *JOBS]


def test_each_plugin_is_named_with_its_reason() -> None:
    found = traced(a_task("worker", 1, TEMPLATE), {"svc": [], "env": []})
    by_env = [
        ("env", container, name, "0", "env", why, "None")
        for container in ("init", "main")
        for name, why in (
            ("VK_TASK_INDEX", "the same, by its older name"),
            ("VC_TASK_INDEX", "index within task worker"),
        )
    ]
    names = ("VC_MASTER_HOSTS", "VC_MASTER_NUM", "VC_WORKER_HOSTS", "VC_WORKER_NUM")
    by_svc = [
        ("subdomain", "", "", "train", "svc", "the headless Service train", "None"),
        ("volume", "", "train-svc", "configMap", "svc", "host files, one a task", "None"),
    ]
    for container in ("init", "main"):
        by_svc += [
            ("env", container, name, f"train-svc/{name}", "svc", "from ConfigMap train-svc", "None") for name in names
        ]
        by_svc.append(("mount", container, "/etc/volcano", "train-svc", "svc", "host files, one a task", "None"))
    assert found == [*OWN, *JOBS, *by_env, *by_svc]


@pytest.mark.parametrize("template", [{}, {"metadata": None, "spec": None}, {"metadata": {"labels": None}}])
def test_an_empty_template(template: dict[str, Any]) -> None:
    assert traced(a_task("worker", 1, {**template, "spec": template.get("spec") or {}}), {}) == JOBS


def test_what_the_job_overwrites_is_the_job_s() -> None:
    group = "scheduling.volcano.sh/group-name"
    metadata = {"labels": {"volcano.sh/task-index": "9"}, "annotations": {group: "other"}}
    template = {"metadata": metadata, **a_template(schedulerName="mine")}
    found = {trace[:3]: trace[3:5] for trace in traced(a_task("worker", 1, template), {}, priority_class_name="high")}
    assert found["label", "", "volcano.sh/task-index"] == ("0", "job")
    assert found["annotation", "", group] == (f"train-{UID}", "job")
    assert found["schedulerName", "", ""] == ("mine", "you")
    assert found["priorityClassName", "", ""] == ("high", "job")


def test_a_secret_s_entry_is_named_and_a_bare_volume_too() -> None:
    reference = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    template = a_template(a_container(env=[reference, {"name": "EMPTY"}]), volumes=[{"name": "scratch"}])
    found = {trace[2]: trace[3] for trace in traced(a_task("worker", 1, template), {})}
    assert (found["TOKEN"], found["EMPTY"], found["scratch"]) == ("s/k", "", "")


def test_a_trace_is_known_by_kind_container_and_name() -> None:
    assert Trace("env", "main", "A", "1", "you").key == ("env", "main", "A")

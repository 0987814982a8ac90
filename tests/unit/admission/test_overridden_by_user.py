from __future__ import annotations

from typing import Any

from pumice.model.job import Manifest
from tests.builders import a_container, a_document, a_template
from tests.unit.admission.findings import found, task, warning

AT = "spec.tasks[0].template.spec"


def a_job_with(plugins: Manifest, *containers: Manifest, **spec: Any) -> Manifest:
    pod = a_template(*containers, restartPolicy="Never", **spec)
    return a_document(plugins=plugins, tasks=[task(template=pod)])


def variables(*names: str) -> list[Manifest]:
    return [{"name": name, "value": "x"} for name in names]


def test_variables() -> None:
    document = a_job_with(
        {"env": [], "pytorch": ["--master=worker"]},
        a_container("a", env=variables("MINE", "RANK")),
        a_container("b", env=variables("VC_TASK_INDEX")),
        initContainers=[a_container("c", env=variables("MASTER_ADDR"))],
    )
    assert found(document) == [
        warning(f"{AT}.containers[1].env[0].name", "VC_TASK_INDEX is yours; the env plugin leaves it alone"),
        warning(f"{AT}.initContainers[0].env[0].name", "MASTER_ADDR is yours; the pytorch plugin leaves it alone"),
        warning(f"{AT}.containers[0].env[1].name", "RANK is yours; the pytorch plugin leaves it alone"),
    ]


def test_mounts() -> None:
    mounts = [{"name": "own", "mountPath": path} for path in ("/data", "/etc/volcano")]
    document = a_job_with({"svc": []}, a_container(volumeMounts=mounts), volumes=[{"name": "own", "emptyDir": {}}])
    message = "/etc/volcano is yours; the svc plugin does not mount its files there"
    assert found(document) == [warning(f"{AT}.containers[0].volumeMounts[1].mountPath", message)]


def test_init_containers() -> None:
    plugins = {"pytorch": ["--master=master", "--worker=worker", "--wait-master-enabled=true"]}
    pod = a_template(initContainers=[a_container("other"), a_container("wait-for-master")], restartPolicy="Never")
    document = a_document(plugins=plugins, tasks=[task(template=pod), task("master")])
    message = "wait-for-master is yours; the pytorch plugin adds none of that name"
    assert found(document) == [warning(f"{AT}.initContainers[1].name", message)]


def test_volumes() -> None:
    volumes = [{"name": "other", "emptyDir": {}}, {"name": "train-svc", "emptyDir": {}}]
    message = "train-svc is yours; the svc plugin adds none of that name"
    assert found(a_job_with({"svc": []}, volumes=volumes)) == [warning(f"{AT}.volumes[1].name", message)]


def test_what_one_plugin_added_is_not_in_the_way_of_another() -> None:
    assert found(a_job_with({"pytorch": ["--master=worker"], "hcclrank": ["--master=worker"], "env": []})) == []


def test_nothing_in_the_way() -> None:
    document = a_job_with({"env": [], "svc": [], "ssh": []}, a_container(env=variables("MINE")))
    assert found(document) == []
    pod = a_template(initContainers=[a_container("other")], restartPolicy="Never")
    waits = {"pytorch": ["--wait-master-enabled=true"]}
    assert found(a_document(plugins=waits, tasks=[task(template=pod), task("master")])) == []

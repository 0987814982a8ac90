from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Job
from pumice.plugins.ray import Ray
from tests.builders import NAMESPACE, OWNER, a_container, a_job, a_slot, a_task, a_template, literal, rows, shaped

HEAD_START = (
    "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 --ray-client-server-port=10001"
)
WORKER_START = "ray start --block --address=train-head-0.train:6379"
PORTS = [
    {"name": "gcs", "containerPort": 6379},
    {"name": "dashboard", "containerPort": 8265},
    {"name": "client-server", "containerPort": 10001},
]
ADDRESS = literal(RAY_ADDRESS="train-head-0.train:6379")


def cluster(head: dict[str, Any] | None = None, worker: dict[str, Any] | None = None) -> Job:
    """A cluster whose head and worker containers have these fields, each beside another container."""
    return a_job(
        a_task("head", 1, a_template(a_container("side"), a_container("head", **(head or {})))),
        a_task(
            "worker", 2, a_template(a_container("worker", **(worker or {})), initContainers=[a_container("worker")])
        ),
        a_task("other", 1, a_template(a_container("head"), a_container("worker"))),
    )


def test_head_and_workers_are_started_and_others_left_alone() -> None:
    job = cluster()
    assert shaped(Ray(), job, "head").containers == [
        a_container("side"),
        a_container("head", ports=PORTS, command=["sh", "-c", HEAD_START]),
    ]
    worker = shaped(Ray(), job, "worker", 1)
    assert worker.containers == [a_container("worker", command=["sh", "-c", WORKER_START])]
    assert worker.init_containers == [a_container("worker")]
    assert shaped(Ray(), job, "other").containers == [a_container("head"), a_container("worker")]


@pytest.mark.parametrize("client", ["--clientPort=3", "--client-port=3", "--clientServerPort=3"])
def test_arguments_name_tasks_containers_and_ports(client: str) -> None:
    args = ["--head=h", "--headContainer=hc", "--worker=w", "--worker-container=wc", "--port=1", "--dashboardPort=2"]
    plugin, findings = Ray.parse([*args, client])
    job = a_job(
        a_task("h", 1, a_template(a_container("hc"), hostname="box", subdomain="net")),
        a_task("w", 1, a_template(a_container("wc"))),
    )
    head, worker = shaped(plugin, job, "h").containers[0], shaped(plugin, job, "w").containers[0]
    assert findings == []
    assert [port["containerPort"] for port in head["ports"]] == [1, 2, 3]
    assert head["command"][2].endswith("--port=1 --dashboard-port=2 --ray-client-server-port=3")
    assert worker["command"][2] == "ray start --block --address=box.net:1"


def service(targets: list[str | int]) -> dict[str, Any]:
    names = [("gcs", 6379), ("dashboard", 8265), ("client-server", 10001)]
    ports = [
        {"name": name, "protocol": "TCP", "port": number, "targetPort": target}
        for (name, number), target in zip(names, targets, strict=True)
    ]
    selector = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": NAMESPACE, "volcano.sh/task-spec": "head"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "train-head-svc", "namespace": NAMESPACE, "ownerReferences": [OWNER]},
        "spec": {"selector": selector, "ports": ports},
    }


NAMED: list[str | int] = ["gcs", "dashboard", "client-server"]


@pytest.mark.parametrize(
    ("job", "targets"),
    [
        pytest.param(cluster(), NAMED, id="names"),
        pytest.param(a_job(), NAMED, id="no head"),
        pytest.param(a_job(a_task("head", 1, {})), NAMED, id="no container"),
        pytest.param(a_job(a_task("head", 1, a_template(a_container("x")))), NAMED, id="no such container"),
        pytest.param(
            cluster({"ports": [{"containerPort": 8265, "name": "ui"}, {"containerPort": 6379, "name": "gcs"}]}),
            ["gcs", 8265, "client-server"],
            id="a port by another name",
        ),
        pytest.param(cluster({"ports": [{"containerPort": 8265}]}), ["gcs", 8265, "client-server"], id="without name"),
        pytest.param(
            cluster({"ports": [{"containerPort": 1, "name": "gcs"}]}),
            [6379, "dashboard", "client-server"],
            id="the name is another port's",
        ),
    ],
)
def test_defect_28_the_service_targets_the_ports_under_any_name(job: Job, targets: list[str | int]) -> None:
    """Volcano always uses its own names, which lead nowhere if the user called the port otherwise."""
    assert list(Ray().objects(job)) == [service(targets)]


def test_ports_of_the_user_stay() -> None:
    own = [{"containerPort": 8265, "name": "ui"}, {"containerPort": 1, "name": "gcs"}]
    head = shaped(Ray(), cluster({"ports": own}), "head").containers[1]
    assert head["ports"] == [*own, {"containerPort": 6379}, {"name": "client-server", "containerPort": 10001}]


def test_defect_28_a_command_of_the_user_is_kept() -> None:
    """Volcano overwrites it without a word."""
    job = cluster({"command": ["mine"]}, {"command": ["mine"], "args": ["too"]})
    assert shaped(Ray(), job, "head").containers[1] == a_container("head", command=["mine"], ports=PORTS, env=ADDRESS)
    assert shaped(Ray(), job, "worker").containers == [
        a_container("worker", command=["mine"], args=["too"], env=ADDRESS)
    ]
    message = "is yours and is kept; Ray is not started by the plugin, RAY_ADDRESS says where the head is"
    assert rows(Ray().check(job)) == [
        ("warning", "spec.tasks[0].template.spec.containers[1].command", message),
        ("warning", "spec.tasks[1].template.spec.containers[0].command", message),
    ]


def test_arguments_that_would_have_no_effect() -> None:
    assert rows(Ray().check(cluster(worker={"args": ["x"]}))) == [
        (
            "warning",
            "spec.tasks[1].template.spec.containers[0].args",
            "has no effect: the ray plugin's command takes none",
        )
    ]


def test_defect_28_a_missing_head_is_reported() -> None:
    """Volcano makes no pod, and no event says why."""
    job = a_job(a_task("worker", 1, a_template(a_container("worker"))))
    found = list(Ray().check(job))
    assert rows(found) == [("error", "spec.plugins.ray", "no task is named 'head', so there would be no head")]
    assert found[0].hint == "name the task of the head with --head=<worker>"
    assert shaped(Ray(), job).containers == [a_container("worker")]


@pytest.mark.parametrize(
    ("task", "flag"),
    [pytest.param("head", "headContainer", id="head"), pytest.param("worker", "workerContainer", id="worker")],
)
def test_defect_28_a_container_of_another_name_is_reported(task: str, flag: str) -> None:
    """Volcano leaves the pod as it is: nothing starts, and no message says so."""
    others = {"head", "worker"} - {task}
    tasks = [a_task(name, 1, a_template(a_container(name))) for name in sorted(others)]
    job = a_job(*tasks, a_task(task, 1, a_template(a_container("a"), a_container("b"))))
    found = list(Ray().check(job))
    assert rows(found) == [
        (
            "warning",
            "spec.tasks[1].template.spec.containers",
            f"no container is named '{task}', so Ray is not started in task {task} by the plugin",
        )
    ]
    assert found[0].hint == f"name it with --{flag}=<a|b>"


def test_a_valid_cluster() -> None:
    assert list(Ray().check(cluster())) == []


@pytest.mark.parametrize(("task", "started"), [("head", "starts the head"), ("worker", "joins the head")])
def test_why(task: str, started: str) -> None:
    assert Ray().why(a_slot(cluster(), task)) == {
        "port 6379": "Ray's gcs",
        "port 8265": "Ray's dashboard",
        "port 10001": "Ray's client-server",
        "command": started,
        "env RAY_ADDRESS": "where the head is; your own command was kept",
    }

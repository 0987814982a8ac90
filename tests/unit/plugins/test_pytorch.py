from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Job
from pumice.model.slot import slots
from pumice.plugins.pytorch import PyTorch
from pumice.plugins.shaping import pods
from pumice.plugins.wait_for_master import waiting_container
from tests.builders import a_container, a_job, a_slot, a_task, a_template, env_of, literal, rows, shaped

PORT = {"name": "pytorchjob-port", "containerPort": 23456}
JOB = a_job(a_task("master"), a_task("worker", 2))


def variables(rank: int, size: int = 3, address: str = "train-master-0.train", port: int = 23456) -> list[Any]:
    return literal(
        MASTER_ADDR=address,
        MASTER_PORT=str(port),
        WORLD_SIZE=str(size),
        RANK=str(rank),
        PET_NNODES=str(size),
        PET_NODE_RANK=str(rank),
        PET_MASTER_ADDR=address,
        PET_MASTER_PORT=str(port),
    )


def gpus(count: int, **fields: Any) -> dict[str, Any]:
    return a_container(resources={"limits": {"nvidia.com/gpu": count}}, **fields)


@pytest.mark.parametrize(("task", "index", "rank"), [("master", 0, 0), ("worker", 0, 1), ("worker", 1, 2)])
def test_every_pod_of_the_group(task: str, index: int, rank: int) -> None:
    pod = shaped(PyTorch(), JOB, task, index)
    assert pod.spec == {"schedulerName": "volcano", "containers": [a_container(ports=[PORT], env=variables(rank))]}


def test_arguments_name_tasks_and_port() -> None:
    plugin, findings = PyTorch.parse(["--master=chief --worker=hand --port=29500"])
    job = a_job(a_task("hand", 2), a_task("chief", 1, a_template(hostname="box", subdomain="net")))
    pod = shaped(plugin, job, "hand", 1)
    assert findings == []
    assert pod.containers == [
        a_container(ports=[{"name": "pytorchjob-port", "containerPort": 29500}], env=variables(2, 3, "box.net", 29500))
    ]


def test_a_pod_of_another_task_gets_the_address_but_no_rank() -> None:
    job = a_job(*JOB.spec.tasks, a_task("watcher"))
    expected = literal(MASTER_ADDR="train-master-0.train", MASTER_PORT="23456", WORLD_SIZE="3")
    assert shaped(PyTorch(nproc_per_node=4), job, "watcher").containers == [a_container(ports=[PORT], env=expected)]


def test_the_user_s_own_stays() -> None:
    own = a_container(env=literal(RANK="9", MASTER_PORT="1"), ports=[{"containerPort": 23456, "name": "mine"}])
    pod = shaped(PyTorch(), a_job(a_task("master"), a_task("worker", 2, a_template(own))))
    assert pod.containers[0]["ports"] == own["ports"]
    assert env_of(pod.containers[0]) == {
        "RANK": "9",
        "MASTER_PORT": "1",
        "MASTER_ADDR": "train-master-0.train",
        "WORLD_SIZE": "3",
        "PET_NNODES": "3",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "train-master-0.train",
        "PET_MASTER_PORT": "23456",
    }


def test_on_the_host_s_network_the_port_is_opened_once() -> None:
    template = a_template(a_container("one"), a_container("two"), hostNetwork=True)
    pod = shaped(PyTorch(), a_job(a_task("master", 1, template)), "master")
    assert [container.get("ports") for container in pod.containers] == [[PORT], None]


@pytest.mark.parametrize(
    ("args", "container", "processes"),
    [
        pytest.param([], a_container(), None, id="no limit"),
        pytest.param([], gpus(8), "8", id="GPU limit"),
        pytest.param([], gpus(0), None, id="a limit of none"),
        pytest.param(["--nproc-per-node=2"], gpus(8), "2", id="the argument wins"),
        pytest.param(["--nprocPerNode=2"], a_container(), "2", id="argument alone"),
        pytest.param([], gpus(8, env=literal(PET_NPROC_PER_NODE="4")), "4", id="the user's own wins"),
    ],
)
def test_processes_of_a_node(args: list[str], container: dict[str, Any], processes: str | None) -> None:
    plugin, findings = PyTorch.parse(args)
    pod = shaped(plugin, a_job(a_task("master", 1, a_template(container))), "master")
    assert findings == []
    assert env_of(pod.containers[0]).get("PET_NPROC_PER_NODE") == processes


def test_defect_21_every_master_has_its_own_rank() -> None:
    """Volcano gives every master rank 0 and starts the workers at 1: ranks 0, 0, 1, 2 in a world of 4."""
    job = a_job(a_task("master", 2), a_task("worker", 2))
    ranks = [env_of(pod.containers[0])["RANK"] for pod in pods(job, [PyTorch()])]
    sizes = {env_of(pod.containers[0])["WORLD_SIZE"] for pod in pods(job, [PyTorch()])}
    assert (ranks, sizes) == (["0", "1", "2", "3"], {"4"})


def test_defect_21_a_missing_master_is_an_error() -> None:
    """Volcano starts such a job without variables, without port and without a word."""
    found = list(PyTorch().check(a_job(a_task("a"), a_task("b"))))
    assert rows(found) == [("error", "spec.plugins.pytorch", "no task is named 'master', so no pod would have rank 0")]
    assert found[0].hint == "name the task that holds rank 0 with --master=<a|b>"
    assert list(PyTorch().check(JOB)) == []


@pytest.mark.parametrize(
    ("worker", "hint"),
    [
        pytest.param(
            "wrker", "did you mean worker? name the task of the workers with --worker=<master|worker>", id="typo"
        ),
        pytest.param("nodes", "name the task of the workers with --worker=<master|worker>", id="another word"),
    ],
)
def test_a_worker_that_names_no_task_is_an_error(worker: str, hint: str) -> None:
    """Volcano starts such a job, and its workers get no rank."""
    problems = list(PyTorch(worker=worker).check(JOB))
    message = f"no task is named {worker!r}, so no pod would have the other ranks"
    assert rows(problems) == [("error", "spec.plugins.pytorch", message)]
    assert problems[0].hint == hint


def test_a_job_without_a_task_of_the_default_name_is_good() -> None:
    assert list(PyTorch().check(a_job(a_task("master", 2)))) == []


def test_a_master_without_pods_is_an_error() -> None:
    """MASTER_ADDR would name a pod that does not exist, while the first worker has rank 0."""
    found = list(PyTorch().check(a_job(a_task("worker", 2), a_task("master", 0))))
    message = "must be 1 or more: the workers need rank 0"
    assert rows(found) == [("error", "spec.tasks[1].replicas", message)]
    assert (found[0].value, found[0].hint) == (0, "or make their own first pod rank 0: pytorch: ['--master=worker']")


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(a_job(a_task("master", 0), a_task("worker", 0)), id="nor do the workers have any"),
        pytest.param(a_job(a_task("master", 0)), id="no workers"),
        pytest.param(a_job(a_task("master", -1), a_task("worker")), id="a number that is wrong anyway"),
    ],
)
def test_a_master_without_pods_and_workers(job: Job) -> None:
    assert list(PyTorch().check(job)) == []


def test_without_a_master_pods_are_left_alone() -> None:
    assert shaped(PyTorch(), a_job()).containers == [a_container()]


def test_defect_21_init_containers_get_the_variables() -> None:
    """Volcano leaves them out. No port is opened in them: they are gone when the meeting begins."""
    pod = shaped(PyTorch(), a_job(a_task("master", 1, a_template(initContainers=[a_container("init")]))), "master")
    assert pod.init_containers == [a_container("init", env=variables(0, 1))]


def test_one_task_may_be_master_and_worker() -> None:
    job = a_job(a_task("node", 3))
    plugin = PyTorch.parse(["--master=node", "--worker=node", "--wait-master-enabled"])[0]
    made = list(pods(job, [plugin]))
    assert list(plugin.check(job)) == []
    assert [pod.containers[0]["env"] for pod in made] == [variables(rank, 3, "train-node-0.train") for rank in range(3)]
    # The pod that the others wait for must not wait for itself.
    assert [len(pod.init_containers) for pod in made] == [0, 1, 1]


WAIT = ["--wait-master-enabled=true", "--wait-master-timeout=60", "--wait-master-image=example.com/box:2"]


def test_workers_wait_if_asked_to() -> None:
    plugin = PyTorch.parse(WAIT)[0]
    own = a_container("init")
    template = a_template(a_container(imagePullPolicy="Never"), a_container("x"), initContainers=[own])
    job = a_job(a_task("master", 1, template), a_task("worker", 2, template), a_task("watcher", 1, template))
    wait = waiting_container("train-master-0.train", 23456, 60, "example.com/box:2", "Never")
    for slot, pod in zip(slots(job), pods(job, [plugin]), strict=True):
        assert pod.init_containers[1:] == ([wait] if slot.task.name == "worker" else [])
        assert pod.init_containers[0]["name"] == "init"


def test_a_container_without_pull_policy_gives_none_on() -> None:
    pod = shaped(PyTorch(wait_master_enabled=True), JOB)
    assert "imagePullPolicy" not in pod.init_containers[0]


def test_an_init_container_of_that_name_is_the_user_s() -> None:
    own = a_container("wait-for-master")
    job = a_job(a_task("master"), a_task("worker", 1, a_template(initContainers=[own])))
    pod = shaped(PyTorch(wait_master_enabled=True), job)
    assert [(container["name"], container["image"]) for container in pod.init_containers] == [
        ("wait-for-master", own["image"])
    ]


def test_a_pod_without_containers_is_none_of_its_business() -> None:
    job = a_job(a_task("master"), a_task("worker", 1, {"spec": {}}))
    assert len(shaped(PyTorch(wait_master_enabled=True), job).init_containers) == 1


@pytest.mark.parametrize(
    ("task", "plugin", "changed"),
    [
        pytest.param("master", PyTorch(), {"env RANK": "masters come first"}, id="master"),
        pytest.param("worker", PyTorch(), {"env RANK": "masters first, then worker-0"}, id="worker"),
        pytest.param(
            "watcher",
            PyTorch(nproc_per_node=1),
            {"env RANK": "", "env PET_NPROC_PER_NODE": "--nproc-per-node"},
            id="other",
        ),
    ],
)
def test_why(task: str, plugin: PyTorch, changed: dict[str, str]) -> None:
    job = a_job(*JOB.spec.tasks, a_task("watcher"))
    assert plugin.why(a_slot(job, task)) == {
        "env MASTER_ADDR": "where rank 0 listens",
        "env MASTER_PORT": "--port",
        "env WORLD_SIZE": "master 1 + worker 2",
        "env RANK": "",
        "env PET_NNODES": "WORLD_SIZE, for torchrun",
        "env PET_NODE_RANK": "RANK, for torchrun",
        "env PET_MASTER_ADDR": "MASTER_ADDR, for torchrun",
        "env PET_MASTER_PORT": "MASTER_PORT, for torchrun",
        "env PET_NPROC_PER_NODE": "GPU limit of the container",
        "port 23456": "opened for rendezvous",
        "init wait-for-master": "--wait-master-enabled=true",
        "command": "waits until rank 0 listens",
        **changed,
    }


def test_why_of_a_single_task_counts_it_once() -> None:
    job = a_job(a_task("node", 3))
    assert PyTorch(master="node", worker="node").why(a_slot(job, "node"))["env WORLD_SIZE"] == "node 3"

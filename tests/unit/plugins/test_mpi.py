from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Job
from pumice.plugins.mpi import Mpi
from tests.builders import NAMESPACE, OWNER, a_container, a_job, a_slot, a_task, a_template, literal, rows, shaped

PORT = {"name": "mpijob-port", "containerPort": 22}
HOSTS = "train-worker-0.train,train-worker-1.train"
JOB = a_job(a_task("master"), a_task("worker", 2))


def with_limits(*limits: dict[str, Any]) -> Job:
    containers = [a_container(f"c{index}", resources={"limits": limit}) for index, limit in enumerate(limits)]
    return a_job(a_task("master"), a_task("worker", 2, a_template(*containers)))


def hostfile(job: Job) -> str:
    (config_map,) = Mpi().objects(job)
    assert config_map["metadata"] == {"name": "train-svc", "namespace": NAMESPACE, "ownerReferences": [OWNER]}
    assert (config_map["apiVersion"], config_map["kind"], list(config_map["data"])) == (
        "v1",
        "ConfigMap",
        ["mpi.hostfile"],
    )
    return str(config_map["data"]["mpi.hostfile"])


def test_the_master_gets_the_hosts_and_all_get_the_port() -> None:
    template = a_template(a_container(), initContainers=[a_container("init")])
    job = a_job(a_task("master", 1, template), a_task("worker", 2, template), a_task("other", 1, template))
    told_hosts: dict[str, Any] = {"env": literal(MPI_HOST=HOSTS)}
    for task in ("master", "worker", "other"):
        own = told_hosts if task == "master" else {}
        assert shaped(Mpi(), job, task).spec == {
            "schedulerName": "volcano",
            "containers": [a_container(ports=[PORT], **own)],
            "initContainers": [a_container("init", ports=[PORT], **own)],
        }


def test_arguments_name_tasks_and_port() -> None:
    plugin, findings = Mpi.parse(["--master=a", "--worker", "b", "--port=2222"])
    pod = shaped(plugin, a_job(a_task("a"), a_task("b")), "a")
    assert findings == []
    assert pod.containers == [
        a_container(env=literal(MPI_HOST="train-b-0.train"), ports=[{"name": "mpijob-port", "containerPort": 2222}])
    ]


def test_a_fixed_host_name_is_one_host() -> None:
    job = a_job(a_task("master"), a_task("worker", 2, a_template(hostname="box")))
    assert shaped(Mpi(), job, "master").containers[0]["env"] == literal(MPI_HOST="box.train")
    assert hostfile(job) == "box.train slots=1\n"


def test_workers_without_pods() -> None:
    job = a_job(a_task("master"), a_task("worker", 0))
    assert shaped(Mpi(), job, "master").containers[0]["env"] == literal(MPI_HOST="")
    assert hostfile(job) == ""


@pytest.mark.parametrize(
    ("job", "slots"),
    [
        pytest.param(JOB, 1, id="no limits"),
        pytest.param(with_limits({"cpu": "4"}), 4, id="CPUs"),
        pytest.param(with_limits({"cpu": "2500m"}), 2, id="whole CPUs"),
        pytest.param(with_limits({"cpu": "500m"}), 1, id="less than a CPU"),
        pytest.param(with_limits({"cpu": "16", "nvidia.com/gpu": 8}), 8, id="GPUs first"),
        pytest.param(with_limits({"cpu": "2"}, {"cpu": "3"}), 5, id="containers add up"),
        pytest.param(with_limits({"cpu": "2"}, {"amd.com/gpu": "1"}), 1, id="a GPU in any of them"),
        pytest.param(a_job(a_task("master"), a_task("worker", 2, {"spec": None})), 1, id="no spec"),
    ],
)
def test_slots_of_the_hostfile(job: Job, slots: int) -> None:
    assert hostfile(job) == "".join(f"{host} slots={slots}\n" for host in HOSTS.split(","))


def test_defect_27_a_master_without_worker_task_still_gets_its_port() -> None:
    """Volcano gives it neither port nor MPI_HOST, and says nothing."""
    job = a_job(a_task("master"))
    assert shaped(Mpi(), job, "master").containers == [a_container(env=literal(MPI_HOST=""), ports=[PORT])]
    assert hostfile(job) == ""
    found = list(Mpi().check(job))
    assert rows(found) == [("warning", "spec.plugins.mpi", "no task is named 'worker', so MPI_HOST will be empty")]
    assert found[0].hint == "name the task of the workers with --worker=<master>"


def test_a_missing_master_is_an_error() -> None:
    found = list(Mpi().check(a_job(a_task("boss"), a_task("worker"))))
    assert rows(found) == [
        ("error", "spec.plugins.mpi", "no task is named 'master', so no pod would get the list of workers")
    ]
    assert found[0].hint == "name the task that runs mpiexec with --master=<boss|worker>"


def test_too_many_hosts() -> None:
    assert list(Mpi().check(JOB)) == []
    job = a_job(a_task("master"), a_task("worker", 9000))
    (found,) = Mpi().check(job)
    fits = int(found.message.split("KB: ")[1].split()[0]) - 1
    assert found.message == f"MPI_HOST would be longer than 100 KB: {fits + 1} pods fit, the job has 9001"
    assert list(Mpi().check(a_job(a_task("master"), a_task("worker", fits)))) == []
    assert len(list(Mpi().check(a_job(a_task("master"), a_task("worker", fits + 1))))) == 1


def test_why() -> None:
    assert Mpi().why(a_slot(JOB, "master")) == {"env MPI_HOST": "hosts of task worker", "port 22": "sshd"}

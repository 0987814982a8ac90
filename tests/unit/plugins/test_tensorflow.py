from __future__ import annotations

import json

import pytest

from pumice.model.job import Job
from pumice.plugins.tensorflow import TensorFlow
from tests.builders import a_container, a_job, a_slot, a_task, a_template, literal, rows, shaped

PORT = {"name": "tfjob-port", "containerPort": 2222}
ROLES = a_job(a_task("evaluator"), a_task("chief"), a_task("worker", 2), a_task("ps", 2), a_task("other"))
CLUSTER = (
    '{"ps":["train-ps-0.train:2222","train-ps-1.train:2222"],'
    '"worker":["train-worker-0.train:2222","train-worker-1.train:2222"],'
    '"chief":["train-chief-0.train:2222"],"evaluator":["train-evaluator-0.train:2222"]}'
)


@pytest.mark.parametrize(
    ("task", "index", "own"),
    [
        ("ps", 1, '{"type":"ps","index":1}'),
        ("worker", 0, '{"type":"worker","index":0}'),
        ("chief", 0, '{"type":"chief","index":0}'),
        ("evaluator", 0, '{"type":"evaluator","index":0}'),
        ("other", 0, '{"type":"other","index":0}'),
    ],
)
def test_every_pod_gets_the_cluster_and_its_role(task: str, index: int, own: str) -> None:
    env = literal(TF_CONFIG=f'{{"cluster":{CLUSTER},"task":{own}}}')
    assert shaped(TensorFlow(), ROLES, task, index).spec == {
        "schedulerName": "volcano",
        "containers": [a_container(ports=[PORT], env=env)],
    }


def test_arguments_name_tasks_and_port() -> None:
    plugin, findings = TensorFlow.parse(["--ps=a", "--worker=b", "--chief=c", "--evaluator=d", "-port=1"])
    job = a_job(*(a_task(name) for name in "abcd"))
    config = json.loads(shaped(plugin, job, "b").containers[0]["env"][0]["value"])
    assert findings == []
    assert config == {
        "cluster": {
            "ps": ["train-a-0.train:1"],
            "worker": ["train-b-0.train:1"],
            "chief": ["train-c-0.train:1"],
            "evaluator": ["train-d-0.train:1"],
        },
        "task": {"type": "worker", "index": 0},
    }


def test_a_task_has_one_role() -> None:
    """Volcano lists a task that is named for two under one of them, and tells its pods the other."""
    pod = shaped(TensorFlow(ps="a", worker="a"), a_job(a_task("a", 2)), "a", 1)
    assert json.loads(pod.containers[0]["env"][0]["value"]) == {
        "cluster": {"worker": ["train-a-0.train:2222", "train-a-1.train:2222"]},
        "task": {"type": "worker", "index": 1},
    }


def test_roles_without_pods_are_left_out() -> None:
    config = shaped(TensorFlow(), a_job(a_task("worker", 2), a_task("ps", 0))).containers[0]["env"][0]["value"]
    assert list(json.loads(config)["cluster"]) == ["worker"]


def test_a_single_pod_needs_no_cluster() -> None:
    job = a_job(a_task("trainer"))
    assert shaped(TensorFlow(), job, "trainer").containers == [a_container()]
    assert list(TensorFlow().check(job)) == []


def test_defect_26_a_fixed_host_name_is_one_host() -> None:
    """Volcano lists it once for every replica, though they all share it; svc lists it once."""
    job = a_job(a_task("ps", 2, a_template(hostname="fixed")), a_task("worker"))
    config = json.loads(shaped(TensorFlow(), job).containers[0]["env"][0]["value"])
    assert config["cluster"]["ps"] == ["fixed.train:2222"]


def test_defect_26_init_containers_get_the_variable_and_containers_the_port() -> None:
    """Volcano opens no port and leaves init containers out."""
    template = a_template(a_container(), initContainers=[a_container("init")])
    pod = shaped(TensorFlow(), a_job(a_task("worker", 2, template)))
    assert [variable["name"] for variable in pod.init_containers[0]["env"]] == ["TF_CONFIG"]
    assert "ports" not in pod.init_containers[0]
    assert pod.containers[0]["ports"] == [PORT]


def test_the_user_s_own_stays() -> None:
    own = a_container(env=literal(TF_CONFIG="{}"), ports=[{"containerPort": 2222, "name": "mine"}])
    assert shaped(TensorFlow(), a_job(a_task("worker", 2, a_template(own)))).containers == [own]


@pytest.mark.parametrize(
    ("job", "findings"),
    [
        pytest.param(ROLES, [], id="good"),
        pytest.param(
            a_job(a_task("a"), a_task("b")),
            ["no task is named ps, worker, chief or evaluator, so TF_CONFIG lists no host"],
            id="no task has a role",
        ),
    ],
)
def test_check(job: Job, findings: list[str]) -> None:
    assert rows(TensorFlow().check(job)) == [("warning", "spec.plugins.tensorflow", message) for message in findings]


def test_one_task_for_all_roles_that_is_missing() -> None:
    plugin = TensorFlow(ps="x", worker="x", chief="x", evaluator="x")
    (found,) = plugin.check(a_job(a_task("a"), a_task("b")))
    assert found.message == "no task is named x, so TF_CONFIG lists no host"


def test_too_many_hosts() -> None:
    (found,) = TensorFlow().check(a_job(a_task("ps"), a_task("worker", 9000)))
    fits = int(found.message.split("KB: ")[1].split()[0]) - 1
    assert found.message == f"TF_CONFIG would be longer than 100 KB: {fits + 1} pods fit, the job has 9001"
    largest, larger = (a_job(a_task("ps"), a_task("worker", count)) for count in (fits, fits + 1))
    assert list(TensorFlow().check(largest)) == []
    lengths = [
        len(shaped(TensorFlow(), job, "worker", fits - 1).containers[0]["env"][0]["value"]) for job in (largest, larger)
    ]
    assert lengths[0] <= 100_000 < lengths[1]


@pytest.mark.parametrize(
    ("task", "reason"), [("ps", "role ps, index 0"), ("other", "the cluster; this pod has no role in it")]
)
def test_why(task: str, reason: str) -> None:
    assert TensorFlow().why(a_slot(ROLES, task)) == {"env TF_CONFIG": reason, "port 2222": "--port"}

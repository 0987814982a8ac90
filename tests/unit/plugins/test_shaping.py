from __future__ import annotations

from pumice.plugins.env import Env
from pumice.plugins.hcclrank import HcclRank
from pumice.plugins.pytorch import PyTorch
from pumice.plugins.shaping import pods, shaped_pod
from tests.builders import a_container, a_job, a_slot, a_task, a_template, env_of, literal


def test_all_pods_by_task_and_index() -> None:
    job = a_job(a_task("b", 2), a_task("none", 0), a_task("a", 1))
    assert [pod.name for pod in pods(job, [])] == ["train-b-0", "train-b-1", "train-a-0"]


def test_plugins_run_one_after_the_other() -> None:
    job = a_job(a_task("master"), a_task("worker", 3))
    pod = shaped_pod(a_slot(job, "worker", 2), [Env(), PyTorch(), HcclRank()])
    assert list(env_of(pod.containers[0]))[:3] == ["VK_TASK_INDEX", "VC_TASK_INDEX", "MASTER_ADDR"]
    assert pod.annotations["hccl/rankIndex"] == "3"


def test_defect_30_a_variable_of_the_user_is_not_overridden() -> None:
    """Volcano appends its own value behind the user's, and the last one counts."""
    template = a_template(a_container(env=literal(MASTER_ADDR="mine", VC_TASK_INDEX="mine")))
    pod = shaped_pod(a_slot(a_job(a_task("master", 1, template)), "master"), [Env(), PyTorch()])
    names = [variable["name"] for variable in pod.containers[0]["env"]]
    assert len(names) == len(set(names))
    assert env_of(pod.containers[0])["MASTER_ADDR"] == env_of(pod.containers[0])["VC_TASK_INDEX"] == "mine"

from __future__ import annotations

import pytest

from pumice.model.job import Job
from pumice.model.slot import slots
from pumice.plugins.ranks import rank, replicas, world_size
from tests.builders import a_job, a_task


@pytest.mark.parametrize(
    ("job", "master", "worker", "ranks", "size"),
    [
        pytest.param(a_job(a_task("master"), a_task("worker", 2)), "master", "worker", [0, 1, 2], 3, id="master first"),
        pytest.param(
            a_job(a_task("worker", 2), a_task("master")),
            "master",
            "worker",
            [1, 2, 0],
            3,
            id="order of tasks is no matter",
        ),
        pytest.param(
            a_job(a_task("master", 2), a_task("worker", 2)), "master", "worker", [0, 1, 2, 3], 4, id="several masters"
        ),
        pytest.param(a_job(a_task("node", 3)), "node", "node", [0, 1, 2], 3, id="one task is both"),
        pytest.param(
            a_job(a_task("master"), a_task("watcher"), a_task("worker")),
            "master",
            "worker",
            [0, None, 1],
            2,
            id="others take no part",
        ),
        pytest.param(a_job(a_task("worker", 2)), "master", "worker", [0, 1], 2, id="no master"),
        pytest.param(a_job(a_task("master", 2)), "master", "worker", [0, 1], 2, id="no worker"),
        pytest.param(
            a_job(a_task("master", 0), a_task("worker", 2)), "master", "worker", [0, 1], 2, id="master without pods"
        ),
    ],
)
def test_ranks(job: Job, master: str, worker: str, ranks: list[int | None], size: int) -> None:
    assert [rank(slot, master, worker) for slot in slots(job)] == ranks
    assert world_size(job, master, worker) == size


def test_a_task_that_is_not_there_has_no_replicas() -> None:
    job = a_job(a_task("worker", 2))
    assert (replicas(job, "worker"), replicas(job, "nobody")) == (2, 0)

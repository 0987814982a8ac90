from __future__ import annotations

import pytest

from pumice.model.findings import SPEC
from pumice.model.job import Job
from pumice.plugins.limits import most_pods, too_long
from tests.builders import a_job, a_task, rows


@pytest.mark.parametrize(
    ("replicas", "capacity", "most"),
    [
        pytest.param([10], 7, 7, id="one task"),
        pytest.param([10], 10, 10, id="all fit"),
        pytest.param([10], 0, 0, id="none fits"),
        pytest.param([3, 10], 7, 7, id="the larger task shrinks"),
        pytest.param([10, 3], 7, 7, id="wherever it stands"),
        pytest.param([3, 10], 2, 3, id="the other tasks alone are too many"),
    ],
)
def test_most_pods(replicas: list[int], capacity: int, most: int) -> None:
    job = a_job(*(a_task(f"t{position}", count) for position, count in enumerate(replicas)))
    assert most_pods(job, lambda grown: grown.total_replicas <= capacity) == most


def test_too_long() -> None:
    def thousand_each(job: Job) -> int:
        return 1000 * job.total_replicas

    assert list(too_long(a_job(a_task("a", 100)), SPEC, "LIST", thousand_each)) == []
    found = list(too_long(a_job(a_task("a", 101)), SPEC, "LIST", thousand_each))
    assert rows(found) == [("error", "spec", "LIST would be longer than 100 KB: 100 pods fit, the job has 101")]
    assert found[0].hint == "use fewer pods, or shorter names for the job and its tasks"

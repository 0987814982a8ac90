from __future__ import annotations

from pumice.model.slot import Slot, slots
from tests.builders import a_job, a_task, a_template


def test_all_slots_by_task_and_index() -> None:
    job = a_job(a_task("b", 2), a_task("none", 0), a_task("a"))
    assert list(slots(job)) == [
        Slot(job, job.spec.tasks[0], 0),
        Slot(job, job.spec.tasks[0], 1),
        Slot(job, job.spec.tasks[2], 0),
    ]


def test_the_names_of_a_slot() -> None:
    job = a_job(a_task("worker", 2, a_template(subdomain="net")))
    slot = Slot(job, job.spec.tasks[0], 1)
    assert (slot.pod_name, slot.short_name, slot.hostname, slot.subdomain) == (
        "train-worker-1",
        "worker-1",
        "train-worker-1",
        "net",
    )

from __future__ import annotations

from pumice.engines.kubernetes.controller.metrics import MOST_QUEUES, OTHER_QUEUES, Numbers


def test_jobs_that_ended_are_counted_by_queue() -> None:
    numbers = Numbers()
    for queue, before, after in (
        ("a", "Running", "Completed"),
        ("a", "Completed", "Completed"),
        ("b", "Running", "Failed"),
        ("b", "Pending", "Running"),
    ):
        numbers.moved(queue, before, after)
    assert (numbers.completed, numbers.failed) == ({"a": 1}, {"b": 1})


def test_queues_that_anybody_makes_up_do_not_fill_the_memory() -> None:
    numbers = Numbers()
    for number in range(MOST_QUEUES + 50):
        numbers.moved(f"queue-{number}", "Running", "Completed")
    numbers.moved("queue-0", "Running", "Completed")
    assert len(numbers.completed) == MOST_QUEUES + 1
    assert (numbers.completed["queue-0"], numbers.completed[OTHER_QUEUES]) == (2, 50)

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pumice.admission.context import Queue
from tests.builders import a_context, a_document
from tests.unit.admission.findings import Row, error, found

QUEUES = {
    "default": Queue(),
    "closed": Queue(state="Closed"),
    "new": Queue(state=""),
    "parent": Queue(children=2),
    "closing": Queue(state="Closing", children=1),
}
LEAF = "only a leaf queue takes jobs"


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        pytest.param("default", [], id="open"),
        pytest.param("", [], id="not set, thus default"),
        pytest.param(
            "defalt", [error("spec.queue", "no such queue", "defalt", "did you mean default?")], id="mistyped"
        ),
        pytest.param("nowhere", [error("spec.queue", "no such queue", "nowhere")], id="unknown"),
        pytest.param(
            "closed", [error("spec.queue", "the queue is Closed; only an open one takes jobs", "closed")], id="closed"
        ),
        pytest.param(
            "new", [error("spec.queue", "the queue is not open yet; only an open one takes jobs", "new")], id="no state"
        ),
        pytest.param(
            "parent", [error("spec.queue", f"the queue has child queues; {LEAF}", "parent")], id="with children"
        ),
        pytest.param(
            "closing",
            [
                error("spec.queue", "the queue is Closing; only an open one takes jobs", "closing"),
                error("spec.queue", f"the queue has child queues; {LEAF}", "closing"),
            ],
            id="closing, with a child",
        ),
        pytest.param(
            "root",
            [error("spec.queue", "the root queue takes no jobs", "root", "use a child queue, such as default")],
            id="root",
        ),
    ],
)
def test_queues_of_a_cluster(queue: str, expected: list[Row]) -> None:
    assert found(a_document(queue=queue), replace(a_context(), queues=QUEUES)) == expected


def test_queues_are_not_checked_offline() -> None:
    assert found(a_document(queue="nowhere")) == []


def test_the_root_queue_is_known_offline() -> None:
    assert [finding.path for finding in found(a_document(queue="root"))] == ["spec.queue"]


@pytest.mark.parametrize("queue", ["nowhere", "closed", "root"])
def test_without_volcano_queues_mean_nothing(queue: str) -> None:
    assert found(a_document(queue=queue), replace(a_context(), queues=QUEUES, queue_rules=False)) == []

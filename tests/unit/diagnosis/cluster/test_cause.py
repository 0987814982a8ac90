from __future__ import annotations

import pytest

from pumice.diagnosis.cluster.reading import amount, event_line, pod_line, shortage, shortage_text
from pumice.diagnosis.why import EvidenceLine
from pumice.model.quantity import Quantity
from tests.unit.diagnosis.cluster.readings import NOW, event, pod


def test_an_event_is_evidence_with_its_object_and_the_time_of_the_first() -> None:
    line = event_line(event("Pod", "train-worker-0", "FailedMount", "no such\nvolume.", 30))
    assert line == EvidenceLine(
        kind="Pod", name="train-worker-0", field="event FailedMount", since=line.since, text="no such volume"
    )
    assert line.since is not None
    assert (NOW - line.since).total_seconds() == 90


def test_a_field_of_a_pod_is_evidence() -> None:
    line = pod_line(pod(), "spec.nodeName", "n1\x1b[2J")
    assert line == EvidenceLine(kind="Pod", name="train-worker-0", field="spec.nodeName", text="n1\\x1b[2J")


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        pytest.param("requests.memory", "4 GiB", id="memory of a quota"),
        pytest.param("limits.cpu", "4294967296", id="CPUs of a quota"),
        pytest.param("pods", "4294967296", id="a number"),
    ],
)
def test_an_amount_is_that_of_the_resource_that_a_quota_names(resource: str, text: str) -> None:
    assert amount(resource, "4Gi") == text


@pytest.mark.parametrize(
    ("free", "text"),
    [
        pytest.param("500m", "cpu: 2 wanted, 0.5 of 8 free, 1.5 short", id="some are free"),
        pytest.param("-3", "cpu: 2 wanted, 0 of 8 free, 2 short", id="overdrawn"),
    ],
)
def test_a_shortage_in_words(free: str, text: str) -> None:
    short = shortage("cpu", *(Quantity.parse(each) for each in ("2", free, "8")))
    assert shortage_text(short) == text

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from pumice.diagnosis.cluster.objects import Event, Node, PodDetails, PodGroup, Queue, Quota, Taint, quantities
from pumice.model.quantity import Quantity

FIRST, LAST = "2026-05-04T11:00:00Z", "2026-05-04T11:30:00Z"


@pytest.mark.parametrize(
    ("fields", "begin", "last_seen"),
    [
        pytest.param({"firstTimestamp": FIRST, "lastTimestamp": LAST}, 0, 30, id="of the old API"),
        pytest.param({"eventTime": FIRST, "firstTimestamp": None, "lastTimestamp": None}, 0, 0, id="of the new API"),
        pytest.param({"eventTime": FIRST, "series": {"lastObservedTime": LAST}}, 0, 30, id="a series"),
        pytest.param({"metadata": {"creationTimestamp": LAST}}, 30, 30, id="without times"),
    ],
)
def test_times_of_an_event(fields: dict[str, Any], begin: int, last_seen: int) -> None:
    event = msgspec.json.decode(msgspec.json.encode({"reason": "x", **fields}), type=Event)
    hour = dt.datetime(2026, 5, 4, 11, tzinfo=dt.UTC)
    assert event.begin == hour + dt.timedelta(minutes=begin)
    assert event.last_seen == hour + dt.timedelta(minutes=last_seen)


def test_taints_are_written_as_kubectl_writes_them() -> None:
    assert str(Taint(key="a", value="b", effect="NoSchedule")) == "a=b:NoSchedule"
    assert str(Taint(key="a", effect="NoExecute")) == "a:NoExecute"


def test_an_ill_formed_quantity_counts_as_absent() -> None:
    assert quantities({"cpu": "2", "memory": "much", "pods": 3}) == {
        "cpu": Quantity.parse("2"),
        "pods": Quantity.parse("3"),
    }


def test_a_new_queue_is_open() -> None:
    assert msgspec.convert({"metadata": {"name": "q"}}, Queue).state == "Open"


def test_a_pod_group_knows_its_provider() -> None:
    group = msgspec.convert({"apiVersion": "scheduling.k8s.io/v1beta1", "metadata": {"name": "g"}}, PodGroup)
    assert not group.is_volcano


def test_conditions_and_containers_of_a_pod() -> None:
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "initContainerStatuses": [{"name": "setup"}],
        "containerStatuses": [{"name": "main"}],
    }
    pod = msgspec.convert({"metadata": {"name": "x"}, "status": status}, PodDetails)
    assert [container.name for container in pod.containers] == ["setup", "main"]
    assert pod.condition("PodScheduled") is None
    ready = pod.condition("Ready")
    assert ready is not None
    assert ready.since is None


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param([], False, id="says nothing"),
        pytest.param([{"type": "Ready", "status": "Unknown"}], False, id="lost"),
        pytest.param(
            [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}], True, id="ready"
        ),
    ],
)
def test_a_node_is_ready_if_it_says_so(conditions: list[dict[str, str]], expected: bool) -> None:
    raw = msgspec.json.encode({"metadata": {"name": "n"}, "status": {"conditions": conditions}})
    assert msgspec.json.decode(raw, type=Node).is_ready is expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, True, id="no scope"),
        pytest.param({"scopes": ["BestEffort"]}, False, id="a scope"),
        pytest.param({"scopeSelector": {"matchExpressions": []}}, False, id="a selector of scopes"),
    ],
)
def test_a_quota_is_for_all_pods_without_scopes(spec: dict[str, Any], expected: bool) -> None:
    raw = msgspec.json.encode({"metadata": {"name": "q"}, "spec": spec})
    assert msgspec.json.decode(raw, type=Quota).is_for_all_pods is expected

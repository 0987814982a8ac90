from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from pumice.model.snapshot import Command, ContainerEnd, JobKey, ObservedGroup, ObservedPod, PodPhase
from pumice.model.vocabulary import GANG_PROVIDERS

START = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


def at(seconds: int) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def pod(phase: str = "Running", *ends: ContainerEnd, deleted_at: dt.datetime | None = None) -> ObservedPod:
    return ObservedPod(
        name="train-worker-1",
        uid="u",
        task="worker",
        index=1,
        version=0,
        retry=0,
        phase=PodPhase(phase),
        created_at=START,
        deleted_at=deleted_at,
        ends=ends,
    )


def test_a_key_is_written_as_people_write_it() -> None:
    assert str(JobKey("lab", "train")) == "lab/train"


def test_people_call_a_pod_by_task_and_index() -> None:
    assert pod().short_name == "worker-1"


@pytest.mark.parametrize(
    ("phase", "deleted_at", "expected"),
    [
        pytest.param("Pending", None, (False, False, True), id="pending"),
        pytest.param("Running", None, (False, False, True), id="running"),
        pytest.param("Unknown", None, (False, False, True), id="unknown"),
        pytest.param("Succeeded", None, (False, True, False), id="succeeded"),
        pytest.param("Failed", None, (False, True, False), id="failed"),
        pytest.param("Running", START, (True, False, False), id="on its way out"),
        pytest.param("Failed", START, (True, True, False), id="failed on its way out"),
    ],
)
def test_state_of_a_pod(phase: str, deleted_at: dt.datetime | None, expected: tuple[bool, ...]) -> None:
    one = pod(phase, deleted_at=deleted_at)
    assert (one.is_deleting, one.is_finished, one.is_live) == expected


GOOD = ContainerEnd("main", 0, finished_at=at(9))
EARLY = ContainerEnd("side", 3, finished_at=at(2))
LATE = ContainerEnd("main", 1, finished_at=at(5))
TIMELESS = ContainerEnd("init", 7)


@pytest.mark.parametrize(
    ("ends", "failure", "ended"),
    [
        pytest.param((), None, None, id="nothing ended"),
        pytest.param((GOOD,), None, at(9), id="done"),
        pytest.param((GOOD, ContainerEnd("side", 0, finished_at=at(4))), None, at(9), id="the last end counts"),
        pytest.param((LATE, EARLY, GOOD), EARLY, at(2), id="the first failure counts"),
        pytest.param((TIMELESS, LATE), LATE, at(5), id="a failure without time comes last"),
        pytest.param((TIMELESS,), TIMELESS, None, id="only a failure without time"),
    ],
)
def test_when_and_how_a_pod_ended(
    ends: tuple[ContainerEnd, ...], failure: ContainerEnd | None, ended: dt.datetime | None
) -> None:
    assert pod("Failed", *ends).first_failure == failure
    assert pod("Failed", *ends).ended_at == ended


@pytest.mark.parametrize(
    ("phase", "admits"),
    [("", False), ("Pending", False), ("Inqueue", True), ("Running", True), ("Unknown", True), ("Completed", True)],
)
def test_pods_are_made_once_the_group_is_in_its_queue(phase: str, admits: bool) -> None:
    assert ObservedGroup({}, phase).admits_pods is admits


def test_only_without_a_gang_are_there_no_groups() -> None:
    assert [name for name, provider in GANG_PROVIDERS.items() if not provider.has_groups] == ["none"]


WRITTEN = {
    "apiVersion": "bus.volcano.sh/v1alpha1",
    "kind": "Command",
    "metadata": {"name": "suspend-1", "namespace": "lab"},
    "action": "AbortJob",
    "target": {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    },
    "reason": "asked for",
    "message": "by hand",
}


def test_every_field_of_a_command_is_read_and_written() -> None:
    assert {**WRITTEN, **msgspec.to_builtins(msgspec.convert(WRITTEN, Command))} == WRITTEN
    assert msgspec.convert({"action": "AbortJob"}, Command).target is None


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        pytest.param((), None, id="nothing has ended"),
        pytest.param((0, 0), "c1", id="the last end where none failed"),
        pytest.param((0, 3, 1), "c1", id="the first failure"),
    ],
)
def test_the_end_that_decided(codes: tuple[int, ...], expected: str | None) -> None:
    ends = [ContainerEnd(f"c{number}", code, finished_at=at(number)) for number, code in enumerate(codes)]
    decided = pod("Failed", *ends).deciding_end
    assert (None if decided is None else decided.container) == expected

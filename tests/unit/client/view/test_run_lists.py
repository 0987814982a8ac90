"""Lists of runs and pods are lists, and tables where they are shown."""

from __future__ import annotations

import copy
import datetime as dt
import pickle

import msgspec
import pytest
from msgspec import Struct

from pumice.client.values import PodStatus
from pumice.client.view.run_lists import Pods, RunList, statuses_of
from pumice.diagnosis.outcome import Outcome
from pumice.store.run_record import PodCounts
from tests.unit.client.statuses import NOW, a_status
from tests.unit.notebook_cells import ESCAPED, HOSTILE, shown

LOCAL = f"{NOW.astimezone():%Y-%m-%d %H:%M:%S}"


class Handle(Struct, frozen=True):
    ref: str

    @property
    def uid(self) -> str:
        return f"uid of {self.ref}"


RUNS = RunList(
    [Handle("ddp:2"), Handle("ddp:1"), Handle("added:1")],
    [
        a_status(run="ddp:2", uid="uid of ddp:2", note="lr=4", message="2 pods run"),
        a_status(
            run="ddp:1",
            uid="uid of ddp:1",
            outcome=Outcome.FAILED,
            pods=PodCounts(succeeded=3, total=4),
            max_attempts=0,
            finished=NOW + dt.timedelta(minutes=1),
        ),
    ],
)
PODS = Pods(
    [
        PodStatus(name="w-0", task="w", index=0, phase="Failed", attempt=2, code=5, line="bad\x1b[2J", restarts=1),
        PodStatus(name="w-1", task="w", index=1),
    ]
)


def test_runs_are_a_table_in_a_terminal() -> None:
    assert repr(RUNS).splitlines() == [
        "RUN      STATUS   PODS  ATTEMPT  SUBMITTED            NOTE",
        f"ddp:2    Running  2/4   2 of 3   {LOCAL}  lr=4 · 2 pods run",
        f"ddp:1    Failed   3/4   2        {LOCAL}",
        "added:1",
    ]


def test_runs_are_a_table_in_a_notebook() -> None:
    text = shown(RUNS._repr_html_())
    assert "ddp:1\nFailed\n3/4\n2\n" in text
    hostile = RunList([Handle("x")], [a_status(run=HOSTILE, uid="uid of x", note=HOSTILE)])
    assert shown(hostile._repr_html_()).count(ESCAPED) == 2


def test_pods_are_a_table() -> None:
    assert repr(PODS).splitlines() == [
        "POD  PHASE   ATTEMPT  RESTARTS  END          LAST LINE",
        "w-0  Failed  2        1         exit code 5  bad\\x1b[2J",
        "w-1  -",
    ]
    assert "w-0\nFailed\n2\n1\nexit code 5\nbad\\x1b[2J\nw-1\n-\n" in shown(PODS._repr_html_())


@pytest.mark.parametrize("values", [pytest.param(RUNS, id="runs"), pytest.param(PODS, id="pods")])
def test_they_are_lists(values: RunList[Handle] | Pods) -> None:
    assert isinstance(values, list)
    assert repr(copy.copy(values)) == repr(pickle.loads(pickle.dumps(values))) == repr(values)
    assert values == list(values)
    assert repr(type(values)()) == "[]"


def test_values_in_them_are_data() -> None:
    assert msgspec.json.encode(PODS) == msgspec.json.encode(list(PODS))


def test_statuses_go_from_list_to_list() -> None:
    assert repr(RunList(list(RUNS), statuses_of(RUNS))) == repr(RUNS)
    assert statuses_of(list(RUNS)) == ()

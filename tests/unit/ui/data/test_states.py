"""The state of each pod, as the page counts it: a pod that ends is not one that starts again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace

from pumice.model.snapshot import ContainerEnd, PodPhase
from pumice.store.events import ContainerRestarted, PodChanged, RunEvent, RunPlanned
from pumice.store.history.entries import EventEncoder, JournalEntry, Queued, Resumed, Started
from pumice.store.history.run_history import RunHistory
from pumice.store.journal import Entry
from pumice.store.run_record import RunRecord
from pumice.ui.data.states import attempt_states
from pumice.ui.values import PodState
from tests.builders import a_job, a_task
from tests.unit.reconcile.values import NOW, a_pod

JOB = a_job(a_task("worker", 1))
RECORD = RunRecord(uid="u", namespace="default", name="job", number=1, host="", boot="", created=NOW, job={})
RUNS = a_pod("worker-0", phase=PodPhase.RUNNING)
KILLED = ContainerEnd("main", 137, finished_at=NOW)
ENDED = replace(RUNS, ends=(KILLED,), has_ended=True)  # as a cluster says before the phase follows
ASKED_TO_END = replace(ENDED, deleted_at=NOW)


def history(*events: RunEvent | JournalEntry) -> RunHistory:
    encoder, folded = EventEncoder(), RunHistory(RECORD)
    number = 0
    for event in (RunPlanned(JOB, ""), Started(), *events):
        encoded = (
            encoder.encode(event)
            if isinstance(event, RunEvent)
            else [(type(event).__name__, msgspec.to_builtins(event))]
        )
        for kind, data in encoded:
            number += 1
            time = NOW + dt.timedelta(seconds=number)
            folded.add(Entry(number, time, float(number), kind, msgspec.Raw(msgspec.json.encode(data))))
    return folded


@pytest.mark.parametrize(
    ("events", "state"),
    [
        pytest.param([PodChanged(RUNS)], PodState.RUNNING, id="runs"),
        pytest.param(
            [PodChanged(RUNS), ContainerRestarted(RUNS, KILLED, 1)], PodState.RESTARTING, id="a container starts again"
        ),
        pytest.param([PodChanged(RUNS), PodChanged(ENDED)], PodState.RUNNING, id="its phase is to follow"),
        pytest.param([PodChanged(RUNS), PodChanged(ASKED_TO_END)], PodState.STOPPED, id="it was asked to end"),
        pytest.param(
            [PodChanged(RUNS), PodChanged(ENDED), PodChanged(ASKED_TO_END)],
            PodState.STOPPED,
            id="it ended, and was asked to",
        ),
        pytest.param([PodChanged(RUNS), Resumed(), Queued(2), Started()], PodState.STOPPED, id="its process is gone"),
    ],
)
def test_the_state_of_a_pod(events: Sequence[RunEvent | JournalEntry], state: PodState) -> None:
    assert attempt_states(history(*events), 1, over=False).states == {"worker-0": state}


def test_a_pod_whose_containers_have_ended_ran_once() -> None:
    [life] = history(PodChanged(RUNS), PodChanged(ENDED), PodChanged(ASKED_TO_END)).lives_of(1)
    assert [piece.end is not None for piece in life.runs] == [True]

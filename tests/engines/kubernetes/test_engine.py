"""The engine where nothing need be asked of a server; against a real one, see tests/kubernetes."""

from __future__ import annotations

import asyncio
import logging
from typing import cast

import msgspec
import pytest

from pumice.engines.kubernetes.client import Client
from pumice.engines.kubernetes.companions import CompanionKeeper
from pumice.engines.kubernetes.engine import KubernetesEngine
from pumice.engines.kubernetes.events import EventTeller
from pumice.engines.kubernetes.gangs.none import NoGang
from pumice.engines.kubernetes.jobs import SeenJob
from pumice.engines.kubernetes.metrics import Numbers
from pumice.engines.kubernetes.secret_keeper import SecretKeeper
from pumice.engines.kubernetes.touched import Touched
from pumice.engines.kubernetes.view import ClusterView
from pumice.engines.memory.clock import EPOCH
from pumice.model.bare_pod import bare_pod
from pumice.model.job import Job
from pumice.model.objects import owned
from pumice.model.snapshot import JobKey, Snapshot
from pumice.model.status import JobStatus
from pumice.reconcile.decision import CreatePod, EngineCommand, Ensure
from pumice.runtime.kubernetes_types import kubernetes_types
from pumice.runtime.ports import EngineError
from tests.builders import a_job, a_slot
from tests.engines.kubernetes.played_api import client_of, play, refusing

OLD = a_job(metadata={"uid": "old", "resource_version": "1"})
NEW = a_job(metadata={"uid": "new", "resource_version": "2"})
KEY = JobKey(OLD.namespace, OLD.name)


def an_engine(client: Client, *jobs: Job) -> KubernetesEngine:
    touched = Touched()
    view = ClusterView(client, kubernetes_types().types, (), touched.touch)
    for job in jobs:
        view.jobs.put(SeenJob(job))
    keeper = CompanionKeeper(client, view, SecretKeeper(client, touched.touch, lambda: 0.0))
    return KubernetesEngine(
        client=client,
        view=view,
        companions=keeper,
        gang=NoGang(),
        teller=EventTeller(client, lambda: EPOCH),
        touched=touched,
        numbers=Numbers(),
        now=lambda: EPOCH,
    )


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(CreatePod(bare_pod(a_slot(OLD)).manifest), id="a pod"),
        pytest.param(Ensure(owned(OLD, "v1", "ConfigMap", "train-svc", {"data": {}})), id="a companion"),
    ],
)
def test_what_was_decided_for_a_job_is_not_done_to_its_successor(command: EngineCommand) -> None:
    """Whoever asked the server would fail here, because there is none."""
    engine = an_engine(cast(Client, None), OLD, NEW)
    asyncio.run(engine.apply(KEY, command))
    assert engine.view.jobs.get(KEY.namespace, KEY.name) == SeenJob(NEW)


def test_a_status_that_cannot_be_written_is_told_in_the_log_once_for_many(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with client_of(refusing(403, "Forbidden")) as client:
            engine = an_engine(client, NEW)
            for _ in range(5):
                with pytest.raises(EngineError):
                    await engine.write_status(Snapshot(NEW), JobStatus(version=1))

    with caplog.at_level(logging.WARNING):
        play(story())
    told = [record.getMessage() for record in caplog.records]
    assert told == ["job lab/train: could not write the status: said Forbidden; it is tried again"]


def test_looks_are_counted() -> None:
    engine = an_engine(cast(Client, None), msgspec.structs.replace(NEW))
    asyncio.run(engine.observe(KEY))
    asyncio.run(engine.observe(JobKey("lab", "nobody")))
    assert engine.numbers.passes == 2

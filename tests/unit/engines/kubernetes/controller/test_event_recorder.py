from __future__ import annotations

import asyncio
import datetime as dt
import logging

import msgspec
import pytest
from aiohttp import web

from pumice.engines.kubernetes.controller.event_recorder import MAX_MESSAGE, EventRecorder, event_of
from pumice.model.job import Job
from pumice.reconcile.decision import JobEvent, Severity
from tests.builders import a_document, a_job
from tests.unit.engines.kubernetes.played_api import client_of, play

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


def test_fields_of_an_event() -> None:
    document = a_document()
    document["metadata"] |= {"namespace": "lab", "uid": "u1", "resourceVersion": "5"}
    job = msgspec.convert(document, Job)
    event = event_of(job, JobEvent("FailedCreate", "no room", Severity.WARNING), NOW)
    assert event["metadata"]["name"].startswith("train.")
    assert event["metadata"]["namespace"] == "lab"
    assert event["involvedObject"] == {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "namespace": "lab",
        "uid": "u1",
        "resourceVersion": "5",
    }
    assert (event["reason"], event["message"], event["type"]) == ("FailedCreate", "no room", "Warning")
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2030-01-01T00:00:00Z"
    assert event_of(job, JobEvent("x", "y"), NOW)["metadata"]["name"] != event["metadata"]["name"]


def test_a_long_message_is_shortened() -> None:
    job = msgspec.convert(a_document(), Job)
    message = event_of(job, JobEvent("InvalidJob", "x" * 5000), NOW)["message"]
    assert len(message) == MAX_MESSAGE
    assert message.endswith("...")


def test_the_name_of_an_event_is_bounded() -> None:
    job = a_job(metadata={"name": "x" * 253})
    event = event_of(job, JobEvent("InvalidJob", "no"), NOW)
    assert len(event["metadata"]["name"]) == 253
    assert event["involvedObject"]["name"] == job.name
    linked = a_job(metadata={"name": "x" * 235 + "-" + "y" * 17})
    assert event_of(linked, JobEvent("InvalidJob", "no"), NOW)["metadata"]["name"].startswith("x" * 235 + ".")


@pytest.mark.parametrize(
    ("causes", "lines"),
    [
        pytest.param([], 1, id="logged once"),
        pytest.param([{"reason": "NamespaceTerminating"}], 0, id="terminating namespace"),
    ],
)
def test_events_that_are_refused(causes: list[dict[str, str]], lines: int, caplog: pytest.LogCaptureFixture) -> None:
    async def refused(_request: web.BaseRequest) -> web.Response:
        status = {"reason": "Forbidden", "message": "no", "details": {"causes": causes}}
        return web.json_response(status, status=403)

    async def story() -> int:
        async with client_of(refused) as client:
            recorder = EventRecorder(client, lambda: NOW)
            recorder.record(a_job(), [JobEvent("x", "y")] * 5)
            running = asyncio.create_task(recorder.run())
            await recorder.flush(30)
            running.cancel()
            return recorder.dropped

    with caplog.at_level(logging.INFO):
        assert play(story()) == 5
    assert len(caplog.records) == lines

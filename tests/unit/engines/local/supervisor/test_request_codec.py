"""A request and its refusal are the same at the other end of the connection."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from pumice.admission.admit import admit
from pumice.diagnosis.why import Shortage
from pumice.engines.local.daemon.connections import decode_error, encode_error
from pumice.engines.local.supervisor.request_codec import (
    decode_output,
    decode_request,
    encode_output,
    encode_request,
)
from pumice.model.problem import Command, Option, Position, Problem
from pumice.model.pumice_error import PumiceError
from pumice.runtime.offline_context import offline_context
from pumice.store.events import LogLine, LogOutput
from pumice.store.options import Kill, Network, RunOptions
from pumice.store.run_errors import (
    BY_NAME,
    DoesNotFit,
    PullError,
    RunError,
    WrongState,
)
from pumice.store.run_request import JobSource, RunRequest
from pumice.store.settings import ConsentError, ExtraMount, HostAccess, Settings
from pumice.yaml.marks import MarkTree

TASK = {"name": "w", "replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"tasks": [TASK]}}
SHORT = Shortage(resource="cpu", wanted="8", free="3", capacity="4")


def test_a_request_arrives_as_it_was_sent_with_secrets_of_any_bytes() -> None:
    settings = Settings(
        workdir=Path("/work"), state=Path("/state"), mounts=(ExtraMount(Path("/data"), read_only=True),)
    )
    env = {"MY_TOKEN": "s3cret", "BYTES": os.fsdecode(b"\xff\xfe")}
    options = RunOptions(
        replace(settings, env=env, passed_on=tuple(env)), {"w": 1}, (Kill("w-0", 1.5),), network=Network.JOB
    )
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "value"}}
    sent = RunRequest(admit(JOB, offline_context()), options, [secret], JobSource("job.yaml", MarkTree(1, 2, {})))
    got = decode_request(msgspec.json.decode(msgspec.json.encode(encode_request(sent))))
    assert got.options == options
    assert got.documents == [secret]
    assert got.job.job == sent.job.job
    assert (got.source.file, got.source.plain()) == ("job.yaml", sent.source.plain())


def test_lines_arrive_as_they_were_printed() -> None:
    lines = [
        LogLine("w-0", "c", "stdout", "one"),
        LogLine("w-0", "c", "stdout", ""),
        LogLine("w-0", "c", "stdout", "50 %", unfinished=True),
        LogLine("w-1", "c", "stderr", ""),
        LogLine("w-1", "c", "stdout", "10 %", unfinished=True),
    ]
    plain = msgspec.json.decode(msgspec.json.encode(encode_output(LogOutput(lines))))
    assert decode_output(plain) == LogOutput(lines)


def _sent(error: BaseException) -> Exception:
    return decode_error(json.loads(msgspec.json.encode(encode_error(error))))


def _consent() -> ConsentError:
    error = ConsentError.of([Problem("a", "b", Position("f", 3))])
    error.accesses = (HostAccess(Path("/data"), True, "job.yaml"),)
    return error


def _short() -> DoesNotFit:
    error = DoesNotFit("too large", "smaller")
    error.remedy, error.shortages = Option("fit", True), (SHORT,)
    return error


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(PullError.of([Problem("one", "hint"), Problem("two")]), id="several problems"),
        pytest.param(WrongState("not yet"), id="wrong state"),
        pytest.param(WrongState("no", (Command("stop", "a:1"), ", or ", Option("force", True))), id="advice"),
        pytest.param(_consent(), id="consent"),
        pytest.param(_short(), id="shortages"),
        *(pytest.param(kind("no", "hint"), id=name) for name, kind in BY_NAME.items()),
    ],
)
def test_a_refusal_is_the_same_for_the_client(error: RunError) -> None:
    got = _sent(error)
    assert type(got) is type(error)
    assert isinstance(got, RunError)
    assert (got.problems, got.exit_code) == (error.problems, error.exit_code)
    assert {name: getattr(got, name, None) for name in ("accesses", "remedy", "shortages")} == {
        name: getattr(error, name, None) for name in ("accesses", "remedy", "shortages")
    }


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        pytest.param(OSError(28, "No space left", "/x"), OSError, "[Errno 28] No space left: '/x'", id="system"),
        pytest.param(MemoryError(), MemoryError, "", id="memory"),
        pytest.param(ExceptionGroup("g", [RuntimeError("can't start")]), RuntimeError, "can't start", id="group"),
        pytest.param(KeyError("x"), RuntimeError, "KeyError: 'x'", id="defect"),
        pytest.param(PumiceError("other"), RunError, "other", id="other error of Pumice"),
    ],
)
def test_what_is_not_the_users_mistake_is_reported(error: Exception, kind: type[Exception], text: str) -> None:
    got = _sent(error)
    assert (type(got), str(got)) == (kind, text)

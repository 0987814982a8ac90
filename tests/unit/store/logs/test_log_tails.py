"""The entries of the Secret that keeps the ends of logs."""

from __future__ import annotations

import base64
import datetime as dt

import pytest

from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.store.logs.log_tails import MOST_BYTES, LogTail, end_of, old_keys, read_tail, read_tails, tail_data

NOON = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC)


def a_tail(attempt: int = 1, text: bytes = b"t a\n", last_line: str = "") -> LogTail:
    end = ContainerEnd("main", 3, finished_at=NOON, last_line=last_line)
    pod = ObservedPod(
        "train-worker-1", "u", "worker", 1, 0, attempt - 1, phase=PodPhase.FAILED, created_at=NOON, ends=(end,)
    )
    return LogTail(attempt, pod, "main", "", text)


@pytest.mark.parametrize(
    ("log", "kept"),
    [
        pytest.param(b"", b"", id="nothing"),
        pytest.param(b"t a\nt b", b"t a\nt b\n", id="the last line is not complete"),
        pytest.param(b"t a\r\nt \x0b\x1c\n", b"t a\r\nt \x0b\x1c\n", id="only line feeds end lines"),
        pytest.param(b"t\n" * 300, b"t\n" * 100, id="too many lines"),
        pytest.param(b"t " + b"x" * 8000 + b"\nt " + b"y" * 8000 + b"\n", b"t " + b"y" * 8000 + b"\n", id="too long"),
        pytest.param(b"t " + b"x" * 9000 + b"end\n", b"t " + b"x" * (MOST_BYTES - 6) + b"end\n", id="a long line"),
        pytest.param(b"x" * 9000, b"x" * 64 + b" " + b"x" * (MOST_BYTES - 66) + b"\n", id="no time"),
    ],
)
def test_the_end_of_a_log(log: bytes, kept: bytes) -> None:
    assert end_of(log) == kept
    assert len(kept) <= MOST_BYTES


def test_what_is_written_is_read() -> None:
    tail = a_tail(text=b"\x00\xff\x1b[2J\n")
    assert read_tail(tail_data(tail), 1) == tail


def test_what_the_pod_says_is_bounded() -> None:
    data = tail_data(a_tail(text=b"", last_line="x" * 100_000))
    assert sum(map(len, data.values())) < 4096


def test_the_oldest_attempts_go() -> None:
    data = {key: value for number in range(1, 11) for key, value in tail_data(a_tail(number)).items()}
    assert old_keys(data, 10) == []
    assert old_keys(data, 11) == ["attempt-1.json", "attempt-1.log"]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"attempt-1.json": "%"}, id="no base64"),
        pytest.param({"attempt-1.json": base64.b64encode(b"\xff{").decode()}, id="no JSON"),
        pytest.param({"attempt-1.json": base64.b64encode(b"{}").decode()}, id="no pod"),
        pytest.param({"attempt-1.log": ""}, id="no description"),
        pytest.param({"attempt-0.json": "", "attempt-x.json": "", "other": ""}, id="other names"),
    ],
)
def test_what_cannot_be_read_is_left_out(data: dict[str, str]) -> None:
    assert list(read_tails(data)) == []

"""The last words about a job."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from pumice.engines.local.verdict import Advice, Failures, last_words
from pumice.model.job import Job, JobSpec, Metadata
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.model.status import JobState, JobStatus

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
JOB = Job(spec=JobSpec(max_retry=3))


def _end(second: float, code: int = 1, line: str = "", **fields: object) -> ContainerEnd:
    end = ContainerEnd("w", code, finished_at=START + dt.timedelta(seconds=second), last_line=line)
    return replace(end, **fields)  # type: ignore[arg-type] # fields of ContainerEnd


def _failed(index: int, end: ContainerEnd, *, version: int = 0, uid: str = "") -> ObservedPod:
    return ObservedPod(f"j-w-{index}", uid or f"u{index}", "w", index, version, 1, PodPhase.FAILED, START, ends=(end,))


def _failures(*pods: ObservedPod) -> Failures:
    failures = Failures()
    for pod in pods:
        failures.take(pod)
    return failures


def _names(failures: Failures) -> list[str]:
    return [failure.pod.short_name for failure in failures.in_order()]


def test_who_failed_first_comes_first_and_no_more_than_six_lines() -> None:
    pods = [_failed(index, _end(10 - index, line="first\n  hint: second")) for index in range(6)]
    state = JobState(
        phase="Failed", reason="RetriesExhausted", message="all 3 attempts failed (maxRetry); the last cause: x"
    )
    job = Job(spec=JobSpec(max_retry=3), status=JobStatus(state=state))
    words = last_words(job, _failures(*pods).in_order(), Advice("pumice run x", "PodFailed -> AbortJob (policies[0])"))
    followers = [f"w-{4 - later} (exit code 1, {later + 1}.0s later)" for later in range(3)]
    assert words.lines == (
        "w-5 failed first: exit code 1 after 5.0s (attempt 2 of 3)",
        "  last line     first; hint: second",
        f"  then          {', '.join(followers)} and 2 more",
        "  why           all 3 attempts failed (maxRetry)",
        "  policy        PodFailed -> AbortJob (policies[0])",
        "  next          pumice run x",
    )
    assert (words.pod, words.code, words.attempt) == ("w-5", 1, 2)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        pytest.param(_end(1, 7), "exit code 7 after 1.0s", id="exit code"),
        pytest.param(_end(1, 137, signal=9), "signal 9 (SIGKILL) after 1.0s", id="signal"),
        pytest.param(
            _end(1, 137, signal=9, reason="OOMKilled"), "signal 9 (SIGKILL), OOMKilled after 1.0s", id="out of memory"
        ),
        pytest.param(_end(1, 1, container="first"), "exit code 1 in container first after 1.0s", id="init container"),
        pytest.param(
            _end(1, 127, reason="StartError", container=""), "exit code 127, StartError after 1.0s", id="the pod itself"
        ),
    ],
)
def test_the_first_line_says_how(end: ContainerEnd, told: str) -> None:
    words = last_words(JOB, _failures(_failed(0, end)).in_order(), Advice("pumice"))
    assert words.lines[0] == f"w-0 failed first: {told} (attempt 2 of 3)"
    assert words.code == end.exit_code


@pytest.mark.parametrize(
    ("end", "cause", "line"),
    [
        pytest.param(_end(1, line="words"), "", "  last line     words", id="last line"),
        pytest.param(_end(1, line="no such", reason="StartError"), "", "  cause         no such", id="never ran"),
        pytest.param(_end(1, line="words"), "why", "  cause         why", id="something better"),
    ],
)
def test_the_second_line_says_why(end: ContainerEnd, cause: str, line: str) -> None:
    assert last_words(JOB, _failures(_failed(0, end)).in_order(), Advice("pumice", cause=cause)).lines[1] == line


def test_a_line_that_would_not_fit_is_cut() -> None:
    words = last_words(JOB, _failures(_failed(0, _end(1, line="x" * 5000))).in_order(), Advice("pumice"))
    assert words.lines[1].endswith("xxx...")
    assert len(words.lines[1]) < 400


def test_pods_that_were_told_to_end_are_no_culprits() -> None:
    ended = replace(_failed(0, _end(1, 143)), deleted_at=START)
    assert _names(_failures(ended)) == []
    # Neither is one that failed on its own acquitted when it is removed later.
    assert _names(_failures(_failed(0, _end(1)), ended)) == ["w-0"]


def test_who_was_made_anew_is_forgiven() -> None:
    failed = _failed(0, _end(1))
    again = replace(failed, uid="another", phase=PodPhase.RUNNING, ends=())
    assert _names(_failures(failed, _failed(1, _end(2)), again)) == ["w-1"]
    assert _names(_failures(failed, _failed(1, _end(2), version=1))) == ["w-1"]


def test_without_a_failure_the_state_speaks() -> None:
    state = JobState(phase="Failed", reason="DeadlineExceeded", message="the job ran longer than allowed")
    job = Job(metadata=Metadata(name="j"), status=JobStatus(state=state))
    words = last_words(job, [], Advice("pumice run x"))
    assert words.lines == ("j Failed: the job ran longer than allowed", "  next          pumice run x")
    assert words.code == 1


def test_who_was_started_again_is_to_blame_where_nobody_else_is() -> None:
    again = replace(_failed(0, _end(1, 3)), phase=PodPhase.RUNNING, restarts=2)
    assert _names(_failures(again)) == ["w-0"]
    assert _names(_failures(again, _failed(1, _end(2)))) == ["w-1"]
    assert _names(_failures(again, replace(again, phase=PodPhase.SUCCEEDED))) == []
    assert _names(_failures(replace(again, restarts=0))) == []
    assert _names(_failures(again, _failed(1, _end(2), version=1))) == ["w-1"]

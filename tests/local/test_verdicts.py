"""The last words about a job."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from pumice.engines.local.verdicts import failures_among, last_words
from pumice.model.job import Job, JobSpec
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
JOB = Job(spec=JobSpec(max_retry=3))


def _failed(index: int, second: float, code: int = 1, line: str = "") -> ObservedPod:
    end = ContainerEnd("w", code, finished_at=START + dt.timedelta(seconds=second), last_line=line)
    return ObservedPod("j-w", f"u{index}", "w", index, 0, 1, PodPhase.FAILED, START, ends=(end,))


def test_who_failed_first_comes_first_and_no_more_than_six_lines() -> None:
    pods = [_failed(index, 10 - index, line="first\n  hint: second") for index in range(6)]
    words = last_words(JOB, failures_among(pods), "PodFailed -> AbortJob (policies[0])", "pumice run x")
    followers = [f"w-{4 - later} (exit code 1, {later + 1}.0s later)" for later in range(3)]
    assert words.lines == (
        "w-5 failed first: exit code 1 after 5.0s (attempt 2 of 3)",
        "  last line     first; hint: second",
        f"  then          {', '.join(followers)} and 2 more",
        "  policy        PodFailed -> AbortJob (policies[0])",
        "  next          pumice run x",
    )
    assert (words.pod, words.code) == ("w-5", 1)


def test_pods_that_were_told_to_end_are_no_culprits() -> None:
    ended = replace(_failed(0, 1, code=143), deleted_at=START)
    assert failures_among([ended]) == []
    assert last_words(JOB, [], "", "").code == 1

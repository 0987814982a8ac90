"""What `pumice top` shows of a run that has ended."""

from __future__ import annotations

import datetime as dt

from pumice.client.local.connections import newest_samples
from pumice.store.sample_file import Sample

START = dt.datetime(2026, 9, 18, tzinfo=dt.UTC)


def sample(pod: str, t: float, memory: int) -> Sample:
    return Sample(pod=pod, attempt=1, time=START, t=t, cpu=0.5, cpu_seconds=t, memory=memory)


def test_the_last_sample_before_a_pod_was_killed_counts() -> None:
    peak, other = sample("worker-0", 2, 900), sample("master-0", 4, 50)
    recorded = [
        sample("master-0", 1, 40),
        sample("worker-0", 1, 100),
        peak,
        # No process was left of it, and its end was not recorded yet.
        sample("worker-0", 3, 0),
        other,
    ]
    assert newest_samples(recorded) == [other, peak]

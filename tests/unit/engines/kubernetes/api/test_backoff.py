from __future__ import annotations

import random

import pytest

from pumice.engines.kubernetes.api.backoff import Backoff


def test_delays_double_up_to_the_longest_and_half_of_each_is_random() -> None:
    backoff = Backoff(first=1.0, longest=8.0, rng=random.Random(5))
    delays = [backoff.after_failure() for _ in range(200)]
    for delay, ceiling in zip(delays, [1, 2, 4, *[8] * 197], strict=True):
        assert ceiling / 2 <= delay <= ceiling
    assert len(set(delays)) == len(delays)


def test_reset_starts_with_the_first_delay() -> None:
    backoff = Backoff(first=1.0, longest=100.0)
    for _ in range(6):
        backoff.after_failure()
    backoff.reset()
    assert backoff.after_failure() <= 1.0


@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
    [
        pytest.param(10.0, 10.0, 10.5, id="requested plus jitter"),
        pytest.param(1e9, 300.0, 300.5, id="bounded"),
    ],
)
def test_retry_after_is_obeyed(retry_after: float, least: float, most: float) -> None:
    delay = Backoff(first=1.0).after_failure(retry_after)
    assert least < delay <= most


def test_many_failures_do_not_overflow() -> None:
    backoff = Backoff()
    assert all(backoff.after_failure() <= 30.0 for _ in range(5000))

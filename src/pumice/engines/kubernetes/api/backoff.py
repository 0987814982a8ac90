"""Exponential backoff with jitter.

Half of every delay is random, so that clients which lost the same server at the same time do not all return at once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

# The longest Retry-After that is obeyed: a nonsensical number must not stop the controller for a day.
MAX_RETRY_AFTER = 300.0


@dataclass(slots=True)
class Backoff:
    first: float = 0.2
    longest: float = 30.0
    rng: random.Random = field(default_factory=random.Random)
    _failures: int = 0

    def after_failure(self, retry_after: float | None = None) -> float:
        """Return the seconds to wait before the next attempt; never less than the server requested."""
        # The exponent is bounded, or the power of two overflows after a night of failures.
        ceiling = min(self.longest, self.first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        delay = self.rng.uniform(ceiling / 2, ceiling)
        if retry_after is None:
            return delay
        # The jitter comes on top, so that clients with the same Retry-After do not return at once.
        return min(retry_after, MAX_RETRY_AFTER) + delay / 2

    def reset(self) -> None:
        self._failures = 0

"""How long to wait before the next try: longer each time, never longer than a cap, and never in step with others.

Half of every delay is drawn at random. Clients that all lost the same server at the same moment would otherwise all
come back at the same moment, too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

# A server may ask for patience, but a nonsensical number must not put the controller to sleep for a day.
LONGEST_REQUESTED = 300.0


@dataclass(slots=True)
class Backoff:
    first: float = 0.2
    longest: float = 30.0
    rng: random.Random = field(default_factory=random.Random)
    _failures: int = 0

    def after_failure(self, requested: float | None = None) -> float:
        """The seconds to wait now; never less than the server requested."""
        # The exponent is bounded, or the power of two overflows after a night of failures.
        ceiling = min(self.longest, self.first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        delay = self.rng.uniform(ceiling / 2, ceiling)
        if requested is None:
            return delay
        # On top of what was requested, so that everybody who was sent away does not come back in one moment.
        return min(requested, LONGEST_REQUESTED) + delay / 2

    def reset(self) -> None:
        self._failures = 0

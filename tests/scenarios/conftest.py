"""`simulate` runs a test twice: deleted pods vanish at once, or take their time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.scenarios.simulation import Simulation

Simulate = Callable[..., Simulation]


@pytest.fixture(params=[pytest.param(False, id="at once"), pytest.param(True, id="slowly")])
def simulate(request: pytest.FixtureRequest) -> Simulate:
    return partial(Simulation, slow=request.param)

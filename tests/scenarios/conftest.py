"""Stages: `stage` plays a story twice, with pods that vanish at once and with pods that take their time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.scenarios.stage import Stage

MakeStage = Callable[..., Stage]


@pytest.fixture(params=[pytest.param(False, id="at once"), pytest.param(True, id="slowly")])
def stage(request: pytest.FixtureRequest) -> MakeStage:
    return partial(Stage, slow=request.param)

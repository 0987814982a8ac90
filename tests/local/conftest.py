"""Fixtures of the tests on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.commands import Terminal, open_terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with open_terminal(tmp_path) as found:
        yield found

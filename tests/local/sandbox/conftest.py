"""The fixture `namespaces` skips tests on machines that refuse namespaces; `pytestmark` applies it to a module."""

from __future__ import annotations

import pytest

from tests.local.sandbox import boxes


@pytest.fixture
def namespaces() -> None:
    boxes.need_namespaces()

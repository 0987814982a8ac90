"""A test that wants real namespaces uses the fixture `namespaces`; all tests of a module do by `pytestmark`."""

from __future__ import annotations

import pytest

from tests.local.sandbox import boxes


@pytest.fixture
def namespaces() -> None:
    boxes.need_namespaces()

"""Fixtures for pytest: `pytest_plugins = ["pumice.testing"]` in your conftest.py.

    def test_resumes_after_a_dead_worker(pumice_client):
        with pumice_client.start(pumice.load("job.yaml")) as run:
            run.wait("running", timeout=60)
            run.kill("worker-1")
            assert run.wait(timeout=300).attempts == 2

The client of a test stores its runs in a temporary directory.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pumice.client.sync_client import Client

__all__ = ["pumice_client"]


@pytest.fixture
def pumice_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client with records of its own. At the end its runs are stopped; their logs stay in pytest's directory."""
    client = Client(state=tmp_path_factory.mktemp("pumice"))
    yield client
    client.shut_down()

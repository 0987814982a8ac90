"""Fixtures for pytest: `pytest_plugins = ["pumice.testing"]` in your conftest.py.

    def test_resumes_after_a_dead_worker(pumice_client):
        with pumice_client.start(pumice.load("job.yaml")) as run:
            run.wait("running", timeout=60)
            run.kill("worker-1")
            assert run.wait(timeout=300).attempts == 2

The client of a test stores its runs in a temporary directory. `pytest --pumice-on CONTEXT` starts them as Jobs on a
cluster; without it, they are on this machine, whatever PUMICE_ON and `on =` say.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pumice.client.backends import LOCAL, delete_submitted, open_backend
from pumice.client.loop_thread import private_loop
from pumice.client.sync_client import Client
from pumice.store.run_errors import InvalidOption

__all__ = ["pumice_client"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pumice")
    group.addoption("--pumice-on", metavar="CONTEXT", default="", help="where pumice_client starts runs: a cluster")
    group.addoption("--pumice-namespace", metavar="NS", default="", help="with --pumice-on: the namespace of the Jobs")


@pytest.fixture
def pumice_client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client with records of its own. At the end its runs are stopped; their logs stay in pytest's directory.

    With `--pumice-on`, a client of that cluster. At the end the Jobs that the test has started are deleted, with the
    claims that they own; archives for `pumice open` stay in pytest's directory.
    """
    on, namespace = request.config.getoption("--pumice-on"), request.config.getoption("--pumice-namespace")
    directory = tmp_path_factory.mktemp("pumice")
    if on in ("", LOCAL):
        client = Client(state=directory)
        yield client
        client.shut_down()
        return
    try:
        backend = open_backend(on, namespace)
    except InvalidOption as error:
        raise pytest.UsageError(f"--pumice-on: {error}") from error
    with Client(namespace=namespace, backend=backend) as client:
        yield client
        private_loop().call(delete_submitted(backend, directory))

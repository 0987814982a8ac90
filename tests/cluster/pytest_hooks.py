"""What tests/cluster and tests/kubelet share: logs in the reports of failed tests, names of namespaces."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster

RUNNING = pytest.StashKey[Cluster]()


@pytest.hookimpl(hookwrapper=True)
def report_with_logs(item: pytest.Item) -> Iterator[None]:
    """Add the last log lines of all servers to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]  # pluggy's result, which the annotation of a wrapper cannot name
    cluster = item.config.stash.get(RUNNING, None)
    if report.failed and cluster is not None:
        for name, daemon in cluster.daemons.items():
            report.sections.append((f"{name} ({'alive' if daemon.alive else 'ended'})", daemon.tail()))


def new_namespace(cluster: Cluster, test: str) -> str:
    """Make a namespace for one test, and return its name."""
    words = re.sub(r"[^a-z0-9]+", "-", test.lower())[:45].strip("-")
    name = f"{words}-{os.urandom(3).hex()}"
    cluster.make_namespace(name)
    return name

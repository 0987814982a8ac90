"""`run --timeout` on a cluster whose definition of Jobs is Volcano's: it has no activeDeadlineSeconds."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator

import pytest

from pumice.client.cluster.connection import Connection
from pumice.client.cluster.submission.submit import KEPT_HERE, knows_deadline
from pumice.engines.kubernetes.install import names
from tests.cluster.api import Api, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers, install
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.typed_commands import Pumice
from tests.cluster.volcano_definitions import volcano_definition


@pytest.fixture
def without_deadline(pumice_cluster: Cluster) -> Iterator[None]:
    def knows() -> bool:
        async def ask() -> bool:
            connection = Connection.open("admin", kubeconfig=str(pumice_cluster.kubeconfig()))
            try:
                return await knows_deadline(connection)
            finally:
                await connection.close()

        return asyncio.run(ask())

    theirs = json.dumps(volcano_definition(names.JOBS_CRD))
    pumice_cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=theirs)
    try:
        eventually("the definition is Volcano's", lambda: not knows())
        yield
    finally:
        install(pumice_cluster)
        eventually("the definition is Pumice's", knows)


@pytest.mark.usefixtures("without_deadline")
def test_the_client_keeps_the_time_from_the_first_pod_on(
    controllers: Controllers, pumice: Pumice, api: Api, namespace: str
) -> None:
    """As activeDeadlineSeconds counts: the Job waits for longer than its timeout before a node takes its pods."""
    controllers.start(namespace)
    kubelet = FakeKubelet(controllers.cluster, namespace)

    def take_pods() -> None:
        eventually("it waits", lambda: api.find("Job", namespace, "train") is not None)
        time.sleep(3)
        kubelet.start()

    taking = threading.Thread(target=take_pods)
    taking.start()
    try:
        done = pumice("run", "job.yaml", "--timeout", "1s")
    finally:
        taking.join()
        kubelet.stop()
    assert done.code == 124, done.err
    assert KEPT_HERE in done.err
    assert "Running    2/2" in done.err
    assert "train ran longer than its timeout of 1s and was stopped" in done.err
    assert api.get("Job", namespace, "train")["status"]["state"]["phase"] == "Terminated"

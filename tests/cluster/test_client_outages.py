"""An API server that goes away while a Job is followed: each command says so once, and goes on where it was."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import threading
import time

import pytest

from pumice.cli.main import main
from tests.cluster.api import Api, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import MAIN
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.pod_status import timestamp
from tests.cluster.staged_jobs import RUNNING, StagedJob, running, terminated
from tests.conftest import SOAK

OUTAGE = 60.0 if SOAK else 2.0  # seconds


@pytest.fixture
def server(server: LogServer, monkeypatch: pytest.MonkeyPatch) -> LogServer:
    """Commands speak of the cluster by default."""
    monkeypatch.setenv("PUMICE_ON", "admin")
    return server


@pytest.mark.parametrize(
    ("words", "code", "out"),
    [
        pytest.param(("logs", "train", "-f", "--no-prefix"), 0, "before\nmeanwhile\n", id="logs"),
        pytest.param(("wait", "train"), 0, "train Succeeded\n", id="wait"),
        pytest.param(("attach", "train", "--no-prefix"), 0, "meanwhile\n", id="attach"),
    ],
)
def test_a_server_that_goes_away_for_a_minute(  # noqa: PLR0917 - parameters of the test
    server: LogServer,
    api: Api,
    namespace: str,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    out: str,
) -> None:
    job = StagedJob(api, namespace, replicas=1)
    job.pod(0, "Running", running())
    job.phases(*RUNNING, running=1)
    output = server.outputs["train-worker-0", False] = ContainerOutput([("2026-11-18T12:00:01Z", "before")], False)

    def go_away() -> None:
        watches = 1 if words[0] == "wait" else 2
        while server.open_watches < watches:
            time.sleep(0.02)
        server.go_down()
        output.lines.append((f"{timestamp()[:-1]}.999999999Z", "meanwhile"))
        time.sleep(OUTAGE)
        server.come_back()
        time.sleep(1.0)
        output.ended = True
        job.pod(0, "Succeeded", terminated(0))
        job.phases(*RUNNING, "Completed", succeeded=1)

    outage = threading.Thread(target=go_away)
    outage.start()
    assert main(list(words)) == code
    outage.join()
    shown = capsys.readouterr()
    assert shown.out == out
    said = [line for line in shown.err.splitlines() if line.startswith("admin: ")]
    assert [line.split(":")[1].split(",")[0] for line in said] == [" connection lost", " connected again"], shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("count", [pytest.param(4, id="4"), pytest.param(64, id="64", marks=pytest.mark.soak)])
def test_the_logs_of_many_pods_over_two_crashes(
    server: LogServer, pumice_cluster: Cluster, api: Api, namespace: str, count: int
) -> None:
    """Each pod prints 200 lines a second. The API server is killed twice; no line is lost, none is doubled."""
    seconds, rate = (30, 200) if SOAK else (6, 200)
    job = StagedJob(api, namespace, replicas=count)
    outputs = []
    for index in range(count):
        job.pod(index, "Running", running())
        outputs.append(ContainerOutput([], False))
        server.outputs[f"train-worker-{index}", False] = outputs[-1]
    job.phases(*RUNNING, running=count)
    config = str(pumice_cluster.kubeconfig(server=server.server, namespace=namespace))
    command = [sys.executable, "-c", MAIN, "logs", "train", "-f", "--json", "--on", "admin", "--kubeconfig", config]
    out = pumice_cluster.folder / f"{namespace}.log"
    with out.open("wb") as file, subprocess.Popen(command, stdout=file) as process:
        eventually("it follows", lambda: server.open_watches >= 2)
        crashes = [seconds // 3, 2 * seconds // 3]
        base, began = int(dt.datetime.fromisoformat(timestamp()).timestamp()), time.monotonic()
        for tick in range(seconds * 10):
            if crashes and tick >= crashes[0] * 10:
                crashes.pop(0)
                server.go_down()
                pumice_cluster.restart_api_server(crash=True)
                server.come_back()
            for index, output in enumerate(outputs):
                # A container that prints faster than its clock ticks: two lines of each time.
                output.lines += [
                    (_stamp(base, tick, line), f"{index} line {tick * rate // 10 + line}") for line in range(rate // 10)
                ]
            time.sleep(max(0.0, began + (tick + 1) / 10 - time.monotonic()))
        for index, output in enumerate(outputs):
            output.ended = True
            job.pod(index, "Succeeded", terminated(0))
        job.phases(*RUNNING, "Completed", succeeded=count)
        assert process.wait(300) == 0
    found: dict[str, list[str]] = {}
    for each in map(json.loads, out.read_text().splitlines()):
        found.setdefault(each["pod"], []).append(each["line"])
    expected = {
        f"worker-{index}": [f"{index} line {number}" for number in range(seconds * rate)] for index in range(count)
    }
    assert {name: len(lines) for name, lines in found.items()} == {name: len(lines) for name, lines in expected.items()}
    assert found == expected


def _stamp(base: int, tick: int, line: int) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(base + tick // 10))
    return f"{moment}.{(tick % 10) * 100_000_000 + line // 2 * 1_000_000:09d}Z"


@pytest.mark.parametrize("command", ["logs -f", "attach", "wait"])
@pytest.mark.parametrize("replaced", [pytest.param(False, id="deleted"), pytest.param(True, id="replaced")])
def test_a_job_that_goes_while_it_is_watched(
    server: LogServer, namespace: str, capsys: pytest.CaptureFixture[str], command: str, *, replaced: bool
) -> None:
    api, words = server.cluster.api(), [*command.split(), "train"]
    job = StagedJob(api, namespace, replicas=1)
    job.pod(0, "Running", running())
    job.phases(*RUNNING, running=1)
    server.outputs["train-worker-0", False] = ContainerOutput([("2026-11-18T12:00:01Z", "before")], False)

    def delete() -> None:
        watches = 1 if words[0] == "wait" else 2
        while server.open_watches < watches:
            time.sleep(0.02)
        api.delete("Job", namespace, "train", {"propagationPolicy": "Orphan"})
        if replaced:
            eventually("it is gone", lambda: api.find("Job", namespace, "train") is None)
            StagedJob(api, namespace, replicas=1)

    deleter = threading.Thread(target=delete)
    deleter.start()
    code = main(words)
    deleter.join()
    shown = capsys.readouterr()
    assert code == (102 if words[0] == "wait" else 2)
    assert shown.err.splitlines()[-2].startswith(("train: was deleted", "train: was replaced by another Job"))
    assert "Traceback" not in shown.err


def test_a_pod_that_is_evicted_while_its_log_is_read(
    server: LogServer, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its log goes with it; the other pod is followed to its end. One node does not answer any more."""
    job = StagedJob(api, namespace, replicas=3)
    for index in range(3):
        job.pod(index, "Running", running())
        lines = [(f"2026-11-18T12:00:0{index + 1}Z", f"of {index}")]
        server.outputs[f"train-worker-{index}", False] = ContainerOutput(lines, False)
    server.silent_nodes.add("train-worker-2")
    job.phases(*RUNNING, running=3)

    def evict() -> None:
        while server.open_watches < 2:
            time.sleep(0.02)
        evicted = server.outputs.pop(("train-worker-0", False))
        api.patch("Pod", namespace, "train-worker-0", {"status": {"phase": "Failed", "reason": "Evicted"}}, "status")
        api.delete("Pod", namespace, "train-worker-0", {"gracePeriodSeconds": 0})
        evicted.ended = True
        other = server.outputs["train-worker-1", False]
        other.lines.append(("2026-11-18T12:00:09Z", "last"))
        other.ended = True
        job.pod(1, "Succeeded", terminated(0))
        job.phases(*RUNNING, "Failed", succeeded=1)

    evictor = threading.Thread(target=evict)
    evictor.start()
    assert main(["logs", "train", "-f", "--no-prefix"]) == 0
    evictor.join()
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["of 0", "of 1", "last"]
    [said] = shown.err.splitlines()
    assert said.startswith("worker-2: its node does not hand out the log: Get https://10.0.0.9:10250/containerLogs/")

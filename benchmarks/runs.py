"""The cost of many stored and queued runs.

Stored: 10,000 finished runs of 200 Jobs, one of each within the last 24 hours. Printed: how long `ps` and `ps -a` take,
without and with the start of the program, as medians, and how often the start of Python they take. The limit of `ps` is
0.1 s without the start.

Queued: the service with 200 runs that wait for room which this program holds. Printed: its memory, and the processor
time that it uses while nothing happens. The limits are 40 MiB and 0.5 % of a core.

Sampled: a run of 64 pods with two processes each. Printed: the processor time of a sample of all pods, and its share of
the ten seconds between two samples. The limit is 0.5 % of a core.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pumice.client.backend import Selection
from pumice.client.local.connections import call
from pumice.client.local.local_backend import LocalBackend
from pumice.engines.local.plain_processes.reaper import descendants
from pumice.engines.local.scheduling.machine import read_machine
from pumice.engines.local.scheduling.reservations import Reservation, Reservations, reservations_directory
from pumice.engines.local.service.on_demand import connected_service
from pumice.model.quantity import Quantity
from pumice.store.files.owner_lock import read_owner
from pumice.store.files.run_store import RECORD, STATUS, RunStore
from pumice.store.files.state_directory import host_name
from pumice.store.run_record import DETACHED, GangPods, RunRecord, RunStatus
from scripts.measuring import memory, processor_seconds, timed

_STORED = 10_000
_NAMES = 200
_QUEUED = 200
_IDLE = 20.0  # seconds
_SAMPLED = 64
_ROUNDS = 30
_PS_ROUNDS = 9


def main() -> int:
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "XDG_STATE_HOME": f"{home}/state", "XDG_RUNTIME_DIR": home}
        _stored(environ)
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "XDG_STATE_HOME": f"{home}/state", "XDG_RUNTIME_DIR": home}
        asyncio.run(_queued(environ))
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "XDG_STATE_HOME": f"{home}/state", "XDG_RUNTIME_DIR": home}
        _sampled(environ, Path(home))
    return 0


def _record(name: str, number: int, **fields: Any) -> RunRecord:
    job = {"metadata": {"name": name}, "spec": {"tasks": [{"name": "worker", "replicas": 2}]}}
    now = dt.datetime.now(dt.UTC)
    uid = str(uuid.uuid4())
    return RunRecord(
        uid=uid,
        namespace="default",
        name=name,
        number=number,
        host=host_name(),
        boot="",
        created=now,
        job=job,
        **fields,
    )


def store_finished_runs(environ: Mapping[str, str]) -> None:
    client = LocalBackend(environ)
    ended = RunStatus(phase="Completed", started=client.now(), finished=client.now(), exit_code=0)
    for each in range(_STORED):
        name, number = f"job-{each % _NAMES}", each // _NAMES + 1
        directory = client.store.runs / "default" / name / str(number)
        directory.mkdir(parents=True)
        (directory / RECORD).write_bytes(msgspec.json.encode(_record(name, number)))
        (directory / STATUS).write_bytes(msgspec.json.encode(ended))
        if number > 1:
            # All but one run of each Job ended long ago.
            os.utime(directory / STATUS, (0, 0))


def _stored(environ: dict[str, str]) -> None:
    store_finished_runs(environ)
    print(f"{_STORED} runs        seconds   with the start of the program   times the start of python")
    for flags in ([], ["-a"]):
        code = "import sys; from pumice.cli.program import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "ps", *flags]
        listed: list[float] = []
        started: list[float] = []
        python: list[float] = []
        for _ in range(_PS_ROUNDS):
            with timed(listed):
                LocalBackend(environ).listing(Selection(everything=bool(flags)))
            for times, called in ((started, command), (python, [sys.executable, "-c", "pass"])):
                with timed(times):
                    subprocess.run(called, env=environ, stdout=subprocess.DEVNULL, check=True)
        listing, program, start = map(statistics.median, (listed, started, python))
        print(f"  ps {' '.join(flags):<10} {listing:10.3f} {program:31.3f} {program / start:27.1f}")


async def _queued(environ: dict[str, str]) -> None:
    state = Path(environ["XDG_STATE_HOME"], "pumice")
    store = RunStore(state)
    await asyncio.to_thread(state.mkdir, parents=True)
    cpus = Quantity.parse(str(len(read_machine().cpus)))
    gang = [GangPods(task="worker", count=1, requests={"cpu": str(cpus)})]
    with Reservations(reservations_directory(store.state), "benchmark") as held:
        with held.locked():
            held.reserve(Reservation({"cpu": cpus}))
        async with connected_service(state, environ) as service:
            for number in range(_QUEUED):
                record = _record(f"job-{number}", 1, mode=DETACHED, gang=gang)
                await service.call("submit", record=msgspec.to_builtins(record))
            status = await service.call("status")
            pid = int(status["pid"])
            await asyncio.sleep(2)
            before = processor_seconds(pid)
            await asyncio.sleep(_IDLE)
            share = (processor_seconds(pid) - before) / _IDLE
            print(f"{status['queued']} queued runs   memory {memory(pid):.1f} MiB   idle {share:.2%} of a core")
            await service.call("retire")


def _sampled(environ: dict[str, str], home: Path) -> None:
    container = {"name": "main", "image": "any", "command": ["sh", "-c", "sleep 600 & sleep 600"]}
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    task = {"name": "worker", "replicas": _SAMPLED, "template": template}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "sampled"}}
    (home / "job.yaml").write_bytes(msgspec.json.encode({**job, "spec": {"tasks": [task]}}))
    command = [sys.executable, "-c", "from pumice.cli.program import main; main()", "run", "job.yaml", "--fit"]
    process = subprocess.Popen(
        command, env=environ, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    os.environ["XDG_RUNTIME_DIR"] = str(home)  # where the socket of the run is
    client = LocalBackend(environ)
    try:
        while not (runs := client.listing(Selection()).runs) or runs[0].pods.running < _SAMPLED:
            if process.poll() is not None:
                raise RuntimeError("the run has ended")
            time.sleep(0.2)
        run = client.find_stored("sampled")
        owner = read_owner(run.directory).pid
        tree = [owner, *descendants([owner])[owner]]
        before = {pid: processor_seconds(pid) for pid in tree}
        for _ in range(_ROUNDS):
            asyncio.run(call(run, "usage"))
        used = sum(processor_seconds(pid) - before[pid] for pid in tree) / _ROUNDS
        print(f"a sample of {_SAMPLED} pods: {used * 1000:.0f} ms of a core, {used / 10:.2%} every ten seconds")
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())

"""Runs for tests of the service: stored runs, and a supervisor that runs no pods but does what its run says."""

from __future__ import annotations

import datetime as dt
import os
import sys
from pathlib import Path

from pumice.store.files.owner_lock import boot_id
from pumice.store.files.state_directory import host_name
from pumice.store.run_record import DETACHED, GangPods, RunRecord

# Notes its beginning, holds the lock until a file with its name appears, notes its end.
SUPERVISOR = """
import pathlib, sys, time
from pumice.store.run_end import RunEnded
from pumice.store.files.owner_lock import OwnerLock
from pumice.engines.local.runs import append
from pumice.store.files.run_store import RunStore
from pumice.model.job import Job
from pumice.model.job import JobState, JobStatus

directory, lock = pathlib.Path(sys.argv[-2]), OwnerLock(int(sys.argv[-1]))
lock.sign()
store = RunStore(directory.parents[3])
run = store.load(directory)
events = open(store.state / "events", "a", buffering=1)
events.write(f"begin {run.ref}\\n")
while not (store.state / f"finish-{run.record.uid}").exists():
    time.sleep(0.02)
events.write(f"end {run.ref}\\n")
append(run, RunEnded(Job(status=JobStatus(state=JobState(phase="Completed")))))
store.finish(run)
"""


def record(tmp_path: Path, uid: str, *, cpu: str = "", name: str = "job", priority: int = 0) -> RunRecord:
    """Return a run for the service; its Python is the supervisor above."""
    script, program = tmp_path / "supervisor.py", tmp_path / "fake-python"
    if not program.exists():
        script.write_text(SUPERVISOR)
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I '{script}' \"$@\"\n")
        program.chmod(0o755)
    return RunRecord(
        uid=uid,
        namespace="default",
        name=name,
        number=0,
        host=host_name(),
        boot=boot_id(),
        created=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        job={},
        mode=DETACHED,
        gang=[GangPods(task="worker", count=1, requests={"cpu": cpu} if cpu else {})],
        priority=priority,
        python=str(program),
    )


def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a user whose service is his own."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)}

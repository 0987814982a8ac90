"""Entries of journals, decoded by several threads at once."""

from __future__ import annotations

import subprocess
import sys

# msgspec crashes if two threads are the first to use a type at the same time, as the service does that recovers runs.
THREADS = """
import sys, threading
from pathlib import Path
import datetime as dt
sys.setswitchinterval(1e-6)
from pumice.store.run_record import RunRecord
from pumice.store.history.run_history import RunHistory

created = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
job = {"spec": {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": {"containers": []}}}]}}
record = RunRecord(uid="u", namespace="n", name="j", number=1, host="", boot="", created=created, job=job)
ready = threading.Barrier(16)
done = []


def work():
    ready.wait()
    done.append(RunHistory(record).damaged)


threads = [threading.Thread(target=work) for _ in range(16)]
[each.start() for each in threads]
[each.join() for each in threads]
assert done == [0] * 16, done
"""


def test_threads_may_be_the_first_to_read_a_history() -> None:
    for _ in range(8):
        done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done

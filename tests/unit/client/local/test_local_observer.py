"""What is kept between two reads of runs, and when it is read again."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pumice.client.local.local_backend import LocalBackend
from pumice.client.local.local_observer import LocalObserver
from pumice.client.local.run_reader import ref_of
from pumice.model import keys
from pumice.store.files.run_store import STATUS, RunStore
from pumice.store.run_errors import NoSuchRun
from scripts.made_runs import Ends, RunMaker, Story, Try

NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
ENDS = [Ends("master-0", 5.2), Ends("worker-0", 5.0), Ends("worker-1", 5.1)]


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[RunMaker]:
    found = RunMaker(RunStore(tmp_path / "pumice"), tmp_path / "jobs", NOW)
    yield found
    for lock in found.locks:
        lock.release()


@pytest.fixture
def observer(tmp_path: Path) -> LocalObserver:
    return LocalBackend({"XDG_STATE_HOME": str(tmp_path)}, now=lambda: NOW).observe()


def test_the_list_is_the_same_object_until_a_run_changes(maker: RunMaker, observer: LocalObserver) -> None:
    maker.make(Story("pytorch-job", [Try(6.0, ENDS)], "Completed"))
    before = asyncio.run(observer.runs())
    assert asyncio.run(observer.runs()) is before
    run = maker.make(Story("pytorch-job", [Try(None)], "Running"))
    now = asyncio.run(observer.runs())
    assert [str(each.ref) for each in now] == ["pytorch-job:2", "pytorch-job:1"]
    assert asyncio.run(observer.runs()) is now
    file = run.directory / STATUS
    modified = file.stat().st_mtime_ns
    run.write_status(run.status())
    # Two writes may come within a tick of the clock of the file system.
    os.utime(file, ns=(modified, modified))
    assert asyncio.run(observer.runs())[0].version != now[0].version


def test_a_history_is_continued_and_one_of_many_is_not_kept(maker: RunMaker, observer: LocalObserver) -> None:
    run = maker.make(Story("pytorch-job", [Try(6.0, ENDS)], "Completed"))
    first, second = (asyncio.run(observer.observe(ref_of(run))) for _ in range(2))
    assert (first.history is second.history, first.is_over, first.has_process) == (True, True, False)
    alone, again = (asyncio.run(LocalObserver(observer.reader).observe(ref_of(run), whole=False)) for _ in range(2))
    assert alone.history is not again.history
    (run.directory / "run.json").unlink()
    with pytest.raises(NoSuchRun):
        asyncio.run(observer.observe(ref_of(run)))


def test_a_run_with_a_process_is_not_over(maker: RunMaker, observer: LocalObserver) -> None:
    run = maker.make(Story("pytorch-job", [Try(None)], "Running"))
    seen = asyncio.run(observer.observe(ref_of(run)))
    assert (seen.is_over, seen.has_process, seen.elsewhere, seen.outcome) == (False, True, "", "Running")
    for lock in maker.locks:
        lock.release()
    maker.locks.clear()
    (run.directory / "owner.lock").write_bytes(b"")
    seen = asyncio.run(observer.observe(ref_of(run)))
    assert (seen.is_over, seen.has_process) == (True, False)


def test_the_newest_pod_of_an_attempt_has_its_manifest(maker: RunMaker, observer: LocalObserver) -> None:
    run = maker.make(Story("pytorch-job", [Try(6.0, ENDS)], "Completed"))
    for number, attempt in ((1, 1), (2, 1), (3, 2)):
        directory = run.directory / "pods" / "worker-0" / str(number)
        directory.mkdir(parents=True, exist_ok=True)
        metadata = {"name": f"pod-{number}", "annotations": {keys.JOB_RETRY_COUNT: str(attempt - 1)}}
        (directory / "pod.json").write_text(json.dumps({"metadata": metadata}))
    found = [asyncio.run(observer.manifest(ref_of(run), "worker-0", attempt)) for attempt in (0, 1, 2, 3)]
    assert [each and each["metadata"]["name"] for each in found] == ["pod-3", "pod-2", "pod-3", None]
    (run.directory / "pods/worker-0/3/pod.json").write_text("{")
    newest = asyncio.run(observer.manifest(ref_of(run), "worker-0"))
    assert newest is not None
    assert newest["metadata"]["name"] == "pod-2"

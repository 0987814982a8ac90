from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from pumice.client.run_history import attempts
from pumice.engines.local.runs.lost_runs import migrate
from pumice.engines.local.runs.run_store import RunStore


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("[]", id="no object"),
        pytest.param('{"metadata": []}', id="no metadata"),
        pytest.param('{"metadata": {"name": "ddp"}}', id="no uid"),
        pytest.param('{"metadata": {"name": "../x", "uid": "u"}}', id="a name that leads elsewhere"),
        pytest.param('{"metadata": {"name": "ddp", "uid": "../u"}}', id="a uid that leads elsewhere"),
        pytest.param('{"metadata": {"name": "ddp", "uid": "u"}, "spec": 7}', id="no spec"),
    ],
)
def test_a_damaged_run_of_an_earlier_version_stays_as_it_is(tmp_path: Path, content: str) -> None:
    store = RunStore(tmp_path / "state")
    old = store.runs / "ddp-de1f79ab"
    old.mkdir(parents=True)
    (old / "job.json").write_text(content)
    for _ in range(2):
        migrate(store)
        assert list(store.all_runs()) == []
        assert (old / "job.json").read_text() == content
        assert [path.name for path in store.runs.iterdir()] == [old.name]
        assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_runs_of_an_earlier_version_get_a_number_once_they_have_ended(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    old = store.runs / "ddp-de1f79ab"
    old.mkdir(parents=True)
    (old / "job.json").write_text(json.dumps({"metadata": {"name": "ddp", "uid": "de1f79ab-1"}}))
    (old / "events.jsonl").write_text('{"type":"verdict","phase":"Failed","code":7,"message":"w-0 failed\\n  more"}\n')
    live = os.open(old, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(live, fcntl.LOCK_EX)
    migrate(store)
    assert list(store.all_runs()) == []
    assert (old / "job.json").is_file()
    os.close(live)
    migrate(store)
    (run,) = store.all_runs()
    assert (run.ref, run.status().phase, run.status().exit_code) == ("ddp:1", "Failed", 7)
    assert (run.status().note, run.status().verdict) == ("w-0 failed", ("w-0 failed", "  more"))
    # It has no journal; its only attempt ended with it.
    assert [each.end for each in attempts(run)] == [run.status().finished]
    assert not old.exists()

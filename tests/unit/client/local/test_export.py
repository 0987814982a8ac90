from __future__ import annotations

import datetime as dt
import io
import tarfile
from pathlib import Path

import pytest

from pumice.client.local.export import export
from pumice.store.files.run_store import RunStore
from pumice.store.redaction import REDACTED, redacted
from scripts.made_jobs import JOBS
from scripts.made_runs import RunMaker, Story, Try


def test_values_of_secret_variables_are_left_out() -> None:
    container = {"name": "main", "env": [{"name": "API_KEY", "value": "x"}, {"name": "EPOCHS", "value": "3"}]}
    found = redacted({"spec": {"containers": [container]}, "settings": {"env": {"HF_TOKEN": "y", "N": "1"}}})
    assert found == {
        "spec": {
            "containers": [
                {"name": "main", "env": [{"name": "API_KEY", "value": REDACTED}, {"name": "EPOCHS", "value": "3"}]}
            ]
        },
        "settings": {"env": {"HF_TOKEN": REDACTED, "N": "1"}},
    }


@pytest.mark.parametrize(
    ("found", "packed"),
    [
        pytest.param({"args": ["--token", "x", "--lr=1"]}, {"args": ["--token", "***", "--lr=1"]}, id="words"),
        pytest.param({"command": ["a", "--api-key=x"]}, {"command": ["a", "--api-key=***"]}, id="one word"),
        pytest.param(
            {"plugins": {"ssh": ["--ssh-private-key=x"]}}, {"plugins": {"ssh": ["--ssh-private-key=***"]}}, id="plugin"
        ),
        pytest.param(
            {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x", "a": "b"}},
            {"annotations": {"a": "b"}},
            id="kubectl",
        ),
    ],
)
def test_secrets_are_left_out_of_words_and_annotations(found: object, packed: object) -> None:
    assert redacted(found) == packed


def test_the_text_of_the_file_is_left_out_too(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "pumice")
    maker = RunMaker(store, tmp_path / "jobs", dt.datetime(2026, 11, 17, tzinfo=dt.UTC))
    text = JOBS["pytorch-job"].replace("DATA_DIR", "API_KEY").replace("/data", "hunter2")
    run = maker.make(Story("pytorch-job", [Try(1.0)], "Completed", text=text))
    assert "hunter2" in (run.directory / "run.json").read_text()
    out = io.BytesIO()
    export(run, out)
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as archive:
        found = {name: archive.extractfile(name) for name in archive.getnames()}
        packed = b"".join(file.read() for file in found.values() if file is not None)
    assert b"API_KEY" in packed
    assert b"hunter2" not in packed

from __future__ import annotations

import datetime as dt
import io
import tarfile
from pathlib import Path

import pytest

from pumice.client.local.export import export
from pumice.store.code.run_code import RecordedFile, RunCode, write_code
from pumice.store.files.run_store import RunStore, StoredRun
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


def _made(tmp_path: Path, text: str) -> StoredRun:
    maker = RunMaker(RunStore(tmp_path / "pumice"), tmp_path / "jobs", dt.datetime(2026, 11, 17, tzinfo=dt.UTC))
    return maker.make(Story("pytorch-job", [Try(1.0)], "Completed", text=text))


def _packed(run: StoredRun) -> dict[str, bytes]:
    out = io.BytesIO()
    export(run, out)
    with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as archive:
        found = {name: archive.extractfile(name) for name in archive.getnames()}
        return {name: file.read() for name, file in found.items() if file is not None}


def test_the_text_of_the_file_is_left_out_too(tmp_path: Path) -> None:
    text = JOBS["pytorch-job"].replace("DATA_DIR", "API_KEY").replace("/data", "hunter2")
    run = _made(tmp_path, text)
    assert "hunter2" in (run.directory / "run.json").read_text()
    packed = b"".join(_packed(run).values())
    assert b"API_KEY" in packed
    assert b"hunter2" not in packed


def test_the_code_of_the_run_is_left_out(tmp_path: Path) -> None:
    run = _made(tmp_path, JOBS["pytorch-job"])
    write_code(run.directory, RunCode(directory="/home/me", files=(RecordedFile(path="train.py", content=b"x = 1"),)))
    assert not [name for name, content in _packed(run).items() if name.endswith("code.json") or b"train.py" in content]

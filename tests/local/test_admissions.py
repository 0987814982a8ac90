"""The rules of admission are checked once for each run, however many processes it passes through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from pumice.admission import admit as admission
from pumice.client.job_files import load
from pumice.engines.local.clock import wall_clock
from pumice.engines.local.preparation.default_settings import default_settings
from pumice.engines.local.supervisor.process import stored_run
from pumice.engines.local.supervisor.submit import check_run
from pumice.model import VERSION
from pumice.model.findings import InvalidJob
from pumice.runtime.offline_context import offline_context, restore_admitted
from pumice.store.files.run_store import RunStore
from pumice.store.options import RunOptions
from pumice.store.run_record import RunRecord
from pumice.store.run_request import JobSource, RunRequest
from tests.local.running import Workspace, job, task
from tests.local.sandbox.boxes import need_namespaces

# The supervisor of a foreground run is a fork of this process, so that it counts in the same file.
COUNTED = """
import sys
import pumice.admission.admit as admission

def counted(*arguments, check=admission._admit):
    with open("admissions", "a") as file:
        file.write("once\\n")
    return check(*arguments)

admission._admit = counted
from pumice.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_foreground_run_is_admitted_once(tmp_path: Path) -> None:
    need_namespaces()
    workspace = Workspace(tmp_path)
    words = ["run", workspace.write(job(task("w", "echo up"))), "--network=job"]
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *words],
        cwd=tmp_path,
        env=workspace.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "w-0  up\n"), done.stderr
    assert (tmp_path / "admissions").read_text() == "once\n"


def test_a_submitted_run_is_admitted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admissions = []
    check = admission._admit

    def counted(*arguments: object) -> admission.Admitted:
        admissions.append(arguments)
        return check(*arguments)  # type: ignore[arg-type]  # whatever it is called with

    monkeypatch.setattr(admission, "_admit", counted)
    file = Workspace(tmp_path).write(job(task("w", "echo up", 2)))
    [document] = load(str(tmp_path / file), offline_context()).jobs
    settings = replace(default_settings(os.environ), workdir=tmp_path, state=tmp_path / "state")
    request = RunRequest(document.admitted, RunOptions(settings), (), JobSource(file))
    checked = check_run(request, wall_clock())
    # As the service stores it, and its supervisor reads it.
    record = msgspec.json.decode(msgspec.json.encode(checked.record), type=RunRecord)
    store = RunStore(settings.state)
    owned = store.create(store.reserve(record.namespace, record.name), record)
    restored = stored_run(owned).request.job
    owned.lock.release()
    assert len(admissions) == 1
    assert restored.job.spec == document.admitted.job.spec
    assert restored.plugins == document.admitted.plugins
    # Another version may have other rules.
    assert restore_admitted(record.job, "0.0.1").job.spec == document.admitted.job.spec
    assert len(admissions) == 2


@pytest.mark.parametrize("version", [VERSION, "0.0.1"])
def test_a_job_with_a_plugin_that_is_missing_here_does_not_start_without_it(version: str) -> None:
    """The Python of a supervisor is isolated: a plugin that its client found by PYTHONPATH is not there."""
    document = job(task("w", "echo up"), plugins={"elsewhere": []})
    with pytest.raises(InvalidJob, match=r"spec\.plugins\.elsewhere"):
        restore_admitted(document, version)

from __future__ import annotations

from pathlib import Path

from pumice.diagnosis.code_change import CodeChange
from pumice.engines.local.code_watch import CodeWatch
from pumice.store.code.recording import record_code
from pumice.store.events import CodeChanged, RunEvent
from pumice.store.settings import Settings
from tests.async_tests import async_test
from tests.unit.store.code.repositories import write


@async_test
async def test_what_a_short_run_ran_is_known_at_its_end(tmp_path: Path) -> None:
    """Its pods may end before the code is compared."""
    work, run = tmp_path / "work", tmp_path / "run"
    write(work, {"train.py": "old"})
    run.mkdir()
    record_code(Settings(workdir=work, state=tmp_path / "state"), run)
    write(work, {"train.py": "new"})
    events = list[RunEvent]()
    watch = CodeWatch(run, events.append)
    watch.look()
    assert events == []
    await watch.finish()
    assert events == [CodeChanged(CodeChange(files=("train.py",), count=1))]

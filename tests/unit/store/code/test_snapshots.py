from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.store.code.beneath import Directory
from pumice.store.code.snapshots import SNAPSHOT, SNAPSHOT_LIST, Snapshot, adopt_snapshot, created_files, take_snapshot
from pumice.store.run_errors import InvalidOption
from pumice.store.settings import Settings
from tests.unit.store.code.deep_trees import deep_tree
from tests.unit.store.code.repositories import write


def test_a_file_that_grows_while_it_is_copied_does_not_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size was looked at before. A pod of another run may write to the working directory meanwhile."""
    work, state = tmp_path / "work", tmp_path / "state"
    write(work, {"a.py": "", "grows.py": "x"})

    def growing(directory: Directory, path: str) -> int:
        if path == "grows.py":
            os.truncate(work / path, 1 << 40)
        return opened(directory, path)

    opened = Directory.open
    monkeypatch.setattr(Directory, "open", growing)
    with pytest.raises(InvalidOption, match=r"grows\.py has become larger than can be copied"):
        take_snapshot(Settings(workdir=work, state=state), "uid")
    assert not (state / "snapshots" / "uid").exists()


def test_names_that_are_no_text_stay_live(tmp_path: Path) -> None:
    work, state, run = tmp_path / "work", tmp_path / "state", tmp_path / "run"
    write(work, {"a.py": "a"})
    Path(os.fsdecode(os.fsencode(work) + b"/\xff.py")).touch()
    (work / "link").symlink_to(os.fsdecode(b"\xff"))
    run.mkdir()
    settings = Settings(workdir=work, state=state)
    take_snapshot(settings, "uid")
    assert adopt_snapshot(settings, run, "uid") == Snapshot(run / SNAPSHOT, ("\udcff.py",))
    assert sorted(path.name for path in (run / SNAPSHOT).iterdir()) == ["a.py", "link", "\udcff.py"]


def test_what_pods_create_is_listed_at_any_depth(tmp_path: Path) -> None:
    made = tmp_path / SNAPSHOT
    write(made, {"a.py": "", "data/live.txt": "", "new.txt": "", "lib/new.txt": "", "__pycache__/a.pyc": ""})
    (tmp_path / SNAPSHOT_LIST).write_text('["a.py"]')
    with deep_tree(made, "deep", 1200):
        assert created_files(tmp_path, Snapshot(made, ("data",))) == [f"{made}/new.txt", f"{made}/lib/new.txt"]
        assert created_files(tmp_path, Snapshot(made, ("data", "lib", "new.txt"))) == []

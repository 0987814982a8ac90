from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.store.files.state_directory import once_per_machine, state_problem


def test_once_per_machine(tmp_path: Path) -> None:
    warnings: list[str] = []
    for message in ("a", "a", "b"):
        once_per_machine(tmp_path, warnings.append)(message)
    assert warnings == ["a", "b"]
    once_per_machine(tmp_path / "missing" / "directory", warnings.append)("a")
    assert warnings == ["a", "b", "a"]


@pytest.mark.parametrize("exists", [True, False], ids=["exists", "does not exist"])
def test_a_state_directory_of_another_user(exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint suggests to take over the state directory, but never its parents."""
    state = tmp_path if exists else tmp_path / "state"
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    text = state_problem(state, PermissionError(13, "Permission denied", str(state / "runs" / "a"))).text
    assert text.startswith(f"{state}/runs/a: permission denied, so nothing can be stored in {state}\n  hint: ")
    assert (f"sudo chown -R {mine + 1} {state}, or set XDG_STATE_HOME" in text) == exists

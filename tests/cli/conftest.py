from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """A terminal in an empty folder, so that files have short names."""
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path, capsys)

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pumice.engines.local.daemon.background import last_lines

WRITER = """
import pathlib, sys
from pumice.engines.local.daemon.background import RotatedLog
log = RotatedLog(pathlib.Path(sys.argv[1]), limit=1000)
for number in range(30):
    log.write(f"line {number} " + "x" * 60)
raise ValueError("last words")
"""


def test_a_new_file_begins_at_the_limit(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("ab") as output:
        command = [sys.executable, "-I", "-c", WRITER, str(log)]
        subprocess.run(command, stdout=output, stderr=output, check=False)
    assert (tmp_path / "log.1").stat().st_size < 1200
    assert "line 29" in log.read_text()
    assert "line 29" not in (tmp_path / "log.1").read_text()
    assert last_lines(log, 1) == ["ValueError: last words"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1"]


def test_the_last_lines_of_no_log(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "log") == []

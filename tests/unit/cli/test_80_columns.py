"""On a real terminal of 80 columns no line is wider, and no word is cut."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pumice.plugins.registry import BUILTINS
from tests.unit.cli.running import EXAMPLES, JOB
from tests.unit.cli.screens import OnTerminal

COLUMNS = 80
# All calls of a test in one process, because it takes a while to start.
CALLS = """
import ast, sys
from pumice.cli.main import main
for words in ast.literal_eval(sys.argv[1]):
    main(words)
"""


def _lines(calls: Sequence[Sequence[str]], cwd: Path) -> list[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm", "LANG": "C.UTF-8"}
    environ.pop("COLUMNS", None)
    argv = [sys.executable, "-c", CALLS, repr([list(words) for words in calls])]
    terminal = OnTerminal(argv, cwd, environ, COLUMNS)
    assert terminal.read_to_end() == 0
    return terminal.screen.lines


def _too_wide(lines: Sequence[str]) -> list[str]:
    """A single word cannot be broken; it is alone in its line."""
    return [line for line in lines if len(line) > COLUMNS and " " in line.strip()]


@pytest.mark.parametrize("command", ["validate", "explain", "simulate"])
def test_every_example_fits(command: str) -> None:
    files = sorted(f"examples/{file.name}" for file in EXAMPLES.glob("*.yaml"))
    lines = _lines([(command, file) for file in files], EXAMPLES.parent)
    assert len(lines) > len(files)
    assert _too_wide(lines) == []
    if command == "explain":
        # A reason that needs several lines stays in its column.
        assert re.search(r"\n {40,}\S", "\n".join(lines))


def test_every_plugin_fits() -> None:
    lines = _lines([("plugins",), *(("plugins", plugin) for plugin in BUILTINS)], EXAMPLES)
    assert _too_wide(lines) == []
    words = {word for line in lines for word in line.split()}
    assert {"(PET_NPROC_PER_NODE);", "--wait-master-timeout", "--publish-not-ready-addresses"} <= words


def test_findings_fit(tmp_path: Path) -> None:
    bad = JOB.replace("image: busybox", "image: busybox\n          imagePulPolicy: IfNotPresent").replace(
        "tasks:", 'plugins: {pytorch: ["--wrker=w"]}\n  tasks:'
    )
    (tmp_path / "job.yaml").write_text(bad, encoding="utf-8")
    lines = _lines([("validate", "job.yaml")], tmp_path)
    assert _too_wide(lines) == []
    assert max(map(len, lines)) > COLUMNS // 2
    text = " ".join(line.strip() for line in lines)
    assert "hint: did you mean --worker? pytorch takes --master, --worker, --port," in text

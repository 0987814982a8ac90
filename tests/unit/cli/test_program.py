"""The program `pumice`: it ends without a traceback on Ctrl-C while it loads or exits, and loses no output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.unit.cli.screens import OnTerminal

ROOT = Path(__file__).parents[3]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
MODULE, FUNCTION = SCRIPTS["pumice"].split(":")

# The script of an installed program, with Ctrl-C pressed at the given moment.
PROGRAM = f"""
import atexit, os, signal, sys
MOMENT = sys.argv.pop(1)

def press():
    os.kill(os.getpid(), signal.SIGINT)

class Impatient:
    def find_spec(self, name, *_):
        if name == MOMENT:
            press()

sys.meta_path.insert(0, Impatient())
if MOMENT == "at the end":
    atexit.register(press)
from {MODULE} import {FUNCTION}
sys.exit({FUNCTION}())
"""


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("pumice.cli.main", id="first"),
        pytest.param("argparse", id="early"),
        pytest.param("pumice.cli.offline.schema", id="command"),
        pytest.param("msgspec", id="library"),
        pytest.param("at the end", id="end"),
    ],
)
def test_an_interrupt_prints_nothing(moment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, moment, "schema"], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_other_errors_are_printed() -> None:
    program = f"import sys; sys.argv = None; from {MODULE} import {FUNCTION}; {FUNCTION}()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1
    assert done.stderr.endswith("TypeError: 'NoneType' object is not subscriptable\n")


def test_a_traceback_on_a_terminal_is_escaped(tmp_path: Path) -> None:
    """A program that fails prints what it read; a message may quote a job."""
    module = MODULE.replace("program", "main")
    fail = f"import {module} as other\ndef fail(): raise ValueError('a\\x1b]0;title\\x07\\u202e')\nother.main = fail\n"
    program = f"{fail}from {MODULE} import {FUNCTION}; {FUNCTION}()"
    terminal = OnTerminal([sys.executable, "-c", program], tmp_path, {**os.environ, "LANG": "C.UTF-8"}, columns=200)
    assert terminal.read_to_end() == 1
    assert terminal.raw.endswith(b"ValueError: a\\x1b]0;title\\x07\\u202e\r\n")
    assert b"\x1b" not in terminal.raw


def test_output_is_complete_and_exit_handlers_run() -> None:
    last = "atexit.register(sys.stderr.write, 'last words')"
    program = f"import atexit, sys; {last}; from {MODULE} import {FUNCTION}; sys.exit({FUNCTION}())"
    schema, unknown = (
        subprocess.run([sys.executable, "-c", program, *words], capture_output=True, timeout=PATIENCE, check=False)
        for words in (["schema"], ["schema", "no-such-kind"])
    )
    assert isinstance(json.loads(schema.stdout), dict)
    assert (schema.returncode, schema.stderr) == (0, b"last words")
    assert unknown.returncode == 2
    assert unknown.stderr.endswith(b"last words")


def test_program_imports_only_what_python_has_loaded() -> None:
    script = f"import sys; had = set(sys.modules); import {MODULE}; print(*sorted(set(sys.modules) - had))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.split() == sorted(["__future__", "pumice", "pumice.cli", MODULE])
